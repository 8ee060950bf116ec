//! [`Pace`]: whether the store answers in time, late once, or is slow.

use std::time::{Duration, Instant};

use crate::observe::Log;
use crate::quota::{LeaseMetrics, STORE_WAIT_MAX};
use crate::sync::Ordering;

/// Late answers in a row after which the store is slow.
const LATE_MAX: u32 = 3;
/// A store is slow until no answer has been late for this long.
const STEADY: Duration = Duration::from_secs(1);

/// The pace of the store's answers.
#[derive(Debug)]
pub(super) struct Pace {
    /// The last answer was late.
    pub(super) is_late: bool,
    late_in_a_row: u32,
    latest: Instant,
    is_slow: bool,
    log: Log,
}

impl Pace {
    pub(super) fn new(log: Log) -> Pace {
        Pace {
            is_late: false,
            late_in_a_row: 0,
            latest: Instant::now(),
            is_slow: false,
            log,
        }
    }

    /// Records an answer that came in time.
    pub(super) fn in_time(&mut self, metrics: &LeaseMetrics) {
        (self.is_late, self.late_in_a_row) = (false, 0);
        if self.is_slow && self.latest.elapsed() >= STEADY {
            self.end(metrics);
            self.log
                .write("shared quota: the store answers in time again");
        }
    }

    /// Records an answer that has not come in time.
    pub(super) fn late(&mut self, metrics: &LeaseMetrics) {
        (self.is_late, self.latest) = (true, Instant::now());
        self.late_in_a_row = self.late_in_a_row.saturating_add(1);
        if self.late_in_a_row >= LATE_MAX && !self.is_slow {
            self.is_slow = true;
            metrics.slow.store(1, Ordering::Relaxed);
            let most = STORE_WAIT_MAX.as_millis();
            self.log.write(&format!(
                "shared quota: the store is slow: {LATE_MAX} answers in a row took over {most} ms; requests \
                 do not wait for it"
            ));
        }
    }

    /// Ends the slowness of a store that is away, or in time again.
    pub(super) fn end(&mut self, metrics: &LeaseMetrics) {
        self.is_slow = false;
        metrics.slow.store(0, Ordering::Relaxed);
    }
}
