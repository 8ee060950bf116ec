//! A soak: for half an hour everything at once. Load at 70 % of what the machine gives, every answer judged;
//! refreshes, keys that come and go, reloads, attacks, scrapes, and an access log that is rotated.
//!
//! In: the release binary and a made-up dataset that goes on. Out: a line a minute and a table on stdout, and
//! an error if anything is not as it should be. See `benches/README.md`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "a program that computes with measurements and prints what comes of it"
)]

mod abuse;
#[allow(dead_code, reason = "each bench uses a part of it")]
#[path = "../common/mod.rs"]
mod common;
mod keys;
mod logs;
mod manager;
mod memory;
mod settings;
mod stage;

use std::env;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::abuse::Abuse;
use crate::common::histogram::Histogram;
use crate::common::hostile::{self, Running};
use crate::common::judged::feed::Feed;
use crate::common::judged::judge::Judge;
use crate::common::judged::ledger::Ledger;
use crate::common::judged::load::{CONNECTIONS, Load, released};
use crate::common::judged::publisher::Publisher;
use crate::common::judged::targets;
use crate::common::metrics::{Page, free_address};
use crate::common::process::{Scratch, Server, pin_load};
use crate::common::{Outcome, histogram, is_quick, raised, world};
use crate::keys::Keys;
use crate::logs::Logs;
use crate::manager::{Manager, WATCHDOG};
use crate::memory::Memory;
use crate::settings::{FULL, QUICK, Settings};
use crate::stage::Stage;

/// Clients that the load comes from: what two of them ask for stays in the server's caches.
const KEYS: usize = 4;
/// Of what the machine gives.
const SHARE: f64 = 0.7;
/// How often memory is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long the server may take to end.
const ENDING: Duration = Duration::from_secs(20);
/// What a server says when nothing is wrong.
const EXPECTED: [&str; 4] = [
    "serving the publish of ",
    "looking at keys and data",
    "stopping: ",
    "watching ",
];
const REQUESTS: &str = "island_metrics_http_requests_total";
const UNREADABLE: &str = "island_metrics_http_parse_errors_total";

fn start(
    directory: &Path,
    scratch: &Path,
    state: &Path,
    settings: &Settings,
) -> Outcome<(Server, std::net::SocketAddr)> {
    let admin = free_address()?;
    let server = world::serve_behind("ulimit -n \"$(ulimit -Hn)\"", |serve| {
        serve.arg("--published").arg(directory);
        serve.arg("--state").arg(state);
        serve.arg("--admin").arg(admin.to_string());
        serve.arg("--access-log").arg(scratch.join("access.log"));
        settings.limits.set(serve);
        serve.env("NOTIFY_SOCKET", scratch.join("manager"));
        serve.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    })?;
    Ok((server, admin))
}

/// What the parts note.
#[derive(Default)]
struct Notes {
    keys: Keys,
    abuse: Abuse,
    memory: Memory,
    page: Page,
    scrapes: usize,
    waves: usize,
    attackers: usize,
    reloads: usize,
    quiet: Vec<usize>,
}

/// Looks at the metrics: nothing that only grows shrinks, nothing secret is told, no answer is a fault of the
/// server's own.
fn scrape(stage: &Stage, last: &mut Page) -> Outcome<()> {
    let page = Page::read(stage.admin)?;
    for name in page.shrunk(last) {
        stage.wrong(format!("{name} went back"));
    }
    if stage.shows_key(page.text.as_bytes()) {
        stage.wrong("the metrics show a key".to_owned());
    }
    for code in ["500", "0"] {
        let labels = format!("code=\"{code}\"");
        if page.sum(REQUESTS, &labels) > last.sum(REQUESTS, &labels) {
            stage.wrong(format!("something was answered with status {code}"));
        }
    }
    *last = page;
    Ok(())
}

