//! The results, as a table and as CSV.

use std::fmt::Write as _;

use crate::cases::{Case, Kind};
use crate::common::stats::{median, median_ratio};
use crate::rounds::Record;

/// The servers that all are compared with.
const BASES: [Kind; 3] = [Kind::Hyper, Kind::Epoll, Kind::Nginx];

/// The medians of one server in one case.
pub(crate) struct Row {
    pub(crate) case: usize,
    pub(crate) kind: Kind,
    pub(crate) cpu: f64,
    throughput: f64,
    latencies: [f64; 3],
    /// Ratios of CPU time to each of [`BASES`].
    pub(crate) ratios: [f64; 3],
    /// Ratio of CPU time to the cached page.
    pub(crate) cached: f64,
}

/// One row for each server of each case.
pub(crate) fn rows(cases: &[Case], records: &[Record]) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in 0..cases.len() {
        let of = |kind: Kind| {
            let mine = records
                .iter()
                .filter(move |r| r.case == case && r.kind == kind);
            mine.collect::<Vec<&Record>>()
        };
        let cpus = |kind: Kind| of(kind).iter().map(|r| r.busy.cpu).collect::<Vec<f64>>();
        for kind in Kind::ALL {
            let mine = of(kind);
            if mine.is_empty() {
                continue;
            }
            let against = |base: Kind| median_ratio(&cpus(kind), &cpus(base));
            rows.push(Row {
                case,
                kind,
                cpu: median(cpus(kind)),
                throughput: median(mine.iter().map(|r| r.busy.throughput)),
                latencies: [0, 1, 2].map(|at| median(mine.iter().map(|r| r.latencies[at]))),
                ratios: BASES.map(against),
                cached: against(Kind::Cached),
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

pub(crate) fn table(cases: &[Case], rows: &[Row]) -> String {
    let mut text = String::new();
    for (at, case) in cases.iter().enumerate() {
        let compared = case.contestants.iter().all(|one| one.kind != Kind::Cached);
        let heads = if compared {
            ["/hyper", "/epoll", "/nginx"]
        } else {
            ["/cached", "", ""]
        };
        let _ = writeln!(
            text,
            "\n{}: {} bytes; latencies at {:.0} requests/s",
            case.name,
            case.bytes,
            case.requests_per_second()
        );
        let _ = writeln!(
            text,
            "  {:<16}{:>9}{:>12}{:>9}{:>9}{:>9}{:>9}{:>8}{:>8}",
            "", "CPU us", "requests/s", "p50 us", "p99", "p99.9", heads[0], heads[1], heads[2]
        );
        for row in rows.iter().filter(|row| row.case == at) {
            let ratios = if compared {
                row.ratios.map(shown)
            } else {
                [shown(row.cached), String::new(), String::new()]
            };
            let [p50, p99, p999] = row.latencies;
            let _ = writeln!(
                text,
                "  {:<16}{:>9.2}{:>12.0}{p50:>9.0}{p99:>9.0}{p999:>9.0}{:>9}{:>8}{:>8}",
                row.kind.name(),
                row.cpu,
                row.throughput,
                ratios[0],
                ratios[1],
                ratios[2]
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
        let [hyper, epoll, nginx] = row.ratios.map(shown);
        let _ = writeln!(
            text,
            "\"{}\",{},{},{:.2},{:.0},{rate:.0},{p50:.0},{p99:.0},{p999:.0},{hyper},{epoll},{nginx},{}",
            case.name,
            case.bytes,
            row.kind.name(),
            row.cpu,
            row.throughput,
            shown(row.cached)
        );
    }
    text
}
