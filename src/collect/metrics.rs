//! Metrics of a collector in the Prometheus text format.
//!
//! A metric is one row: its kind, name and help, and the function that writes its samples from [`Figures`].

use super::collector::Collector;
use super::plan::PlanSizes;
use crate::calendar::DAY_SECONDS;
use crate::observe::{Exposition, Metric, metrics, process};

/// Everything that the metrics are read from.
pub(super) struct Figures<'a> {
    pub(super) collector: &'a Collector,
    pub(super) sizes: PlanSizes,
    pub(super) rate: f64,
}

type WriteSamples = fn(&Figures<'_>, &mut Exposition);

/// All metrics except those of the process, in the order of the page.
const METRICS: &[Metric<WriteSamples>] = metrics! {
    Counter "island_metrics_collect_responses_total"
        "Responses by result. usable; throttled: the upstream requires fewer requests; gone: 404; rejected: 400; broken: no response, or an unusable one."
        |it, page| {
            let counts = &it.collector.counts;
            for (result, count) in [("usable", counts.usable), ("throttled", counts.throttled), ("gone", counts.gone),
                ("rejected", counts.rejected), ("broken", counts.broken)] {
                page.sample(&[("result", &result)], count);
            }
        };
    Counter "island_metrics_collect_given_up_total"
        "Requests postponed after three failures in a row."
        |it, page| page.value(it.collector.counts.given_up);
    Counter "island_metrics_collect_values_refused_total"
        "Values that were left out because they are out of range."
        |it, page| page.value(it.collector.counts.refused);
    Counter "island_metrics_collect_values_revised_total"
        "Rows of daily files that changed because the upstream revised them."
        |it, page| page.value(it.collector.counts.revised);
    Counter "island_metrics_collect_codes_skipped_total"
        "Catalogue rows whose code is not an island code."
        |it, page| page.value(it.collector.counts.cleaned.codes);
    Counter "island_metrics_collect_fields_cleaned_total"
        "Titles, creators and tags that were cut or cleaned."
        |it, page| {
            let cleaned = it.collector.counts.cleaned;
            page.value(cleaned.titles + cleaned.creators + cleaned.tags);
        };
    Gauge "island_metrics_collect_islands"
        "Islands in the plan."
        |it, page| page.value(it.sizes.islands);
    Gauge "island_metrics_collect_islands_due"
        "Islands to request now. fresh: active, without metrics of yesterday; unasked: never requested; inactive: at the end of their back-off."
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
    Gauge "island_metrics_collect_next_loss_timestamp_seconds"
        "Time at which the first day that was not requested leaves the upstream's window, in Unix seconds."
        |it, page| page.optional(it.sizes.next_loss);
    Gauge "island_metrics_collect_rate_limit"
        "Current limit in requests per second; lower than --rate after the upstream has throttled requests."
        |it, page| page.value(it.rate);
    Gauge "island_metrics_collect_last_usable_timestamp_seconds"
        "Time of the last usable response, or else of the start, in Unix seconds."
        |it, page| page.value(it.collector.counts.last_usable.max(it.collector.started.0));
    Gauge "island_metrics_collect_live_written_timestamp_seconds"
        "Time at which the last live step was written, or else of the start, in Unix seconds. None with --live 0."
        |it, page| {
            let has_live = it.collector.settings.live > 0;
            page.optional(has_live.then(|| it.collector.counts.live_written.max(it.collector.started.0)));
        };
    Gauge "island_metrics_collect_full_crawl_timestamp_seconds"
        "End of the last crawl of the whole catalogue, in Unix seconds; 0 before the first."
        |it, page| page.value(it.collector.progress.full_crawl);
    Gauge "island_metrics_collect_merge_timestamp_seconds"
        "Last merge of collected days into the dataset, in Unix seconds; 0 before the first."
        |it, page| page.value(it.collector.progress.merged);
    Gauge "island_metrics_collect_complete_day_timestamp_seconds"
        "Start of the newest day for which all active islands were requested, in Unix seconds; 0 before the first."
        |it, page| page.value(i64::from(it.collector.progress.complete_day) * DAY_SECONDS);
};

pub(super) fn page(figures: &Figures<'_>) -> String {
    let mut page = Exposition::default();
    page.families(METRICS, |write, page| write(figures, page));
    page.families(process::METRICS, |write, page| write(page));
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Kind;

    #[test]
    fn counters_end_with_total_and_others_do_not() {
        for Metric {
            name, help, kind, ..
        } in METRICS
        {
            assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}");
            assert!(help.ends_with('.'), "{name}: {help}");
        }
    }
}
