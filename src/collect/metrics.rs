//! Metrics of a collector in the Prometheus text format.

use std::fmt::Write as _;

use super::collector::Collector;
use super::plan::PlanSizes;
use crate::calendar::UnixSeconds;

/// Kind of a metric.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// Everything that the metrics are read from.
pub(super) struct Figures<'a> {
    pub(super) collector: &'a Collector,
    pub(super) sizes: PlanSizes,
    pub(super) rate: f64,
}

type Reader = fn(&Figures<'_>) -> f64;

/// All metrics: name, help, kind, value.
const TABLE: &[(&str, &str, Kind, Reader)] = &[
    (
        "requests_usable_total",
        "Responses that were used.",
        Kind::Counter,
        |it| whole(it.collector.counts.usable),
    ),
    (
        "requests_throttled_total",
        "Responses by which the upstream asked for fewer requests.",
        Kind::Counter,
        |it| whole(it.collector.counts.throttled),
    ),
    (
        "requests_gone_total",
        "404 responses.",
        Kind::Counter,
        |it| whole(it.collector.counts.gone),
    ),
    (
        "requests_rejected_total",
        "400 responses.",
        Kind::Counter,
        |it| whole(it.collector.counts.rejected),
    ),
    (
        "requests_broken_total",
        "Requests without a usable response.",
        Kind::Counter,
        |it| whole(it.collector.counts.broken),
    ),
    (
        "requests_given_up_total",
        "Requests postponed after three failures in a row.",
        Kind::Counter,
        |it| whole(it.collector.counts.given_up),
    ),
    (
        "values_refused_total",
        "Values out of range, left out.",
        Kind::Counter,
        |it| whole(it.collector.counts.refused),
    ),
    (
        "values_revised_total",
        "Rows of daily files that the upstream revised.",
        Kind::Counter,
        |it| whole(it.collector.counts.revised),
    ),
    (
        "codes_skipped_total",
        "Catalogue rows whose code is not an island's.",
        Kind::Counter,
        |it| whole(it.collector.counts.cleaned.codes),
    ),
    (
        "fields_cleaned_total",
        "Titles, creators and tags that were cut or cleaned.",
        Kind::Counter,
        |it| {
            let cleaned = it.collector.counts.cleaned;
            whole(cleaned.titles + cleaned.creators + cleaned.tags)
        },
    ),
    ("islands", "Islands in the plan.", Kind::Gauge, |it| {
        count(it.sizes.islands)
    }),
    (
        "islands_at_risk",
        "Islands of which a day leaves the upstream's window in under 36 h.",
        Kind::Gauge,
        |it| count(it.sizes.at_risk),
    ),
    (
        "islands_fresh_due",
        "Active islands not yet asked for yesterday.",
        Kind::Gauge,
        |it| count(it.sizes.fresh),
    ),
    (
        "islands_unasked",
        "Islands that were never asked.",
        Kind::Gauge,
        |it| count(it.sizes.unasked),
    ),
    (
        "islands_gone",
        "Islands that the upstream does not show any more.",
        Kind::Gauge,
        |it| count(it.sizes.gone),
    ),
    (
        "rate",
        "Current limit in requests a second.",
        Kind::Gauge,
        |it| it.rate,
    ),
    (
        "last_usable_timestamp_seconds",
        "Time of the last usable response.",
        Kind::Gauge,
        |it| time(it.collector.counts.last_usable),
    ),
    (
        "live_step_timestamp_seconds",
        "Newest live step that was asked for.",
        Kind::Gauge,
        |it| time(it.collector.progress.live_step),
    ),
    (
        "full_crawl_timestamp_seconds",
        "End of the last crawl of the whole catalogue.",
        Kind::Gauge,
        |it| time(it.collector.progress.full_crawl),
    ),
    (
        "merge_timestamp_seconds",
        "Last merge of collected days into the dataset.",
        Kind::Gauge,
        |it| time(it.collector.progress.merged),
    ),
    (
        "complete_day_timestamp_seconds",
        "Newest day of which all active islands were asked.",
        Kind::Gauge,
        |it| time(i64::from(it.collector.progress.complete_day) * crate::calendar::DAY_SECONDS),
    ),
];

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn whole(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn count(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "times stay far below 2^53")]
fn time(seconds: i64) -> f64 {
    seconds as f64
}

/// Returns the page of metrics.
pub(super) fn page(collector: &mut Collector, rate: f64, now: UnixSeconds) -> String {
    let sizes = collector.sizes(now);
    let figures = Figures {
        collector,
        sizes,
        rate,
    };
    let mut page = String::new();
    for (name, help, kind, read) in TABLE {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let name = format!("island_metrics_collect_{name}");
        let value = read(&figures);
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
        );
    }
    page
}
