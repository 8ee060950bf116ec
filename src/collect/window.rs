//! The upstream's window: a response on day D covers the seven whole days before D.

use crate::calendar::{UnixSeconds, UtcDay};

/// Whole days that a response covers.
pub(super) const WINDOW_DAYS: i32 = 7;
/// Time before a day leaves the window at which its island comes first.
const RISK_SECONDS: i64 = 36 * 3600;
/// Time after midnight from which yesterday's metrics are asked for.
const FRESH_AFTER_SECONDS: i64 = 20 * 60;

/// Returns the newest day whose metrics can be asked for.
pub(super) fn fresh_day(now: UnixSeconds) -> UtcDay {
    UtcDay(UnixSeconds(now.0 - FRESH_AFTER_SECONDS).day().0 - 1)
}

/// Returns whether a day that leaves the window at `deadline`, in Unix seconds, is at risk.
pub(super) fn is_at_risk(deadline: i64, now: UnixSeconds) -> bool {
    deadline - now.0 < RISK_SECONDS
}
