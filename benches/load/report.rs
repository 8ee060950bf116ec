//! The results, as medians and as CSV.

use crate::cases::{Case, Kind};
use crate::common::prelude::*;
use crate::rounds::Record;

/// The servers that others are compared with: three of them, or the release server with a cached page.
const BASES: [Kind; 4] = [Kind::Hyper, Kind::Epoll, Kind::Nginx, Kind::Cached];

/// The medians of one server in one case.
pub(crate) struct Row {
    pub(crate) case: usize,
    pub(crate) kind: Kind,
    pub(crate) cpu: f64,
    /// Ratios of CPU time to each of [`BASES`]; NaN without this server in the case.
    pub(crate) ratios: [f64; 4],
}

pub(crate) fn rows(cases: &[Case], records: &[Record]) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in 0..cases.len() {
        let cpus = |kind: Kind| {
            let mine = records.iter().filter(|r| r.case == case && r.kind == kind);
            mine.map(|r| r.busy.cpu).collect::<Vec<f64>>()
        };
        for kind in Kind::ALL.into_iter().filter(|kind| !cpus(*kind).is_empty()) {
            rows.push(Row {
                case,
                kind,
                cpu: median(cpus(kind)),
                ratios: BASES.map(|base| median_ratio(&cpus(kind), &cpus(base))),
            });
        }
    }
    rows
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