/// Everything at once, for a while. The latencies of the load.
fn cycle(
    stage: &Stage,
    settings: &Settings,
    at: Duration,
    load: &mut Load<'_>,
    publisher: &mut Publisher,
    logs: &mut Logs,
    notes: &mut Notes,
) -> Outcome<Histogram> {
    stage.begin();
    let Notes {
        keys,
        abuse,
        memory,
        page,
        scrapes,
        waves,
        attackers,
        reloads,
        ..
    } = notes;
    let body = || {
        thread::scope(|scope| {
            scope.spawn(|| stage.every("keys", settings.keys_every, || keys.turn(stage)));
            scope.spawn(|| stage.every("abuse", settings.abuse_every, || abuse.burst(stage)));
            scope.spawn(|| stage.every("access log", settings.rotate_every, || logs.rotate(stage)));
            scope.spawn(|| {
                stage.every("metrics", settings.scrape_every, || {
                    *scrapes += 1;
                    scrape(stage, page)
                });
            });
            scope.spawn(|| {
                stage.every("reload", settings.reload_every, || {
                    *reloads += 1;
                    stage.server.signal("HUP")
                });
            });
            scope.spawn(|| {
                stage.every("attack", Duration::ZERO, || {
                    *waves += 1;
                    *attackers += settings.wave.size();
                    let wave = Running::start(stage.address, &settings.wave, *waves)?;
                    let seen = wave.end()?;
                    for fault in settings.limits.judge(&settings.wave, &seen)? {
                        stage.wrong(format!("attack: {fault}"));
                    }
                    Ok(())
                });
            });
            let mut look = |elapsed| memory.look(&stage.server, at + elapsed);
            let flow = load.run(settings.cycle, LOOK.min(settings.cycle / 10), &mut look);
            stage.end();
            flow.map_err(|error| error.to_string())
        })
    };
    let flow = publisher.during(&settings.pace, body)??;
    Ok(flow.latencies)
}

/// Issues the keys of the load.
fn issue(state: &Path) -> Outcome<Vec<String>> {
    let issued = (0..KEYS).map(|number| {
        let address = format!("bench{number}@example.com");
        world::issue_key(state, &address)
    });
    issued.collect()
}

/// Every answered request has a line: those of all, and those of the load.
fn compare_logs(stage: &Stage, logs: &Logs, load: &Load<'_>, last: &Page) {
    let dropped = last.get("island_metrics_access_log_dropped_total") as u64;
    // Heads that could not be read have a line too.
    let answers = (last.sum(REQUESTS, "") + last.sum(UNREADABLE, "")) as u64;
    let (lines, load_lines, judged) = (logs.lines, logs.load_lines, load.judge.answers);
    println!(
        "  access log: {lines} lines in {} files, {dropped} dropped, {answers} answers; {load_lines} of the load, which \
         had {judged}; {} files show a key",
        logs.rotated + 1,
        logs.shown
    );
    if lines + dropped != answers {
        let text = format!("{lines} lines and {dropped} dropped, but {answers} answers");
        stage.wrong(text);
    }
    if load_lines > judged || judged - load_lines > dropped {
        let text = format!("{load_lines} lines of the load's {judged} answers");
        stage.wrong(text);
    }
}

fn benchmark(settings: &Settings) -> Outcome<()> {
    histogram::check();
    let scratch = Scratch::new()?;
    let [dataset, directory, kept] =
        ["dataset", "published", "state"].map(|name| scratch.path().join(name));
    world::synthesize(&dataset, settings.size)?;
    let feed = Feed::new(&dataset, &scratch.path().join("aside"))?;
    println!("{}, publishes and attackers too", pin_load()?);
    let ledger = Ledger::default();
    let mut publisher = Publisher::new(feed, ledger.clone(), &dataset, &directory)?;
    let load_keys = issue(&kept)?;
    let manager = Manager::listen(&scratch.path().join("manager"))?;
    let (mut server, admin) = start(&directory, scratch.path(), &kept, settings)?;
    let listening = server.listen()?;
    let stage = Stage::new(server, admin, kept);
    for key in &load_keys {
        stage.hide(key);
    }
    let mut logs = Logs::new(&scratch.path().join("access.log"), &load_keys);
    let targets = targets::targets(stage.address, &settings.counts)?;
    let judge = Judge::new(ledger, &targets, CONNECTIONS);
    let mut load = Load::new(stage.address, load_keys, &targets, judge)?;
    load.run(settings.peak, LOOK, &mut |_| Ok(()))?;
    let peak = load.run(settings.peak, LOOK, &mut |_| Ok(()))?;
    let rate = peak.answers as f64 / peak.seconds * SHARE;
    println!(
        "{} targets; {rate:.0} requests a second, 70 % of the most",
        targets.len()
    );
    let open = released(&mut load, &stage.server, 0)?;
    let mut notes = Notes::default();
    let (begun, mut p99s) = (Instant::now(), Vec::new());
    let cycles = (settings.length.as_secs_f64() / settings.cycle.as_secs_f64()).round() as u32;
    for number in 0..cycles {
        let at = settings.cycle * number;
        load.rate = Some(rate);
        let latencies = cycle(
            &stage,
            settings,
            at,
            &mut load,
            &mut publisher,
            &mut logs,
            &mut notes,
        )?;
        load.rate = None;
        publisher.settle(stage.address)?;
        let descriptors = released(&mut load, &stage.server, open)?;
        if descriptors != open {
            stage.wrong(format!(
                "{descriptors} descriptors in a quiet moment, not {open}"
            ));
        }
        notes.quiet.push(descriptors);
        let p99 = latencies.quantile_micros(0.99);
        p99s.push(p99);
        println!(
            "{:>5.0} s: {} answers, p99 {p99:.0} us; {} publishes, {} keys, {} attackers, {:.0} MiB, {descriptors} descriptors",
            begun.elapsed().as_secs_f64(),
            load.judge.answers,
            publisher.refreshes.len(),
            notes.keys.issued,
            notes.attackers,
            notes.memory.last_kib() / 1024.0
        );
    }
    publisher.look_deep()?;
    scrape(&stage, &mut notes.page)?;
    finish(
        stage, settings, &load, &publisher, logs, &notes, manager, listening,
    )
}

