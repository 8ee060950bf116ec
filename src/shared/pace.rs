//! [`Pace`]: whether the store is slow.

use std::time::{Duration, Instant};

use crate::observe::Log;
use crate::quota::{LeaseMetrics, STORE_WAIT_MAX};
use crate::sync::Ordering;

/// Late answers in a row after which the store is slow.
const LATE_MAX: u32 = 3;
/// A store is slow until no answer has been late for this long.
const STEADY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Pace {
    late_in_a_row: u32,
    /// Time of the latest late answer of a store that is slow.
    slow: Option<Instant>,
}

impl Pace {
    /// Records an answer, and whether it came later than [`STORE_WAIT_MAX`].
    pub(super) fn record(&mut self, is_late: bool, metrics: &LeaseMetrics, log: &Log) {
        self.late_in_a_row = if is_late { self.late_in_a_row + 1 } else { 0 };
        if self.late_in_a_row >= LATE_MAX && self.slow.is_none() {
            let most = STORE_WAIT_MAX.as_millis();
            log.write(&format!(
                "shared quota: the store is slow: {LATE_MAX} answers in a row took over {most} ms; requests \
                 do not wait for it"
            ));
            self.slow = Some(Instant::now());
        } else if is_late && self.slow.is_some() {
            self.slow = Some(Instant::now());
        } else if self.slow.is_some_and(|latest| latest.elapsed() >= STEADY) {
            log.write("shared quota: the store answers in time again");
            self.slow = None;
        }
        let is_slow = self.slow.is_some().into();
        metrics.slow.store(is_slow, Ordering::Relaxed);
    }
}
