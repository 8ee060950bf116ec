//! [`OutageLog`]: one line for an outage of the store, and more only where its problem changes.

use std::time::{Duration, Instant};

use crate::observe::Log;

/// Minimum time between two lines of an outage. The first failure of a connection has another text
/// than the attempts to connect after it.
const AGAIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct OutageLog {
    pub(super) log: Log,
    /// The problem that was logged last in this outage, and when.
    reported: Option<(Instant, String)>,
}

impl OutageLog {
    pub(super) fn new(log: Log) -> OutageLog {
        OutageLog {
            log,
            reported: None,
        }
    }

    /// Logs a problem as a `line` unless the log has it. Returns `true` if the outage begins with it.
    pub(super) fn report(&mut self, problem: &str, line: impl FnOnce(&str) -> String) -> bool {
        let is_first = self.reported.is_none();
        let is_known = self
            .reported
            .as_ref()
            .is_some_and(|(at, known)| known == problem || at.elapsed() < AGAIN);
        if !is_known {
            self.log.write(&line(problem));
            self.reported = Some((Instant::now(), problem.to_owned()));
        }
        is_first
    }

    /// Ends the outage. Returns `true` if there was one.
    pub(super) fn end(&mut self) -> bool {
        self.reported.take().is_some()
    }
}
