//! The table, as printed and as `--save` writes it to `benches/README.md`.

use crate::cases::{Case, Kind};
use crate::common::prelude::*;
use crate::report::Row;

/// Lines around the table.
const BEGIN: &str = "<!-- table of benches/load -->\n";
const END: &str = "<!-- end of table -->\n";

const HEAD: &str = "\
| case | bytes | µs | bare hyper | epoll loop | axum | actix-web | nginx | tuned | to hyper | to epoll | to nginx |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";

/// Replaces the table.
pub(crate) fn update(path: &Path, cases: &[Case], rows: &[Row]) -> Outcome<()> {
    let text = fs::read_to_string(path)?;
    let missing = || format!("{} has no lines around a table", path.display());
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    let table = table(cases, rows);
    write_file(path, format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

pub(crate) fn table(cases: &[Case], rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    let mut uncached = String::new();
    for (at, case) in cases.iter().enumerate() {
        let of = |kind: Kind| rows.iter().find(|row| row.case == at && row.kind == kind);
        let Some(real) = of(Kind::Real) else { continue };
        let [ratios @ .., cached] = real.ratios;
        if !cached.is_nan() {
            let _ = writeln!(
                uncached,
                "- {}: {:.2} µs, **{cached:.2}** times a page from the cache",
                case.name, real.cpu
            );
            continue;
        }
        let _ = write!(
            text,
            "| {} | {} | **{:.2}** |",
            case.name,
            grouped(case.bytes),
            real.cpu
        );
        // `Kind::ALL` has the order of the columns.
        let others = Kind::ALL.into_iter();
        for kind in others.filter(|kind| !matches!(kind, Kind::Real | Kind::Cached)) {
            let cpu = of(kind).map_or(String::new(), |row| format!("{:.2}", row.cpu));
            let _ = write!(text, " {cpu} |");
        }
        for ratio in ratios {
            let _ = write!(text, " **{ratio:.2}** |");
        }
        text.push('\n');
    }
    format!("{text}\n{uncached}")
}

/// `20544` as `20,544`.
fn grouped(number: usize) -> String {
    let (thousands, rest) = (number / 1000, number % 1000);
    if thousands == 0 {
        rest.to_string()
    } else {
        format!("{},{rest:03}", grouped(thousands))
    }
}
