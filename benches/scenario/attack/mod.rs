//! Attacks: thousands of connections held for nothing, floods of short ones, no descriptor left.
//! Every attacker has to be closed in time, and honest clients must not notice.
//!
//! Runs on the sample dataset. `starved` has the servers without descriptors.

mod starved;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::hostile::{Kind, KindResult, Wave, set_timeouts};
use super::load::{Fault, Flow, Load, Plan, Validate};
use super::metrics::Page;
use super::{Faults, STOPPING, Subject, floods, source};
use crate::common::http::{GZIP, exchange, get, require_ok, text};
use crate::common::process::Usage;
use crate::common::requests::values;
use crate::common::{Outcome, is_quick};

/// Honest keep-alive connections, and visits a second.
const CONNECTIONS: usize = 50;
const VISITS: f64 = 100.0;
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

struct Settings {
    wave: Wave,
    /// Waves that warm up, and waves that count.
    warm: usize,
    rounds: usize,
    /// Honest load alone before each wave.
    quiet: Duration,
    /// Honest requests per second.
    rate: f64,
    /// Connections of each kind of flood.
    flood: usize,
    /// Times that a descriptor becomes free while connections wait for it.
    starved: usize,
    /// Whether latency and memory are checked.
    checks_all: bool,
}

const FULL: Settings = Settings {
    wave: Wave {
        counts: [5000, 4950, 50, 2500, 2500],
        // All connect before the first is closed, and the accept queue stays short.
        ramp: Duration::from_secs(7),
        wait: Duration::from_secs(105),
        // The default. That of idle connections is shorter than the default, so that a wave takes no
        // longer than its slow readers.
        timeout_seconds: 10,
    },
    warm: 2,
    rounds: 2,
    quiet: Duration::from_secs(20),
    rate: 3000.0,
    flood: 10_000,
    starved: 20,
    checks_all: true,
};

const QUICK: Settings = Settings {
    wave: Wave::QUICK,
    warm: 1,
    rounds: 1,
    quiet: Duration::from_secs(1),
    rate: 500.0,
    flood: 300,
    starved: 3,
    checks_all: false,
};

/// Timeouts longer than any wave.
const RAISED_SECONDS: u64 = 600;

/// Requires the status 200.
struct StatusOnly;

impl Validate for StatusOnly {
    fn validate(&mut self, _: usize, _: usize, response: &[u8]) -> Result<(), Fault> {
        require_ok(response).map_err(Fault::failed)
    }
}

