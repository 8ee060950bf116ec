//! [`OutageLog`]: the lines of the log about outages of the store.

use std::mem;

use crate::observe::{DedupLog, Log};

/// Different problems of one outage that may come in turn; each is written once.
pub(super) const PROBLEMS_MAX: usize = 16;

pub(super) struct OutageLog {
    /// One line for an outage, and more only where its problem changes.
    pub(super) problems: DedupLog,
    /// The beginning and the end of each line about a problem.
    line: (&'static str, String),
    /// The store can be used, as far as the log says.
    is_up: bool,
    /// The problem by which the store was lost, until the log has a problem of the outage.
    unlogged: Option<String>,
}

impl OutageLog {
    /// Creates the log of a store that cannot be used yet.
    pub(super) fn new(log: Log, line: (&'static str, String)) -> OutageLog {
        OutageLog {
            problems: DedupLog::new(log, PROBLEMS_MAX),
            line,
            is_up: false,
            unlogged: None,
        }
    }

    /// Logs a problem of a connection, or of an attempt to connect. The first one of an outage is kept back, since the
    /// attempt after it shows the cause; if that succeeds, the next line has it. Returns `true` if an outage begins.
    pub(super) fn down(&mut self, problem: &str) -> bool {
        let was_up = mem::take(&mut self.is_up);
        self.unlogged = was_up.then(|| problem.to_owned());
        if !was_up {
            self.write(problem);
        }
        was_up
    }

    /// Logs a problem of a store to which there is a connection. A problem that was kept back is logged first: it has
    /// another cause. Returns `true` if an outage begins.
    pub(super) fn unusable(&mut self, problem: &str) -> bool {
        if let Some(first) = self.unlogged.take() {
            self.write(&first);
        }
        self.write(problem);
        mem::take(&mut self.is_up)
    }

    fn write(&mut self, problem: &str) {
        let (start, end) = &self.line;
        self.problems.write(format!("{start}{problem}{end}"));
    }

    /// Ends an outage. Returns `None` if there was none, and otherwise the end of the line about it: nothing if there was no
    /// problem, and a problem that the log does not have.
    pub(super) fn up(&mut self) -> Option<String> {
        if mem::replace(&mut self.is_up, true) {
            return None;
        }
        let was_logged = self.problems.reset();
        Some(match self.unlogged.take() {
            Some(problem) => format!(" again, after: {problem}"),
            None if was_logged => " again".to_owned(),
            None => String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    // Statics need std's mutex, also when the tests run with loom's.
    use std::sync::Mutex as StdMutex;

    use super::*;

    static LINES: StdMutex<Vec<String>> = StdMutex::new(Vec::new());

    #[test]
    fn each_outage_has_a_line_with_its_first_problem_or_the_cause() {
        let log = Log::start(|line| LINES.lock().unwrap().push(line.to_owned())).unwrap();
        let mut outage = OutageLog::new(log.clone(), ("bad: ", "; wait".to_owned()));
        let logged = |outage: &OutageLog| {
            outage.problems.log.flush();
            mem::take(&mut *LINES.lock().unwrap())
        };
        assert_eq!(outage.up(), Some(String::new()), "the start");
        // A connection that is lost, and made again at once.
        assert!(outage.down("reset"));
        assert_eq!(outage.up(), Some(" again, after: reset".to_owned()));
        assert_eq!(outage.up(), None);
        assert_eq!(logged(&outage), [""; 0]);
        // The attempts to connect fail.
        assert!(outage.down("reset"));
        assert!(!outage.down("refused") && !outage.down("refused"));
        assert_eq!(outage.up(), Some(" again".to_owned()));
        assert_eq!(logged(&outage), ["bad: refused; wait"]);
        // There is a connection, but the store cannot be used.
        assert!(outage.down("reset"));
        assert!(!outage.unusable("unsettled") && !outage.unusable("unsettled"));
        assert_eq!(outage.up(), Some(" again".to_owned()));
        assert_eq!(
            logged(&outage),
            ["bad: reset; wait", "bad: unsettled; wait"]
        );
        assert!(outage.unusable("unsettled"));
        assert_eq!(logged(&outage), ["bad: unsettled; wait"]);
    }
}
