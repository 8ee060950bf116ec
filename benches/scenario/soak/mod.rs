//! Half an hour of everything at once: load at 70 % of what the machine can do, publishes, key
//! changes, reloads, attacks, scrapes, and rotation of the access log.
//!
//! `abuse` has the malformed requests, `keys` the key changes, `access_log` the rotation, and
//! `service_manager` stands in for systemd.

mod abuse;
mod access_log;
mod keys;
mod service_manager;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use memchr::memmem;
use rustix::process::Signal;

use super::hostile::{Wave, set_timeouts};
use super::load::{Flow, Load};
use super::memory::Memory;
use super::metrics::Page;
use super::publisher::{Pace, Publisher};
use super::targets::targets;
use super::validator::Validator;
use super::{
    Chore, FULL_SCALE, Faults, Platform, QUICK_SCALE, SERVING, STOPPING, Scale, Subject, length,
    run_beside,
};
use crate::common::{Outcome, is_quick};
use abuse::Abuse;
use access_log::AccessLog;
use keys::KeyChanges;
use service_manager::WATCHDOG;

/// Share of the highest rate at which the load runs.
const RATE_SHARE: f64 = 0.7;
const MEMORY_EVERY: Duration = Duration::from_secs(1);
/// Highest growth of resident memory; anonymous memory is a small part of it, and not checked.
const GROWTH_MAX: [f64; 2] = [1.03, f64::INFINITY];
/// Log lines of a server without faults.
const EXPECTED_LOG: [&str; 6] = [
    SERVING,
    "reloading keys and data",
    "watching ",
    " key loaded",
    " keys loaded",
    STOPPING,
];
const REQUESTS: &str = "island_metrics_http_requests_total";
const UNREADABLE: &str = "island_metrics_http_parse_errors_total";
/// Beginning of a key, which must not be in any log or metric.
const KEY_PREFIX: &[u8] = b"im_live_";
/// Position of the id in a key, and of the secret after it.
const KEY_ID: std::ops::Range<usize> = 8..18;
const SECRET_AT: usize = 19;

struct Settings {
    scale: Scale,
    length: Duration,
    /// Everything runs for so long, then the server is measured without load.
    cycle: Duration,
    /// Time to measure the highest rate.
    peak: Duration,
    pace: Pace,
    wave: Wave,
    /// Everything else happens so many times as often as in a full run.
    haste: u32,
}

const FULL: Settings = Settings {
    scale: FULL_SCALE,
    length: Duration::from_mins(30),
    cycle: Duration::from_mins(1),
    peak: Duration::from_secs(10),
    pace: Pace {
        interval: Duration::from_secs(5),
        history_every: 9,
    },
    wave: Wave {
        counts: [300, 300, 0, 150, 150],
        ramp: Duration::from_secs(1),
        wait: Duration::from_secs(15),
        timeout_seconds: 3,
    },
    haste: 1,
};

const QUICK: Settings = Settings {
    scale: QUICK_SCALE,
    length: Duration::from_secs(12),
    cycle: Duration::from_secs(6),
    peak: Duration::from_millis(500),
    pace: Pace {
        interval: Duration::from_millis(700),
        history_every: 3,
    },
    wave: Wave::QUICK,
    haste: 6,
};

impl Settings {
    fn new() -> Settings {
        let Some(length) = length() else {
            return if is_quick() { QUICK } else { FULL };
        };
        Settings {
            length,
            cycle: FULL.cycle.min(length / 6),
            peak: FULL.peak.min(length / 12),
            ..FULL
        }
    }
}

/// The secrets of keys, which no log and no metric may show.
#[derive(Default)]
struct Secrets(Mutex<Vec<String>>);

impl Secrets {
    fn add(&self, key: &str) {
        let mut secrets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.push(key[SECRET_AT..].to_owned());
    }

    /// Whether a text has the prefix of keys, or a secret.
    fn are_in(&self, text: &[u8]) -> bool {
        let secrets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |secret: &[u8]| memmem::find(text, secret).is_some();
        has(KEY_PREFIX) || secrets.iter().any(|secret| has(secret.as_bytes()))
    }
}

/// State shared by the chores.
struct Stage<'a> {
    subject: &'a Subject,
    state: &'a Path,
    secrets: &'a Secrets,
    faults: &'a Faults,
}

