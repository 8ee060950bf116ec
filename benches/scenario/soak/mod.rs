//! Half an hour of everything at once: load at 70 % of what the machine can do, publishes, key
//! changes, reloads, attacks, scrapes, and rotation of the access log.
//!
//! `abuse` has the malformed requests, `keys` the key changes, `access_log` the rotation, and
//! `service_manager` stands in for systemd.

mod abuse;
mod access_log;
mod keys;
mod service_manager;

use std::sync::Mutex;

use abuse::Abuse;
use access_log::AccessLog;
use keys::KeyChanges;
use memchr::memmem;
use rustix::process::Signal;
use service_manager::WATCHDOG;

use super::hostile::{Wave, set_timeouts};
use super::load::Load;
use super::memory::Memory;
use super::metrics::Page;
use super::publisher::{Pace, Publisher};
use super::targets::targets;
use super::validator::Validator;
use super::{Chore, Faults, Platform, SERVING, STOPPING, Subject, length, run_beside};
use crate::common::prelude::*;

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

/// Attackers of a full run.
const WAVE: Wave = Wave {
    counts: [300, 300, 0, 150, 150],
    ramp: Duration::from_secs(1),
    wait: Duration::from_secs(15),
    timeout_seconds: 3,
};

/// The secrets of keys, which no log and no metric may show.
#[derive(Default)]
struct Secrets(Mutex<Vec<String>>);

impl Secrets {
    fn add(&self, key: &str) {
        let mut secrets = self.0.lock().expect("no thread panics with it");
        secrets.push(key[SECRET_AT..].to_owned());
    }

    /// Requires that a text has neither the prefix of keys nor a secret.
    fn check(&self, name: &str, text: &[u8], faults: &Faults) {
        let secrets = self.0.lock().expect("no thread panics with it");
        let has = |secret: &[u8]| memmem::find(text, secret).is_some();
        let is_shown = has(KEY_PREFIX) || secrets.iter().any(|secret| has(secret.as_bytes()));
        faults.require(!is_shown, format_args!("{name} shows a key"));
    }
}

/// State shared by the chores.
struct Stage<'a> {
    subject: &'a Subject,
    state: &'a Path,
    secrets: &'a Secrets,
    faults: &'a Faults,
    wave: Wave,
    length: Duration,
    /// Everything runs for so long, then the server is measured without load.
    cycle: Duration,
}

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
    fn chores<'a>(&'a mut self, stage: &'a Stage<'_>, begun: &'a Instant) -> Vec<Chore<'a>> {
        let subject = stage.subject;
        let every = |seconds| Duration::from_secs(seconds) / full_or_quick(1, 6);
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
            Chore::new("memory", MEMORY_EVERY.min(stage.cycle / 10), || {
                self.memory.sample(begun, &subject.server)
            }),
            Chore::new("attack", Duration::ZERO, || {
                self.waves += 1;
                let results = stage.wave.run(subject.address, self.waves)?;
                let faults = stage.wave.faults(&results)?.into_iter();
                let faults = faults.map(|fault| format!("attack: {fault}"));
                stage.faults.add_all(faults);
                Ok(())
            }),
        ]
    }

    fn report(&self, wave: Wave, length: Duration, faults: &Faults) {
        println!(
            "  {} reloads, {} waves of {} attackers in all, {} scrapes",
            self.reloads,
            self.waves,
            self.waves * wave.size(),
            self.scrapes
        );
        for status in ["503", "500", "429", "431"] {
            let count = self.page.sum(REQUESTS, &labels(status));
            println!("  responses with status {status}: {count}");
        }
        for reason in ["first_byte", "head", "idle", "send", "room"] {
            println!("  closed by {reason}: {}", self.page.cuts(reason));
        }
        self.keys.report();
        self.abuse.report();
        let sixth = length / 6;
        let parts = [sixth..sixth * 2, sixth * 5..length];
        self.memory.report(parts, length, GROWTH_MAX, faults);
    }
}

fn labels(status: &str) -> String {
    format!("code=\"{status}\"")
}

/// Scrapes the metrics. No counter may go back, no response may have a status for a fault of the
/// server, and no key may be shown.
fn scrape(stage: &Stage<'_>, last: &mut Page) -> Outcome<()> {
    let page = Page::read(stage.subject.admin)?;
    let (faults, text) = (stage.faults, page.text.as_bytes());
    for name in page.shrunk(last) {
        faults.add(format_args!("{name} went back"));
    }
    stage.secrets.check("a scrape of metrics", text, faults);
    for code in ["500", "0"] {
        let [before, now] = [&*last, &page].map(|page| page.sum(REQUESTS, &labels(code)));
        let fault = format_args!("a response has the status {code}");
        faults.require(now <= before, fault);
    }
    *last = page;
    Ok(())
}