/// Ends the server, and tells all.
#[expect(clippy::too_many_arguments, reason = "all that there was")]
fn finish(
    mut stage: Stage,
    settings: &Settings,
    load: &Load<'_>,
    publisher: &Publisher,
    mut logs: Logs,
    notes: &Notes,
    manager: Manager,
    listening: thread::JoinHandle<Vec<String>>,
) -> Outcome<()> {
    if !stage.server.end(ENDING)? {
        stage.wrong("the server did not end well".to_owned());
    }
    let heard = manager.end()?;
    let said = listening.join().map_err(|_| "the listener panicked")?;
    println!();
    logs.last(&stage)?;
    compare_logs(&stage, &logs, load, &notes.page);
    let (failed, mixed) = (load.faults.failed, load.faults.mixed);
    println!(
        "  {} answers judged: {failed} failed, {mixed} mixed",
        load.judge.answers
    );
    if failed + mixed > 0 {
        stage.wrong(format!("{failed} answers failed, {mixed} were mixed"));
    }
    println!(
        "  {} publishes, {} reloads, {} waves of {} attackers in all, {} scrapes",
        publisher.refreshes.len(),
        notes.reloads,
        notes.waves,
        notes.attackers,
        notes.scrapes
    );
    for status in ["503", "500", "429", "431"] {
        let count = notes.page.sum(REQUESTS, &format!("code=\"{status}\""));
        println!("  answers with status {status}: {count}");
    }
    for reason in ["first_byte", "head", "idle", "send", "room"] {
        println!("  cut by {reason}: {}", notes.page.cuts(reason));
    }
    notes.keys.report();
    notes.abuse.report();
    println!(
        "  watchdog: {} signs of life, {:.1} s without one at the longest; goal {:.0}",
        heard.signs,
        heard.longest.as_secs_f64(),
        WATCHDOG.as_secs_f64() / 2.0
    );
    println!("  descriptors in quiet moments: {:?}", notes.quiet);
    let drift = notes.memory.report(settings.length);
    for fault in heard.faults().into_iter().chain(drift) {
        stage.wrong(fault);
    }
    for fault in &publisher.faults {
        stage.wrong(fault.clone());
    }
    let is_expected = |line: &str| {
        let loaded = line.ends_with(" keys loaded") || line.ends_with(" key loaded");
        loaded || EXPECTED.iter().any(|begin| line.starts_with(begin))
    };
    for line in said.iter().filter(|line| !is_expected(line)) {
        stage.wrong(format!("the server says: {line}"));
    }
    if stage.shows_key(said.join("\n").as_bytes()) {
        stage.wrong("the log shows a key".to_owned());
    }
    match stage.faults().len() {
        0 => println!("nothing is wrong"),
        count => return Err(format!("{count} faults").into()),
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    match &words[..] {
        [flag, rest @ ..] if flag == hostile::FLAG => return hostile::attack(rest),
        [.., last] if last == raised::RAISED => {}
        _ if raised::again()? => return Ok(()),
        _ => return Err("it failed".into()),
    }
    let mut numbers = words.iter().filter_map(|word| word.parse().ok());
    benchmark(&match numbers.next().map(Duration::from_secs) {
        None if is_quick() => QUICK,
        None => FULL,
        Some(length) => FULL.of(length),
    })
}
