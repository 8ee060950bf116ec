//! Attacks: thousands of connections held for nothing, floods of short ones, no descriptor left.
//! Every attacker has to be closed in time, and honest clients must not notice.
//!
//! Runs on the sample dataset. `starved` has the servers without descriptors.

mod starved;

use super::hostile::{Kind, KindResult, Wave, set_timeouts};
use super::load::{Fault, Flow, Load, Plan, Validate};
use super::metrics::Page;
use super::{Faults, STOPPING, Subject, floods, source};
use crate::common::http::exchange;
use crate::common::prelude::*;

/// Honest keep-alive connections, and visits a second.
const CONNECTIONS: usize = 50;
const VISITS: f64 = 100.0;
/// Honest load alone before each wave.
const QUIET: Duration = Duration::from_secs(20);
/// Network of the visitors' addresses.
const NETWORK: u8 = 5;
const HONEST_P99_MAX_MICROS: f64 = 5000.0;
/// Memory after an attack, divided by the most after the waves that warm up.
const GROWTH_MAX: f64 = 1.05;
/// Log lines at the start on the sample dataset, and at the end.
const EXPECTED_LOG: [&str; 4] = [
    "serving the sample dataset",
    "  curl ",
    "or open ",
    STOPPING,
];

/// Attackers of a full run.
const WAVE: Wave = Wave {
    counts: [5000, 4950, 50, 2500, 2500],
    // All connect before the first is closed, and the accept queue stays short.
    ramp: Duration::from_secs(7),
    wait: Duration::from_secs(105),
    // The default. That of idle connections is shorter than the default, so that a wave takes no
    // longer than its slow readers.
    timeout_seconds: 10,
};

/// Timeouts longer than any wave.
const RAISED_SECONDS: u64 = 600;

struct StatusOnly;

impl Validate for StatusOnly {
    fn validate(&mut self, _: usize, _: usize, response: &[u8]) -> Result<(), Fault> {
        require_ok(response).map_err(Fault::failed)
    }
}

pub(super) fn run(faults: &Faults) -> Outcome<()> {
    control()?;
    let wave = full_or_quick(WAVE, Wave::QUICK);
    let subject = Subject::start(|serve| set_timeouts(wave.timeout_seconds, serve))?;
    let rate = full_or_quick(3000.0, 500.0);
    let mut attack = Attack::new(wave, rate, &subject, faults)?;
    println!(
        "{} attackers at a time beside {rate:.0} honest requests per second on {CONNECTIONS} connections, and {VISITS:.0} visits",
        wave.size(),
    );
    for number in 1..=attack.warm + full_or_quick(2, 1) {
        attack.wave(number)?;
    }
    attack.flood("connect and close", floods::closing)?;
    attack.flood("reset at each byte", floods::resetting)?;
    attack.report_waves()?;
    attack.report_usage();
    attack.report_honest();
    subject.end(&EXPECTED_LOG, faults)?;
    starved::run(full_or_quick(20, 3), faults)
}

/// Self-test: attackers of a server with raised timeouts have to be reported as not closed.
fn control() -> Outcome<()> {
    let subject = Subject::start(|serve| set_timeouts(RAISED_SECONDS, serve))?;
    let wave = Wave::QUICK;
    let faults = wave.faults(&wave.run(subject.address, 0)?)?;
    for (kind, count) in Kind::ALL.into_iter().zip(wave.counts) {
        let expected = format!("{}: 0 of {count} were closed", kind.name());
        if count > 0 && !faults.contains(&expected) {
            return Err(format!("a server with raised timeouts passes: no {expected:?}").into());
        }
    }
    println!(
        "a server with raised timeouts is rejected: {} attackers of {} kinds are not closed",
        wave.size(),
        faults.len()
    );
    Ok(())
}

struct Attack<'a> {
    wave: Wave,
    /// Number of waves that warm up.
    warm: usize,
    subject: &'a Subject,
    faults: &'a Faults,
    load: Load<StatusOnly>,
    /// Honest load warming up, alone, attacked, flooded.
    honest: [Flow; 4],
    waves: Vec<Vec<KindResult>>,
    /// Usage before all; its memory becomes the most after the waves that warm up.
    baseline: Usage,
    /// Usage after each wave and flood.
    after: Vec<(String, Usage)>,
}

