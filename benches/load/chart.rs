//! SVG chart: a panel for each case with a bar for each server; each panel has its own scale.

use std::fmt::Write as _;

use crate::cases::{Case, Kind};
use crate::report::Row;

const COLUMNS: usize = 3;
const PANEL_WIDTH: usize = 300;
const BAR_HEIGHT: usize = 18;
const TITLE_HEIGHT: usize = 30;
/// Left end of the bars, and length of the longest.
const BAR_LEFT: usize = 104;
const BAR_LENGTH: f64 = 140.0;
const TOP: usize = 44;

/// Colors for light and dark pages; the release server is highlighted.
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1f2328}\
.t{font-weight:600}.v{font-size:11px}.n{text-anchor:end}\
rect{fill:#8c959f}.r{fill:#0969da}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#6e7681}.r{fill:#4493f8}}";

/// Server CPU time a request.
pub(crate) fn svg(cases: &[Case], rows: &[Row]) -> String {
    let panels: Vec<Vec<&Row>> = (0..cases.len())
        .map(|case| rows.iter().filter(|row| row.case == case).collect())
        .filter(|panel: &Vec<&Row>| panel.iter().all(|row| row.kind != Kind::Cached))
        .collect();
    let bars = panels.iter().map(Vec::len).max().unwrap_or(0);
    let panel_height = TITLE_HEIGHT + bars * BAR_HEIGHT + 14;
    let (width, height) = (
        COLUMNS * PANEL_WIDTH,
        TOP + panels.len().div_ceil(COLUMNS) * panel_height,
    );
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"Server CPU per request, by case and server\">\n<style>{STYLE}</style>\n"
    );
    let _ = writeln!(
        out,
        "<text class=\"t\" x=\"8\" y=\"22\">Server CPU per request in µs, medians; less is \
         better, each panel has its own scale</text>"
    );
    for (at, panel) in panels.iter().enumerate() {
        let (x, y) = (
            at % COLUMNS * PANEL_WIDTH,
            TOP + at / COLUMNS * panel_height,
        );
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
        let longest = panel.iter().map(|row| row.cpu).fold(0.0, f64::max);
        let name = cases[panel[0].case].name;
        let _ = writeln!(out, "<text class=\"t\" x=\"8\" y=\"16\">{name}</text>");
        for (bar, row) in panel.iter().enumerate() {
            let top = TITLE_HEIGHT + bar * BAR_HEIGHT - 6;
            let length = row.cpu / longest * BAR_LENGTH;
            let is_real = row.kind == Kind::Real;
            let class = if is_real { " class=\"r\"" } else { "" };
            let (name, cpu, y) = (row.kind.name(), row.cpu, top + 11);
            let (name_x, cpu_x) = (BAR_LEFT - 6, BAR_LEFT as f64 + length + 5.0);
            let height = BAR_HEIGHT - 4;
            let _ = writeln!(
                out,
                "<text class=\"n\" x=\"{name_x}\" y=\"{y}\">{name}</text>\
                 <rect{class} x=\"{BAR_LEFT}\" y=\"{top}\" width=\"{length:.1}\" height=\"{height}\" rx=\"2\"/>\
                 <text class=\"v\" x=\"{cpu_x:.1}\" y=\"{y}\">{cpu:.2}</text>"
            );
        }
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}