pub(super) fn run(scratch: &Path, faults: &Faults) -> Outcome<()> {
    let pace = Pace {
        interval: full_or_quick(Duration::from_secs(5), Duration::from_millis(700)),
        history_every: full_or_quick(9, 3),
    };
    let wave = full_or_quick(WAVE, Wave::QUICK);
    let length = length(Duration::from_mins(30), Duration::from_secs(12));
    let mut platform = Platform::new(scratch, pace)?;
    let notifications = service_manager::listen(&scratch.join("manager"))?;
    let (state_directory, log) = (scratch.join("state"), scratch.join("access.log"));
    let subject = Subject::start(|serve| {
        serve.arg("--published").arg(&platform.publisher.directory);
        serve.arg("--state").arg(&state_directory);
        serve.arg("--access-log").arg(&log);
        set_timeouts(wave.timeout_seconds, serve);
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
        wave,
        length,
        cycle: full_or_quick(Duration::from_mins(1).min(length / 6), length / 2),
    };
    let mut records = Records {
        access_log: AccessLog::new(log.clone(), &platform.keys),
        ..Records::default()
    };
    let targets = targets(subject.address)?;
    let mut load = platform.load(subject.address, &targets)?;
    let peak = Duration::from_secs(10).min(length / 12);
    load.run_for(peak)?;
    let rate = load.run_for(peak)?.responses_per_second() * RATE_SHARE;
    println!(
        "{} targets; {rate:.0} requests per second, 70 % of the highest rate",
        targets.len()
    );
    let publisher = &mut platform.publisher;
    let descriptors = cycles(&stage, rate, &mut load, publisher, &mut records)?;
    publisher.check_dumps()?;
    scrape(&stage, &mut records.page)?;
    let lines = subject.end(&EXPECTED_LOG, faults)?;
    println!();
    secrets.check("the log", lines.join("\n").as_bytes(), faults);
    records.access_log.read(&log, &secrets, faults)?;
    compare_logs(&records, &load, faults);
    faults.add_load(&load.total);
    faults.add_all(publisher.faults.drain(..));
    println!(
        "  {} publishes; descriptors without load: {descriptors:?}",
        publisher.publishes.len()
    );
    records.report(wave, length, faults);
    let notifications = notifications.join();
    let notifications = notifications.map_err(|_| "the service manager panicked")?;
    notifications.report(faults);
    Ok(())
}

/// All cycles. After each, descriptors are counted without load; returns their numbers.
fn cycles(
    stage: &Stage<'_>,
    rate: f64,
    load: &mut Load<Validator<'_>>,
    publisher: &mut Publisher,
    records: &mut Records,
) -> Outcome<Vec<usize>> {
    let (subject, faults) = (stage.subject, stage.faults);
    let open = subject.settled(load, None)?.descriptors;
    let (begun, mut all) = (Instant::now(), Vec::new());
    let cycles = stage.length.div_duration_f64(stage.cycle).round() as usize;
    for _ in 0..cycles {
        load.plan.rate = Some(rate);
        let mut chores = records.chores(stage, &begun);
        chores.push(publisher.chore());
        let flow = run_beside(load, stage.cycle, chores, faults)?;
        load.plan.rate = None;
        publisher.settle(subject.address)?;
        let usage = subject.settled(load, Some(open))?;
        let descriptors = usage.descriptors;
        let fault = format_args!("{descriptors} descriptors without load, not {open}");
        faults.require(descriptors == open, fault);
        all.push(descriptors);
        println!(
            "{:>5.0} s: {} responses, p99 {:.0} us; {} publishes, {} keys, {} attackers, {:.0} MiB, {descriptors} descriptors",
            begun.elapsed().as_secs_f64(),
            load.validator.responses,
            flow.latencies.quantile_micros(0.99),
            publisher.publishes.len(),
            records.keys.issued,
            records.waves * stage.wave.size(),
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
    let fault = format_args!("{lines} lines and {dropped} dropped, but {counted} responses");
    faults.require(lines + dropped == counted, fault);
    let fault = format_args!("{load_lines} lines of {responses} responses to the load");
    let allowed = load_lines..=load_lines + dropped;
    faults.require(allowed.contains(&responses), fault);
}