const WARM: usize = 0;
const ALONE: usize = 1;
const ATTACKED: usize = 2;
const FLOODED: usize = 3;

impl<'a> Attack<'a> {
    fn new(wave: Wave, rate: f64, subject: &'a Subject, faults: &'a Faults) -> Outcome<Attack<'a>> {
        let listed = text(subject.address, "/v1/islands?limit=50")?;
        let code = *values(&listed, "code").first().ok_or("no islands")?;
        let plan = Plan {
            connections: CONNECTIONS,
            requests: vec![
                ("/v1".to_owned(), ""),
                ("/v1/islands?limit=50".to_owned(), GZIP),
                (format!("/v1/islands/{code}"), GZIP),
                (format!("/v1/islands/{code}/ccu"), ""),
            ],
            headers: vec![String::new()],
            rate: Some(rate),
            nap: Duration::from_micros(100),
        };
        let mut load = Load::new(subject.address, plan, StatusOnly)?;
        let baseline = subject.settled(&mut load, None)?;
        Ok(Attack {
            wave,
            warm: full_or_quick(2, 1),
            subject,
            faults,
            load,
            honest: Default::default(),
            waves: Vec::new(),
            baseline,
            after: Vec::new(),
        })
    }

    /// Runs honest load with visits beside `work`, and adds it to `honest[window]`.
    fn beside<T: Send>(
        &mut self,
        window: usize,
        work: impl FnOnce() -> Outcome<T> + Send,
    ) -> Outcome<T> {
        let (address, requests) = (self.subject.address, self.load.plan.requests.clone());
        let visiting = |is_over: &AtomicBool| visit(address, &requests, is_over);
        let (visits, (done, flow)) = beside(visiting, || self.load.beside(work))?;
        self.load.total.add(&visits);
        self.honest[window].add(&flow);
        self.honest[window].add(&visits);
        Ok(done)
    }

    /// Usage once all attackers are gone.
    fn settled(&mut self) -> Outcome<Usage> {
        let most = self.baseline.descriptors;
        self.subject.settled(&mut self.load, Some(most))
    }

    /// Honest load alone, then a wave beside it.
    fn wave(&mut self, number: usize) -> Outcome<()> {
        let (mut wave, subject) = (self.wave, self.subject);
        let is_warm = number <= self.warm;
        if is_warm {
            // Readers with most time would make it longer.
            wave.counts[Kind::LoopbackReader as usize] = 0;
        }
        let windows = if is_warm {
            [WARM, WARM]
        } else {
            [ALONE, ATTACKED]
        };
        self.beside(windows[0], || {
            thread::sleep(full_or_quick(QUIET, Duration::from_secs(1)));
            Ok(())
        })?;
        let before = Page::read(subject.admin)?;
        let results = self.beside(windows[1], || wave.run(subject.address, number))?;
        let usage = self.settled()?;
        let closed = wave.faults(&results)?;
        let counted = counted(&wave, &before, &Page::read(subject.admin)?);
        for fault in closed.into_iter().chain(counted) {
            self.faults.add(format_args!("wave {number}: {fault}"));
        }
        if is_warm {
            let most = &mut self.baseline.resident_kib;
            *most = usage.resident_kib.max(*most);
        }
        self.after.push((format!("wave {number}"), usage));
        self.waves.push(results);
        Ok(())
    }

    fn flood(&mut self, name: &str, flood: fn(SocketAddr, usize) -> Outcome<f64>) -> Outcome<()> {
        let (address, count) = (self.subject.address, full_or_quick(10_000, 300));
        let rate = self.beside(FLOODED, || flood(address, count))?;
        let usage = self.settled()?;
        self.after
            .push((format!("{name}, {count} at {rate:.0}/s"), usage));
        Ok(())
    }

    fn report_waves(&self) -> Outcome<()> {
        println!(
            "\n{:<24}{:>8}{:>8}{:>8}{:>10}{:>10}{:>10}{:>10}",
            "attackers", "wave", "all", "closed", "limit s", "first s", "median s", "last s"
        );
        for (number, wave) in (1..).zip(&self.waves) {
            for result in wave.iter().filter(|result| result.opened > 0) {
                println!(
                    "{:<24}{number:>8}{:>8}{:>8}{:>10.0}{:>10.2}{:>10.2}{:>10.2}",
                    result.kind.name(),
                    result.opened,
                    result.closed,
                    self.wave.limit(result.kind)?,
                    result.first,
                    result.median,
                    result.last
                );
            }
        }
        Ok(())
    }

    fn report_usage(&self) {
        println!(
            "\n{:<40}{:>12}{:>10}{:>8}",
            "server", "RSS KiB", "ratio", "fds"
        );
        let base = self.baseline;
        for (name, usage) in &self.after {
            let ratio = usage.resident_kib as f64 / base.resident_kib as f64;
            let (kib, descriptors) = (usage.resident_kib, usage.descriptors);
            println!("{name:<40}{kib:>12}{ratio:>10.3}{descriptors:>8}");
            let before = base.descriptors;
            let fault = format_args!("{name}: {descriptors} descriptors, not {before}");
            self.faults.require(descriptors == before, fault);
            let fault = format_args!("{name}: memory is {ratio:.3} times the base");
            self.faults
                .require(is_quick() || ratio <= GROWTH_MAX, fault);
        }
        println!(
            "the ratio is to the most after the first {} waves; {} descriptors before all; goals: at most {GROWTH_MAX}, \
             and the same",
            self.warm, base.descriptors
        );
    }

    fn report_honest(&self) {
        println!(
            "\n{:<24}{:>12}{:>8}{:>10}{:>10}{:>10}",
            "honest", "answered", "failed", "p50 us", "p99 us", "p99.9 us"
        );
        let names = ["warming up", "alone", "attacked", "flooded"];
        for (window, (name, flow)) in names.iter().zip(&self.honest).enumerate() {
            let [p50, p99, p999] = flow.latencies.percentiles_micros();
            let (answered, failed) = (flow.valid, flow.failed);
            println!("{name:<24}{answered:>12}{failed:>8}{p50:>10.0}{p99:>10.0}{p999:>10.0}");
            let fault = format_args!("honest, {name}: no response");
            self.faults.require(answered > 0, fault);
            let is_soon = window != ATTACKED || is_quick() || p99 <= HONEST_P99_MAX_MICROS;
            let fault = format_args!("honest, {name}: p99 is {p99:.0} us");
            self.faults.require(is_soon, fault);
        }
        println!("goals: none fails; p99 attacked at most {HONEST_P99_MAX_MICROS} us");
        self.faults.add_load(&self.load.total);
    }
}

