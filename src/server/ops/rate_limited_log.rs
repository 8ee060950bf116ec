//! `Seldom`: complaints that requests bring about. However many ask, the log stays readable.

use std::time::{Duration, Instant};

use crate::server::ops::log::Log;
use crate::sync::{Mutex, lock};

/// Between two complaints.
const INTERVAL: Duration = Duration::from_secs(10);

/// A log that takes a line now and then.
#[derive(Debug)]
pub(crate) struct Seldom {
    log: Log,
    last: Mutex<Option<Instant>>,
}

impl Seldom {
    pub(crate) fn new(log: Log) -> Seldom {
        Seldom {
            log,
            last: Mutex::new(None),
        }
    }

    /// Says a line, unless one was said a moment ago.
    pub(crate) fn say(&self, line: &str) {
        let mut last = lock(&self.last);
        if last.is_none_or(|last| last.elapsed() >= INTERVAL) {
            *last = Some(Instant::now());
            self.log.say(line);
        }
    }
}

#[cfg(test)]
mod tests {
    // A static takes std's, whatever the models run with.
    use std::sync::Mutex as StdMutex;

    use super::*;

    #[test]
    fn of_a_thousand_complaints_at_once_one_is_said() {
        static SAID: StdMutex<Vec<String>> = StdMutex::new(Vec::new());
        let log = Log::start(|line| SAID.lock().unwrap().push(line.to_owned())).unwrap();
        let seldom = Seldom::new(log.clone());
        for number in 0..1000 {
            seldom.say(&number.to_string());
        }
        log.flush();
        assert_eq!(*SAID.lock().unwrap(), ["0"]);
    }
}
