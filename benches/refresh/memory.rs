//! The server's memory, looked at again and again: has it grown by the end?

use std::time::Duration;

use crate::common::Outcome;
use crate::common::process::Server;
use crate::common::stats::median;

/// The longest time that is left out, and the longest that a median is taken of.
const MINUTE: Duration = Duration::from_mins(1);
/// The last part may have this many times the memory of the first.
const GROWTH_MAX: f64 = 1.05;
/// Below this, a part is too short to judge by: its median depends on when histories are replaced.
const JUDGED: Duration = Duration::from_mins(5);

struct Sample {
    at: Duration,
    /// Resident in all, and what no file backs, in KiB.
    kib: [f64; 2],
}

#[derive(Default)]
pub(crate) struct Memory(Vec<Sample>);

impl Memory {
    pub(crate) fn look(&mut self, server: &Server, at: Duration) -> Outcome<()> {
        let kib = [server.resident_kib()?, server.anonymous_kib()?];
        let kib = kib.map(|kib| kib as f64);
        self.0.push(Sample { at, kib });
        Ok(())
    }

    /// Prints the medians of the first and the last part after warming up; says what is wrong.
    pub(crate) fn report(&self, length: Duration) -> Option<String> {
        let warm = MINUTE.min(length / 10);
        let part = MINUTE.min(length / 5);
        let parts = [(warm, warm + part), (length.saturating_sub(part), length)];
        let mut growth: f64 = 0.0;
        println!("  {:<10}{:>12}{:>12}{:>8}", "MiB", "first", "last", "ratio");
        for (which, name) in ["VmRSS", "RssAnon"].into_iter().enumerate() {
            let [first, last] = parts.map(|(from, to)| {
                let within = self
                    .0
                    .iter()
                    .filter(|sample| from <= sample.at && sample.at <= to);
                median(within.map(|sample| sample.kib[which] / 1024.0))
            });
            let ratio = last / first;
            println!("  {name:<10}{first:>12.1}{last:>12.1}{ratio:>8.3}");
            growth = growth.max(ratio);
        }
        let is_judged = length >= JUDGED;
        println!(
            "medians of {:.0} s each, the first after {:.0} s; goal: flat, ratio at most {GROWTH_MAX}{}",
            part.as_secs_f64(),
            warm.as_secs_f64(),
            if is_judged {
                ""
            } else {
                ", which takes longer to judge"
            }
        );
        if growth > GROWTH_MAX && is_judged {
            return Some(format!("memory has grown by a factor of {growth:.3}"));
        }
        None
    }
}
