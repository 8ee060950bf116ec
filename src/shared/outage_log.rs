//! [`OutageLog`]: one line for an outage of the store, and more only where its problem changes.

use std::time::{Duration, Instant};

use crate::observe::Log;

/// Minimum time between two lines of an outage. The first failure of a connection has another text
/// than the attempts to connect after it.
const AGAIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct OutageLog {
    pub(super) log: Log,
    /// Parts of a line before and after the problem.
    around: [String; 2],
    /// The problem that was logged last in this outage, and when.
    reported: Option<(Instant, String)>,
}

impl OutageLog {
    pub(super) fn new(log: Log, around: [String; 2]) -> OutageLog {
        let reported = None;
        OutageLog {
            log,
            around,
            reported,
        }
    }

    /// Logs a problem unless the log has it. Returns `true` if the outage begins with it.
    pub(super) fn report(&mut self, problem: &str) -> bool {
        let is_first = self.reported.is_none();
        let is_known = self
            .reported
            .as_ref()
            .is_some_and(|(at, known)| known == problem || at.elapsed() < AGAIN);
        if !is_known {
            let [before, after] = &self.around;
            self.log.write(&format!("{before}{problem}{after}"));
            self.reported = Some((Instant::now(), problem.to_owned()));
        }
        is_first
    }

    /// Ends the outage. Returns `true` if there was one.
    pub(super) fn end(&mut self) -> bool {
        self.reported.take().is_some()
    }
}