/// Visits at a constant rate until `is_over`: each connects, sends one request and leaves.
fn visit(address: SocketAddr, requests: &[(String, &str)], is_over: &AtomicBool) -> Flow {
    let mut flow = Flow::default();
    let begun = Instant::now();
    for number in 1.. {
        let due = begun + Duration::from_secs_f64(number as f64 / VISITS);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let (target, headers) = &requests[number % requests.len()];
        let from = source(NETWORK, number);
        let response = exchange(from, address, &get(target, headers));
        let response = response.map_err(|error| error.to_string());
        match response.and_then(|raw| require_ok(&raw)) {
            Ok(()) => flow.valid += 1,
            Err(reason) => {
                flow.failed += 1;
                println!("failed: {reason}; a visit of {target}");
            }
        }
        flow.latencies.record(due.elapsed().as_nanos() as u64);
    }
    flow
}

/// Checks that the server counts as many closed connections as there were attackers, by reason.
fn counted(wave: &Wave, before: &Page, now: &Page) -> Vec<String> {
    let mut faults = Vec::new();
    for reason in ["first_byte", "head", "idle", "send", "room"] {
        let of_reason = Kind::ALL.into_iter().zip(wave.counts);
        let of_reason = of_reason.filter(|(kind, _)| kind.reason() == reason);
        let expected: usize = of_reason.map(|(_, count)| count).sum();
        let counted = now.cuts(reason) - before.cuts(reason);
        if (counted - expected as f64).abs() > 0.5 {
            faults.push(format!(
                "the server counts {counted} closed by {reason}, not {expected}"
            ));
        }
    }
    faults
}
