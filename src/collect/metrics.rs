//! State of a collector: its metrics in the Prometheus text format, and the summary of `--plan`.
//!
//! A metric is one row: its kind, name and help, and the function that writes its samples.

use super::catalogue;
use super::collector::Collector;
use super::dataset_files::Dataset;
use super::endpoints::Endpoint;
use super::error::Result;
use super::plan::{self, PlanSizes};
use super::reply::Outcome;
use super::save;
use super::settings::{CollectSettings, check};
use super::store::{Store, Task};
use crate::calendar::UnixSeconds;
use crate::model::METRIC_NAMES;
use crate::observe::{Exposition, Metric, metrics, process};

type WriteSamples = fn(&Collector, &mut Exposition);

/// Returns a number of the database; 0 if it cannot be read, which the loop logs.
fn task(collector: &Collector, task: Task) -> i64 {
    collector.store.task(task).unwrap_or(0)
}

/// All metrics except those of the process, in the order of the page.
const METRICS: &[Metric<WriteSamples>] = metrics! {
    Counter "island_metrics_collect_responses_total"
        "Responses by endpoint and result. usable, null: a day without a value; vanished: a day has no value although an earlier response had one, the newest has none although one of the two before it has one, or a day has values but no peak although the day before it has one; gone: 404; doubtful: not believed yet; throttled: the upstream requires fewer requests; rejected: 400; broken: no response, or an unusable one."
        |it, page| {
            for (endpoint, name) in Endpoint::ALL {
                for (outcome, result) in Outcome::ALL {
                    let count = it.breaker(endpoint).counts[outcome as usize];
                    page.sample(&[("endpoint", &name), ("result", &result)], count);
                }
            }
        };
    Counter "island_metrics_collect_values_refused_total"
        "Values that were left out because they are out of range."
        |it, page| page.value(it.counts.refused);
    Counter "island_metrics_collect_values_revised_total"
        "Rows of daily files that changed because the upstream revised them."
        |it, page| page.value(it.counts.revised);
    Counter "island_metrics_collect_codes_skipped_total"
        "Catalogue rows without an island's code, a title and a list of tags."
        |it, page| page.value(it.counts.skipped);
    Gauge "island_metrics_collect_islands"
        "Islands in the plan."
        |it, page| page.value(it.sizes.islands);
    Gauge "island_metrics_collect_islands_due"
        "Islands to request now. fresh: active; unasked: never requested; inactive: at the end of their back-off."
        |it, page| {
            let PlanSizes { fresh, never_requested, inactive_due, .. } = it.sizes;
            for (what, count) in [("fresh", fresh), ("unasked", never_requested), ("inactive", inactive_due)] {
                page.sample(&[("what", &what)], count);
            }
        };
    Gauge "island_metrics_collect_islands_at_risk"
        "Islands with a day that leaves the upstream's window within 36 hours."
        |it, page| page.value(it.sizes.at_risk);
    Gauge "island_metrics_collect_islands_gone"
        "Islands that the upstream no longer lists."
        |it, page| page.value(it.sizes.gone);
    Gauge "island_metrics_collect_islands_active"
        "Islands with a value in the upstream's window."
        |it, page| page.value(it.sizes.active);
    Gauge "island_metrics_collect_players"
        "Sum of the last daily peaks of active islands, without peaks below 20. known: all; contradicted: of islands whose last response, of the last 24 hours, was a 404, or lacked a value that an earlier one had, that of the newest day after it had settled, or the peak among other values."
        |it, page| {
            page.sample(&[("what", &"known")], it.sizes.players);
            page.sample(&[("what", &"contradicted")], it.sizes.contradicted_players);
        };
    Gauge "island_metrics_collect_islands_postponed"
        "Islands that failed, whose last response lacked a day, or whose 404 is not believed, and whose pause has not ended. They are requested again within six hours."
        |it, page| page.value(it.sizes.postponed);
    Gauge "island_metrics_collect_next_loss_timestamp_seconds"
        "Time at which the first day that was not read leaves the upstream's window, in Unix seconds."
        |it, page| page.optional(it.sizes.next_loss);
    Gauge "island_metrics_collect_rate_limit"
        "Current limit in requests per second; lower than --rate after the upstream has throttled requests."
        |it, page| page.value(it.rate);
    Gauge "island_metrics_collect_last_usable_timestamp_seconds"
        "Time of the last usable response, or else of the start, in Unix seconds."
        |it, page| page.value(it.counts.last_usable.max(it.started.0));
    Gauge "island_metrics_collect_live_written_timestamp_seconds"
        "Time at which the last live step was written, or else of the start, in Unix seconds. None with --live 0."
        |it, page| {
            let has_live = it.settings.live > 0;
            page.optional(has_live.then(|| it.counts.live_written.max(it.started.0)));
        };
    Gauge "island_metrics_collect_platform_point_timestamp_seconds"
        "Time of the newest point of platform.csv that was written, or of the start if that is later, in Unix seconds."
        |it, page| page.value(it.counts.platform_point.max(it.started.0));
    Gauge "island_metrics_collect_full_crawl_timestamp_seconds"
        "End of the last crawl of the whole catalogue, in Unix seconds; 0 before the first."
        |it, page| page.value(task(it, Task::FULL_CRAWL));
    Gauge "island_metrics_collect_catalogue_islands"
        "Islands that a crawl of the whole catalogue listed. newest: the last crawl; believed: the last one that did not list far fewer than the one before, or that a second one confirmed."
        |it, page| {
            page.sample(&[("crawl", &"newest")], task(it, Task::LISTED_ISLANDS));
            page.sample(&[("crawl", &"believed")], task(it, Task::BELIEVED_ISLANDS));
        };
    Gauge "island_metrics_collect_unwritten_timestamp_seconds"
        "Time at which the oldest value that daily/ lacks was read, in Unix seconds. None if it has all values."
        |it, page| page.optional(save::unwritten_since(&it.store).unwrap_or(None));
    Gauge "island_metrics_collect_complete_day_timestamp_seconds"
        "Start of the newest day for which each island whose last reading had a value was read after the day had settled, in Unix seconds; 0 before the first."
        |it, page| page.value(it.sizes.complete_day.map_or(0, |day| day.start().0));
    Gauge "island_metrics_collect_complete_day_values"
        "Islands with a value on that day, by metric."
        |it, page| {
            for (metric, count) in METRIC_NAMES.iter().zip(&it.complete_day_values) {
                page.sample(&[("metric", metric)], *count);
            }
        };
    Gauge "island_metrics_collect_database_bytes"
        "Size of the database in the state directory with its log, in bytes."
        |it, page| page.value(it.store.bytes());
    Gauge "island_metrics_collect_state_replaced"
        "1 if the database was damaged or did not belong to the dataset at the start, or since then the dataset lacked a day that this collector wrote; else 0."
        |it, page| page.value(u8::from(it.is_state_replaced));
};

