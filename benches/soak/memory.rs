//! The server's memory: flat from the second sixth of the time to the last?

use std::time::Duration;

use crate::common::Outcome;
use crate::common::process::Server;
use crate::common::stats::median;

/// Drift that is told, and drift that fails.
const TOLD: f64 = 0.01;
const FAILS: f64 = 0.03;
/// Below this, sixths are too short to judge by: their medians depend on when histories are replaced.
const JUDGED: Duration = Duration::from_mins(5);

/// Resident memory in all and what no file backs, in KiB, with the time of the look.
#[derive(Default)]
pub(crate) struct Memory(Vec<(Duration, [f64; 2])>);

impl Memory {
    pub(crate) fn look(&mut self, server: &Server, at: Duration) -> Outcome<()> {
        let kib = [server.resident_kib()?, server.anonymous_kib()?];
        self.0.push((at, kib.map(|kib| kib as f64)));
        Ok(())
    }

    pub(crate) fn last_kib(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, kib)| kib[0])
    }

    /// Prints the medians of both sixths; says what is wrong.
    pub(crate) fn report(&self, length: Duration) -> Option<String> {
        println!(
            "  {:<10}{:>14}{:>14}{:>10}",
            "MiB", "second sixth", "last sixth", "ratio"
        );
        let mut drift = [1.0; 2];
        for (which, name) in ["VmRSS", "RssAnon"].into_iter().enumerate() {
            let [second, last] = [1, 5].map(|sixth| {
                let within = self
                    .0
                    .iter()
                    .filter(|(at, _)| length * sixth / 6 <= *at && *at <= length * (sixth + 1) / 6);
                median(within.map(|(_, kib)| kib[which] / 1024.0))
            });
            drift[which] = last / second;
            println!(
                "  {name:<10}{second:>14.1}{last:>14.1}{:>10.3}",
                last / second
            );
        }
        let [resident, _] = drift;
        let is_judged = length >= JUDGED;
        let verdict = match (resident - 1.0).abs() {
            _ if !is_judged => "too short to judge",
            off if off <= TOLD => "flat",
            off if off <= FAILS => "more than 1 %",
            _ => "not flat",
        };
        println!("  memory: {verdict}; goals: within 1 %, at most 3 %");
        let fails = is_judged && resident > 1.0 + FAILS;
        fails.then(|| format!("memory has grown by a factor of {resident:.3}"))
    }
}