pub(super) fn run(faults: &Faults) -> Outcome<()> {
    let settings = if is_quick() { QUICK } else { FULL };
    control()?;
    let subject = Subject::start(|serve| {
        set_timeouts(settings.wave.timeout_seconds, serve);
    })?;
    let mut attack = Attack::new(&settings, &subject, faults)?;
    println!(
        "{} attackers at a time beside {:.0} honest requests per second on {CONNECTIONS} connections, and {:.0} visits",
        settings.wave.size(),
        settings.rate,
        attack.visits
    );
    for number in 1..=settings.warm + settings.rounds {
        attack.wave(number)?;
    }
    attack.flood("connect and close", floods::closing)?;
    attack.flood("reset at each byte", floods::resetting)?;
    attack.report_waves()?;
    attack.report_usage();
    attack.report_honest();
    subject.end(&EXPECTED_LOG, faults)?;
    starved::run(settings.starved, faults)
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

/// The course of the attack.
struct Attack<'a> {
    settings: &'a Settings,
    subject: &'a Subject,
    faults: &'a Faults,
    load: Load<StatusOnly>,
    /// Visits a second, and all so far.
    visits: f64,
    visited: usize,
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
    fn new(
        settings: &'a Settings,
        subject: &'a Subject,
        faults: &'a Faults,
    ) -> Outcome<Attack<'a>> {
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
            rate: Some(settings.rate),
            nap: Duration::from_micros(100),
        };
        let mut load = Load::new(subject.address, plan, StatusOnly)?;
        let baseline = subject.settled(&mut load, None)?;
        Ok(Attack {
            settings,
            subject,
            faults,
            load,
            visits: VISITS.min(settings.rate / 5.0),
            visited: 0,
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
        let (address, rate, first) = (self.subject.address, self.visits, self.visited);
        let requests = self.load.plan.requests.clone();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let visiting = scope.spawn(|| visit(address, &requests, rate, first, &is_over));
            let ended = self.load.beside(work);
            is_over.store(true, Ordering::Relaxed);
            let visits = visiting.join().map_err(|_| "the visitor panicked")?;
            let (done, flow) = ended?;
            self.visited += (visits.valid + visits.failed) as usize;
            self.load.total.add(&visits);
            self.honest[window].add(&flow);
            self.honest[window].add(&visits);
            Ok(done)
        })
    }

    /// Usage once all attackers are gone.
    fn settled(&mut self) -> Outcome<Usage> {
        let most = self.baseline.descriptors;
        self.subject.settled(&mut self.load, Some(most))
    }

    /// Honest load alone, then a wave beside it.
    fn wave(&mut self, number: usize) -> Outcome<()> {
        let (settings, subject) = (self.settings, self.subject);
        let is_warm = number <= settings.warm;
        let mut wave = settings.wave;
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
            thread::sleep(settings.quiet);
            Ok(())
        })?;
        let before = Page::read(subject.admin)?;
        let results = self.beside(windows[1], || wave.run(subject.address, number))?;
        let usage = self.settled()?;
        let closed = wave.faults(&results)?;
        let counted = counted(&wave, &before, &Page::read(subject.admin)?);
        for fault in closed.into_iter().chain(counted) {
            self.faults.add(&format!("wave {number}: {fault}"));
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
        let (address, count) = (self.subject.address, self.settings.flood);
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
                    self.settings.wave.limit(result.kind)?,
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
            if descriptors != base.descriptors {
                let before = base.descriptors;
                self.faults
                    .add(&format!("{name}: {descriptors} descriptors, not {before}"));
            }
            if self.settings.checks_all && ratio > GROWTH_MAX {
                self.faults
                    .add(&format!("{name}: memory is {ratio:.3} times the base"));
            }
        }
        println!(
            "the ratio is to the most after the first {} waves; {} descriptors before all; goals: at most {GROWTH_MAX}, \
             and the same",
            self.settings.warm, base.descriptors
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
            if answered == 0 {
                self.faults.add(&format!("honest, {name}: no response"));
            }
            if window == ATTACKED && self.settings.checks_all && p99 > HONEST_P99_MAX_MICROS {
                self.faults
                    .add(&format!("honest, {name}: p99 is {p99:.0} us"));
            }
        }
        println!("goals: none fails; p99 attacked at most {HONEST_P99_MAX_MICROS} us");
        self.faults.add_load(&self.load.total);
    }
}

/// Visits at a constant rate until `is_over`: each connects, sends one request and leaves. Visit
/// `first` is the first.
fn visit(
    address: SocketAddr,
    requests: &[(String, &str)],
    rate: f64,
    first: usize,
    is_over: &AtomicBool,
) -> Flow {
    let (mut flow, mut validator) = (Flow::default(), StatusOnly);
    let begun = Instant::now();
    for number in 1.. {
        let due = begun + Duration::from_secs_f64(number as f64 / rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let (target, headers) = &requests[number % requests.len()];
        let from = source(NETWORK, first + number);
        let response = exchange(from, address, &get(target, headers));
        let failed = |error: std::io::Error| Fault::failed(error.to_string());
        match response
            .map_err(failed)
            .and_then(|raw| validator.validate(0, 0, &raw))
        {
            Ok(()) => flow.valid += 1,
            Err(fault) => {
                flow.failed += 1;
                println!("failed: {}; a visit of {target}", fault.reason);
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
