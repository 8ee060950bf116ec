//! Waves of hostile clients: is each cut in time, and by what the server says for the right reason?

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Outcome;
use crate::common::hostile::{Kind, Limits, Running, Wave};
use crate::common::metrics::{Page, free_address};
use crate::common::process::Server;
use crate::common::world;

/// How long the server has to let go of what has ended.
const SETTLING: Duration = Duration::from_secs(15);
/// The admin listener lets go of the connection that asked it.
const QUIET: Duration = Duration::from_millis(500);

/// The server under attack.
pub(crate) struct Target {
    pub(crate) server: Server,
    pub(crate) admin: SocketAddr,
    /// Waves so far, so that each comes from other addresses.
    waves: usize,
}

/// What the server holds.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) resident_kib: u64,
    pub(crate) descriptors: usize,
}

impl Target {
    /// The server on its sample dataset, with as many descriptors as may be had.
    pub(crate) fn start(limits: Limits) -> Outcome<Target> {
        let admin = free_address()?;
        let server = world::serve_behind("ulimit -n \"$(ulimit -Hn)\"", |serve| {
            serve.arg("--admin").arg(admin.to_string());
            limits.set(serve);
        })?;
        Ok(Target {
            server,
            admin,
            waves: 0,
        })
    }

    /// Starts a wave.
    pub(crate) fn attack(&mut self, wave: &Wave) -> Outcome<Running> {
        self.waves += 1;
        Running::start(self.server.address, wave, self.waves)
    }

    /// Whether the server has counted as many cuts as there were attackers, by reason; what not.
    pub(crate) fn counted(&self, wave: &Wave, before: &Page) -> Outcome<Vec<String>> {
        let now = Page::read(self.admin)?;
        let mut faults = Vec::new();
        for reason in ["first_byte", "head", "idle", "send", "room"] {
            let of_reason = Kind::ALL.into_iter().zip(wave.counts);
            let wanted: usize = of_reason
                .filter(|(kind, _)| kind.reason() == reason)
                .map(|(_, count)| count)
                .sum();
            let counted = now.cuts(reason) - before.cuts(reason);
            if (counted - wanted as f64).abs() > 0.5 {
                faults.push(format!(
                    "the server counts {counted} cuts by {reason}, not {wanted}"
                ));
            }
        }
        Ok(faults)
    }

    /// What it holds once it has let go of all but so many descriptors.
    pub(crate) fn settled(&self, descriptors: usize) -> Outcome<Held> {
        let begun = Instant::now();
        loop {
            thread::sleep(QUIET);
            let held = Held {
                resident_kib: self.server.resident_kib()?,
                descriptors: self.server.descriptors()?,
            };
            if held.descriptors <= descriptors || begun.elapsed() > SETTLING {
                return Ok(held);
            }
        }
    }
}

/// What a judge of waves has to find wrong: a server that cuts nobody. Ends the bench if it does not.
pub(crate) fn control(limits: Limits, raised: Limits, wave: &Wave) -> Outcome<()> {
    let mut target = Target::start(raised)?;
    let seen = target.attack(wave)?.end()?;
    let faults = limits.judge(wave, &seen)?;
    for (seen, count) in seen.iter().zip(wave.counts) {
        let uncut = format!("{}: {} of {count} were cut", seen.kind.name(), 0);
        if count > 0 && !faults.contains(&uncut) {
            return Err(format!("a server with raised limits passes: not told {uncut:?}").into());
        }
    }
    println!(
        "a server with raised limits is found out: {} attackers of {} kinds are told as not cut",
        wave.size(),
        faults.len()
    );
    Ok(())
}