pub(super) fn page(collector: &Collector) -> String {
    let mut page = Exposition::default();
    page.families(METRICS, |write, page| write(collector, page));
    page.families(process::METRICS, |write, page| write(page));
    page.into_text()
}

/// Returns what is due, what is at risk, and how long that takes at this rate, without a request.
pub fn summary(settings: &CollectSettings) -> Result<String> {
    check(settings)?;
    let store = Store::open_read_only(&settings.state)?;
    let mut sizes = plan::sizes(&store, UnixSeconds::now())?;
    let listed = Dataset::islands(&settings.dataset)?;
    let listed = listed.iter().map(|island| island.code);
    let chosen = settings.codes.as_ref();
    let listed = listed.filter(|code| chosen.is_none_or(|codes| codes.contains(code)));
    let unknown = catalogue::unknown(&store, listed)?;
    sizes.islands += unknown;
    sizes.never_requested += unknown;
    let moment = |time| match time {
        0 => "never".to_owned(),
        time => UnixSeconds(time).to_string(),
    };
    let crawled = store.task(Task::FULL_CRAWL)?;
    let note = if crawled == 0 {
        "; the catalogue was never read, so islands are missing"
    } else if !catalogue::is_restricted_to(&store, chosen)? {
        "; as of the last run, which had other --codes"
    } else {
        ""
    };
    let (due, hours) = (sizes.due(), settings.hours(sizes.due()));
    let complete_day = sizes.complete_day.map(|day| day.to_string());
    let live = store.number("SELECT coalesce(max(step), 0) FROM live_file", [])?;
    let written = store.number("SELECT coalesce(max(written_at), 0) FROM day", [])?;
    let lines = [
        ("islands", format!("{}{note}", sizes.islands)),
        ("never requested", sizes.never_requested.to_string()),
        ("active and due", sizes.fresh.to_string()),
        ("inactive and due", sizes.inactive_due.to_string()),
        ("postponed", sizes.postponed.to_string()),
        (
            "due in total",
            format!(
                "{due}, {hours:.1} hours at {} requests per second",
                settings.rate
            ),
        ),
        (
            "with a day that leaves the upstream's window within 36 hours",
            sizes.at_risk.to_string(),
        ),
        ("no longer listed by the upstream", sizes.gone.to_string()),
        (
            "next loss of a day",
            sizes.next_loss.map_or("none".to_owned(), moment),
        ),
        (
            "newest complete day",
            complete_day.unwrap_or("none".to_owned()),
        ),
        ("last full crawl", moment(crawled)),
        (
            "last reading of the platform's players",
            moment(store.task(Task::PLATFORM)?),
        ),
        ("last live step written", moment(live)),
        ("last write into daily/", moment(written)),
    ];
    Ok(lines
        .map(|(name, value)| format!("{name}: {value}\n"))
        .concat())
}
