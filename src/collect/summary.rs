//! Summary of what a collector has to do, for `--plan`. Sends no request and writes nothing.

use std::collections::BTreeSet;

use super::dataset_files::Dataset;
use super::error::Result;
use super::islands;
use super::plan;
use super::readings;
use super::settings::{CollectSettings, check};
use super::store::{Store, Task};
use crate::calendar::UnixSeconds;

/// Size of the real catalogue.
const REAL_ISLANDS: usize = 300_000;

/// Returns a time as text.
fn moment(time: i64) -> String {
    match time {
        0 => "never".to_owned(),
        time => UnixSeconds(time).to_string(),
    }
}

/// Returns what is due, what is at risk, and how long a cold start takes at this rate, without a request.
pub fn summary(settings: &CollectSettings) -> Result<String> {
    check(settings)?;
    let now = UnixSeconds::now();
    let store = Store::open_read_only(&settings.state)?;
    let mut sizes = plan::sizes(&store, now)?;
    for island in Dataset::islands(&settings.dataset)? {
        let is_collected = settings
            .codes
            .as_ref()
            .is_none_or(|codes| codes.contains(&island.code));
        if is_collected && !islands::has(&store, island.code)? {
            sizes.islands += 1;
            sizes.never_requested += 1;
        }
    }
    let hours = |requests| settings.hours(requests);
    let (rate, due) = (settings.rate, sizes.due());
    let complete = readings::complete_day(&store, now)?;
    let live = store.number("SELECT coalesce(max(step), 0) FROM live_file", [])?;
    let all = settings.codes.as_ref().map_or(REAL_ISLANDS, BTreeSet::len);
    let catalogue = match store.task(Task::FULL_CRAWL)? {
        0 => format!(
            "never, so islands are missing here; a cold start of {all} islands takes {:.1} hours \
             at {rate} requests per second",
            hours(all)
        ),
        time => moment(time),
    };
    Ok(format!(
        "islands: {}\n\
         never requested: {}, {:.1} hours at {rate} requests per second\n\
         active and due: {}\n\
         inactive and due: {}\n\
         with a day that leaves the upstream's window within 36 hours: {}\n\
         no longer listed by the upstream: {}\n\
         due in total: {due}, {:.1} hours at {rate} requests per second\n\
         next loss of a day: {}\n\
         newest complete day: {}\n\
         last full crawl: {catalogue}\n\
         last reading of the platform's players: {}\n\
         last live step written: {}\n\
         last write into daily/: {}\n",
        sizes.islands,
        sizes.never_requested,
        hours(sizes.never_requested),
        sizes.fresh,
        sizes.inactive_due,
        sizes.at_risk,
        sizes.gone,
        hours(due),
        sizes.next_loss.map_or("none".to_owned(), moment),
        complete.map_or("none".to_owned(), |day| day.to_string()),
        moment(store.task(Task::PLATFORM)?),
        moment(live),
        moment(store.task(Task::DAYS_WRITTEN)?),
    ))
}