/// The records of all chores.
#[derive(Default)]
struct Records {
    keys: KeyChanges,
    abuse: Abuse,
    access_log: AccessLog,
    memory: Memory,
    page: Page,
    scrapes: usize,
    waves: usize,
    reloads: usize,
}

impl Records {
    /// Everything that happens beside load and publishes. `begun` is when the soak began.
    fn chores<'a>(
        &'a mut self,
        stage: &'a Stage<'_>,
        settings: &'a Settings,
        begun: &'a Instant,
    ) -> Vec<Chore<'a>> {
        let subject = stage.subject;
        let every = |seconds| Duration::from_secs(seconds) / settings.haste;
        vec![
            Chore::new("keys", every(5), || self.keys.turn(stage)),
            Chore::new("abuse", every(1), || self.abuse.burst(stage)),
            Chore::new("access log", every(8), || self.access_log.rotate(stage)),
            Chore::new("metrics", every(1), || {
                self.scrapes += 1;
                scrape(stage, &mut self.page)
            }),
            Chore::new("reload", every(15), || {
                self.reloads += 1;
                subject.server.signal(Signal::HUP)
            }),
            Chore::new("memory", MEMORY_EVERY.min(settings.cycle / 10), || {
                self.memory.sample(begun, &subject.server)
            }),
            Chore::new("attack", Duration::ZERO, || {
                self.waves += 1;
                let results = settings.wave.run(subject.address, self.waves)?;
                for fault in settings.wave.faults(&results)? {
                    stage.faults.add(&format!("attack: {fault}"));
                }
                Ok(())
            }),
        ]
    }

    fn report(&self, settings: &Settings, faults: &Faults) {
        println!(
            "  {} reloads, {} waves of {} attackers in all, {} scrapes",
            self.reloads,
            self.waves,
            self.waves * settings.wave.size(),
            self.scrapes
        );
        for status in ["503", "500", "429", "431"] {
            let count = self.page.sum(REQUESTS, &format!("code=\"{status}\""));
            println!("  responses with status {status}: {count}");
        }
        for reason in ["first_byte", "head", "idle", "send", "room"] {
            println!("  closed by {reason}: {}", self.page.cuts(reason));
        }
        self.keys.report();
        self.abuse.report();
        let sixth = settings.length / 6;
        let parts = [sixth..sixth * 2, sixth * 5..settings.length];
        faults.add_all(self.memory.report(parts, settings.length, GROWTH_MAX));
    }
}

/// Scrapes the metrics. No counter may go back, no response may have a status for a fault of the
/// server, and no key may be shown.
fn scrape(stage: &Stage<'_>, last: &mut Page) -> Outcome<()> {
    let page = Page::read(stage.subject.admin)?;
    for name in page.shrunk(last) {
        stage.faults.add(&format!("{name} went back"));
    }
    if stage.secrets.are_in(page.text.as_bytes()) {
        stage.faults.add("the metrics show a key");
    }
    for code in ["500", "0"] {
        let labels = format!("code=\"{code}\"");
        if page.sum(REQUESTS, &labels) > last.sum(REQUESTS, &labels) {
            stage
                .faults
                .add(&format!("a response has the status {code}"));
        }
    }
    *last = page;
    Ok(())
}

