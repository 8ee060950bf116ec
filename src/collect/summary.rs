//! Summary of what a collector has to do, for `--plan`. Sends no request and writes nothing.

use super::dataset_files::Dataset;
use super::error::{CollectError, io_error};
use super::plan::Plan;
use super::progress::Progress;
use super::settings::{CollectSettings, check};
use crate::calendar::UnixSeconds;

/// Size of the real catalogue.
const REAL_ISLANDS: usize = 300_000;

/// Returns what is due, what is at risk, and how long a cold start takes at this rate, without a request.
pub fn summary(settings: &CollectSettings) -> Result<String, CollectError> {
    check(settings)?;
    let now = UnixSeconds::now();
    let state_error = io_error("read the state directory", &settings.state);
    let (mut plan, _) = Plan::read(&settings.state, now).map_err(&state_error)?;
    let progress = Progress::read(&settings.state).map_err(&state_error)?;
    plan.add(Dataset::catalogue(&settings.dataset)?.into_keys(), now);
    let sizes = plan.sizes(now);
    let due = sizes.fresh + sizes.never_requested + sizes.inactive_due;
    #[expect(clippy::cast_precision_loss, reason = "counts of islands")]
    let hours = |requests: usize| requests as f64 / settings.rate / 3600.0;
    let moment = |time: i64| match time {
        0 => "never".to_owned(),
        time => UnixSeconds(time).to_string(),
    };
    let rate = settings.rate;
    let catalogue = match progress.full_crawl {
        0 => format!(
            "never, so islands are missing here; a cold start of {REAL_ISLANDS} islands takes {:.1} hours \
             at {rate} requests per second",
            hours(REAL_ISLANDS)
        ),
        time => moment(time),
    };
    Ok(format!(
        "islands: {}\n\
         never requested: {}, {:.1} hours at {rate} requests per second\n\
         active, without metrics of yesterday: {}\n\
         inactive and due: {}\n\
         with a day that leaves the upstream's window within 36 hours: {}\n\
         no longer listed by the upstream: {}\n\
         due in total: {due}, {:.1} hours at {rate} requests per second\n\
         last full crawl: {catalogue}\n\
         last live step written: {}\n\
         last merge into daily/: {}\n",
        sizes.islands,
        sizes.never_requested,
        hours(sizes.never_requested),
        sizes.fresh,
        sizes.inactive_due,
        sizes.at_risk,
        sizes.gone,
        hours(due),
        moment(progress.live_files.iter().copied().max().unwrap_or(0)),
        moment(progress.merged),
    ))
}
