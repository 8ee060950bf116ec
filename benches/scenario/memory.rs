//! Memory and descriptors of the server, sampled during a run: are they stable?

use std::ops::Range;

use super::Faults;
use crate::common::prelude::*;

/// The medians of parts of a shorter run depend on when histories are replaced: not checked.
const CHECKED: Duration = Duration::from_mins(5);

/// Samples, with the time of each since the beginning.
#[derive(Default)]
pub(crate) struct Memory(Vec<(Duration, Usage)>);

impl Memory {
    pub(crate) fn sample(&mut self, begun: &Instant, server: &Server) -> Outcome<()> {
        self.0.push((begun.elapsed(), server.usage()?));
        Ok(())
    }

    /// Prints the medians of an early and of the last part of a run and their ratios. In a run that is
    /// long enough, ratios of resident and of anonymous memory above `growth_max` are faults.
    pub(super) fn report(
        &self,
        parts: [Range<Duration>; 2],
        length: Duration,
        growth_max: [f64; 2],
        faults: &Faults,
    ) {
        println!("  {:<10}{:>12}{:>12}{:>8}", "MiB", "early", "last", "ratio");
        let is_checked = length >= CHECKED;
        for (at, name) in ["VmRSS", "RssAnon"].into_iter().enumerate() {
            let [early, last] = parts.each_ref().map(|part| {
                let within = self.0.iter();
                let within = within.filter(|(at, _)| part.start <= *at && *at <= part.end);
                let kib = |usage: &Usage| [usage.resident_kib, usage.anonymous_kib][at];
                median(within.map(|(_, usage)| kib(usage) as f64 / 1024.0))
            });
            let ratio = last / early;
            println!("  {name:<10}{early:>12.1}{last:>12.1}{ratio:>8.3}");
            let fault = format_args!("{name} has grown by a factor of {ratio:.3}");
            faults.require(!is_checked || ratio <= growth_max[at], fault);
        }
        let [early, last] = parts.map(|part| {
            let [start, end] = [part.start, part.end].map(|at| at.as_secs_f64());
            format!("{start:.0} to {end:.0} s")
        });
        let most = growth_max[0];
        print!("  medians of {early} and of {last}; goal: within 1 %, at most {most}");
        println!("{}", ["; too short to check", ""][usize::from(is_checked)]);
    }
}