pub(super) fn run(scratch: &Path, faults: &Faults) -> Outcome<()> {
    let settings = Settings::new();
    let mut platform = Platform::new(scratch, &settings.scale, settings.pace)?;
    let notifications = service_manager::listen(&scratch.join("manager"))?;
    let (state_directory, log) = (scratch.join("state"), scratch.join("access.log"));
    let subject = Subject::start(|serve| {
        serve.arg("--published").arg(&platform.publisher.directory);
        serve.arg("--state").arg(&state_directory);
        serve.arg("--access-log").arg(&log);
        set_timeouts(settings.wave.timeout_seconds, serve);
        serve.env("NOTIFY_SOCKET", scratch.join("manager"));
        serve.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    })?;
    let secrets = Secrets::default();
    platform.keys.iter().for_each(|key| secrets.add(key));
    let stage = Stage {
        subject: &subject,
        state: &state_directory,
        secrets: &secrets,
        faults,
    };
    let mut records = Records {
        access_log: AccessLog::new(log.clone(), &platform.keys),
        ..Records::default()
    };
    let targets = targets(subject.address, settings.scale.islands)?;
    let mut load = platform.load(subject.address, &targets)?;
    load.run_for(settings.peak)?;
    let rate = load.run_for(settings.peak)?.responses_per_second() * RATE_SHARE;
    println!(
        "{} targets; {rate:.0} requests per second, 70 % of the highest rate",
        targets.len()
    );
    let publisher = &mut platform.publisher;
    let descriptors = cycles(&stage, &settings, rate, &mut load, publisher, &mut records)?;
    publisher.check_dumps()?;
    scrape(&stage, &mut records.page)?;
    let lines = subject.end(&EXPECTED_LOG, faults)?;
    println!();
    if secrets.are_in(lines.join("\n").as_bytes()) {
        faults.add("the log shows a key");
    }
    records.access_log.read(&log, &secrets, faults)?;
    compare_logs(&records, &load, faults);
    faults.add_load(&load.total);
    faults.add_all(publisher.faults.drain(..));
    println!(
        "  {} publishes; descriptors without load: {descriptors:?}",
        publisher.publishes.len()
    );
    records.report(&settings, faults);
    let notifications = notifications.join();
    let notifications = notifications.map_err(|_| "the service manager panicked")?;
    notifications.report(faults);
    Ok(())
}

/// All cycles. After each, descriptors are counted without load; returns their numbers.
fn cycles(
    stage: &Stage<'_>,
    settings: &Settings,
    rate: f64,
    load: &mut Load<Validator<'_>>,
    publisher: &mut Publisher,
    records: &mut Records,
) -> Outcome<Vec<usize>> {
    let (subject, faults) = (stage.subject, stage.faults);
    let open = subject.settled(load, None)?.descriptors;
    let (begun, mut all) = (Instant::now(), Vec::new());
    let cycles = settings.length.div_duration_f64(settings.cycle).round() as usize;
    for _ in 0..cycles {
        load.plan.rate = Some(rate);
        let mut chores = records.chores(stage, settings, &begun);
        let next = Chore::new("publish", settings.pace.interval, || publisher.next());
        chores.push(next);
        let flow: Flow = run_beside(load, settings.cycle, chores, faults)?;
        load.plan.rate = None;
        publisher.settle(subject.address)?;
        let usage = subject.settled(load, Some(open))?;
        let descriptors = usage.descriptors;
        if descriptors != open {
            faults.add(&format!(
                "{descriptors} descriptors without load, not {open}"
            ));
        }
        all.push(descriptors);
        println!(
            "{:>5.0} s: {} responses, p99 {:.0} us; {} publishes, {} keys, {} attackers, {:.0} MiB, {descriptors} descriptors",
            begun.elapsed().as_secs_f64(),
            load.validator.responses,
            flow.latencies.quantile_micros(0.99),
            publisher.publishes.len(),
            records.keys.issued,
            records.waves * settings.wave.size(),
            usage.resident_kib as f64 / 1024.0
        );
    }
    Ok(all)
}

/// Requires a line in the access log for each response that the server counts, and for each of the
/// load, except for lines counted as dropped.
fn compare_logs(records: &Records, load: &Load<Validator<'_>>, faults: &Faults) {
    let (log, page) = (&records.access_log, &records.page);
    let dropped = page.get("island_metrics_access_log_dropped_total") as u64;
    // A head that cannot be parsed has a line too.
    let counted = (page.sum(REQUESTS, "") + page.sum(UNREADABLE, "")) as u64;
    let (lines, load_lines, responses) = (log.lines, log.load_lines, load.validator.responses);
    println!(
        "  access log: {lines} lines in {} files, {dropped} dropped, {counted} responses; {load_lines} of the load, \
         which had {responses}",
        log.files,
    );
    if lines + dropped != counted {
        faults.add(&format!(
            "{lines} lines and {dropped} dropped, but {counted} responses"
        ));
    }
    if load_lines > responses || responses - load_lines > dropped {
        faults.add(&format!(
            "{load_lines} lines of {responses} responses to the load"
        ));
    }
}
