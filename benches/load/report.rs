//! The results, as a table and as CSV.

use std::fmt::{Display, Write as _};

use crate::cases::{Case, Kind};
use crate::common::stats::{median, median_ratio};
use crate::rounds::Record;

/// The servers that others are compared with: three of them, or the release server with a cached page.
const BASES: [Kind; 4] = [Kind::Hyper, Kind::Epoll, Kind::Nginx, Kind::Cached];

/// The medians of one server in one case.
pub(crate) struct Row {
    pub(crate) case: usize,
    pub(crate) kind: Kind,
    pub(crate) cpu: f64,
    throughput: f64,
    latencies: [f64; 3],
    /// Ratios of CPU time to each of [`BASES`]; NaN without this server in the case.
    pub(crate) ratios: [f64; 4],
}

/// One row for each server of each case.
pub(crate) fn rows(cases: &[Case], records: &[Record]) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in 0..cases.len() {
        let of = |kind: Kind, value: &dyn Fn(&Record) -> f64| {
            let mine = records.iter().filter(|r| r.case == case && r.kind == kind);
            mine.map(value).collect::<Vec<f64>>()
        };
        let cpus = |kind: Kind| of(kind, &|r| r.busy.cpu);
        for kind in Kind::ALL.into_iter().filter(|kind| !cpus(*kind).is_empty()) {
            rows.push(Row {
                case,
                kind,
                cpu: median(cpus(kind)),
                throughput: median(of(kind, &|r| r.busy.throughput)),
                latencies: [0, 1, 2].map(|at| median(of(kind, &|r| r.latencies[at]))),
                ratios: BASES.map(|base| median_ratio(&cpus(kind), &cpus(base))),
            });
        }
    }
    rows
}

/// A ratio; empty if there is no server to compare with.
fn shown(ratio: f64) -> String {
    if ratio.is_nan() {
        String::new()
    } else {
        format!("{ratio:.2}")
    }
}

/// Columns of ratios.
fn columns(cells: &[impl Display]) -> String {
    let cells = cells.iter().map(|cell| format!("{cell:>8}"));
    cells.collect::<Vec<_>>().concat()
}

pub(crate) fn table(cases: &[Case], rows: &[Row]) -> String {
    let mut text = String::new();
    for (at, case) in cases.iter().enumerate() {
        let is_compared = case.contestants.iter().all(|one| one.kind != Kind::Cached);
        let bases = if is_compared { 0..3 } else { 3..4 };
        let heads = &["/hyper", "/epoll", "/nginx", "/cached"][bases.clone()];
        let _ = writeln!(
            text,
            "\n{}: {} bytes; latencies at {:.0} requests/s",
            case.name,
            case.bytes,
            case.requests_per_second()
        );
        let _ = writeln!(
            text,
            "  {:<16}{:>9}{:>12}{:>9}{:>9}{:>9} {}",
            "",
            "CPU us",
            "requests/s",
            "p50 us",
            "p99",
            "p99.9",
            columns(heads)
        );
        for row in rows.iter().filter(|row| row.case == at) {
            let [p50, p99, p999] = row.latencies;
            let _ = writeln!(
                text,
                "  {:<16}{:>9.2}{:>12.0}{p50:>9.0}{p99:>9.0}{p999:>9.0} {}",
                row.kind.name(),
                row.cpu,
                row.throughput,
                columns(&row.ratios.map(shown)[bases.clone()])
            );
        }
    }
    text
}

/// All rounds, a line for each server and case.
pub(crate) fn raw_csv(cases: &[Case], records: &[Record]) -> String {
    let mut text = String::from(
        "round,case,bytes,server,cpu_us,waited,requests_per_s,open_loop_per_s,p50_us,p99_us,p999_us\n",
    );
    for record in records {
        let case = &cases[record.case];
        let rate = case.requests_per_second();
        let [p50, p99, p999] = record.latencies;
        let _ = writeln!(
            text,
            "{},\"{}\",{},{},{:.3},{:.3},{:.0},{rate:.0},{p50:.1},{p99:.1},{p999:.1}",
            record.round,
            case.name,
            case.bytes,
            record.kind.name(),
            record.busy.cpu,
            record.busy.waited,
            record.busy.throughput
        );
    }
    text
}

/// The medians, and the ratios of the table.
pub(crate) fn median_csv(cases: &[Case], rows: &[Row]) -> String {
    let mut text = String::from(
        "case,bytes,server,cpu_us,requests_per_s,open_loop_per_s,p50_us,p99_us,p999_us,\
         to_hyper,to_epoll,to_nginx,to_cached\n",
    );
    for row in rows {
        let case = &cases[row.case];
        let rate = case.requests_per_second();
        let [p50, p99, p999] = row.latencies;
        let ratios = row.ratios.map(shown).join(",");
        let _ = writeln!(
            text,
            "\"{}\",{},{},{:.2},{:.0},{rate:.0},{p50:.0},{p99:.0},{p999:.0},{ratios}",
            case.name,
            case.bytes,
            row.kind.name(),
            row.cpu,
            row.throughput
        );
    }
    text
}
