//! Attacks: thousands who hold connections and give nothing for them, floods of those who come and go, and no
//! descriptor left; beside honest load that is to notice nothing.
//!
//! In: the release binary with its sample dataset. Out: a table on stdout, and an error if anything is not as
//! it should be. See `benches/README.md`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "a program that computes with measurements and prints what comes of it"
)]

#[allow(dead_code, reason = "each bench uses a part of it")]
#[path = "../common/mod.rs"]
mod common;
mod settings;
mod starved;
mod waves;

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::honest::{Honest, Plan, Window};
use crate::common::hostile::{self, Seen};
use crate::common::http::{found, get};
use crate::common::metrics::Page;
use crate::common::process::pin_load;
use crate::common::text::values;
use crate::common::{Outcome, floods, histogram, is_quick, raised};
use crate::settings::{CONTROL, FULL, QUICK, RAISED, Settings};
use crate::waves::{Held, Target};

/// Windows of the honest load.
const WARM: usize = 0;
const ALONE: usize = 1;
const ATTACKED: usize = 2;
const FLOODED: usize = 3;
/// Honest connections that stay, and visits a second.
const LINES: usize = 50;
const VISITS: f64 = 100.0;
const HONEST_P99_MAX_MICROS: f64 = 5000.0;
/// The server's memory after an attack, against that after those that warm up.
const GROWTH_MAX: f64 = 1.05;

fn plan(target: &Target, rate: f64) -> Outcome<Plan> {
    let listed = found(target.server.address, "/v1/islands?limit=50")?.body;
    let listed = String::from_utf8(listed)?;
    let code = values(&listed, "code")
        .first()
        .copied()
        .ok_or("no islands")?;
    let gzip = "accept-encoding: gzip\r\n";
    let requests = vec![
        get("/v1", ""),
        get("/v1/islands?limit=50", gzip),
        get(&format!("/v1/islands/{code}"), gzip),
        get(&format!("/v1/islands/{code}/ccu"), ""),
    ];
    Ok(Plan {
        lines: LINES,
        rate,
        visits: VISITS.min(rate / 5.0),
        requests,
    })
}

/// What came of all waves and floods.
struct Course {
    seen: Vec<Vec<Seen>>,
    baseline: Held,
    after: Vec<(String, Held)>,
    faults: Vec<String>,
}

/// Waves, each after honest load alone.
fn waves(settings: &Settings, target: &mut Target, honest: &Honest) -> Outcome<Course> {
    let mut course = Course {
        seen: Vec::new(),
        baseline: target.settled(usize::MAX)?,
        after: Vec::new(),
        faults: Vec::new(),
    };
    for number in 0..settings.warm + settings.rounds {
        let is_warm = number < settings.warm;
        let wave = &settings.wave(is_warm);
        honest.window(if is_warm { WARM } else { ALONE });
        thread::sleep(settings.quiet);
        let before = Page::read(target.admin)?;
        honest.window(if is_warm { WARM } else { ATTACKED });
        let seen = target.attack(wave)?.end()?;
        honest.pause();
        let held = target.settled(course.baseline.descriptors)?;
        let judged = settings.limits.judge(wave, &seen)?.into_iter();
        let counted = target.counted(wave, &before)?;
        let name = format!("wave {}", number + 1);
        let found = judged.chain(counted);
        course
            .faults
            .extend(found.map(|fault| format!("{name}: {fault}")));
        if is_warm {
            let base = &mut course.baseline.resident_kib;
            *base = held.resident_kib.max(*base);
        }
        course.after.push((name, held));
        course.seen.push(seen);
    }
    Ok(course)
}

/// Floods beside honest load.
fn floods(
    settings: &Settings,
    target: &Target,
    honest: &Honest,
    course: &mut Course,
) -> Outcome<()> {
    let to = target.server.address;
    for (name, flood) in [
        (
            "connect and close",
            floods::closing as fn(_, _) -> Outcome<f64>,
        ),
        ("reset at each byte", floods::breaking),
    ] {
        honest.window(FLOODED);
        let rate = flood(to, settings.flood)?;
        honest.pause();
        let held = target.settled(course.baseline.descriptors)?;
        let name = format!("{name}, {} at {rate:.0}/s", settings.flood);
        course.after.push((name, held));
    }
    Ok(())
}

fn report_waves(settings: &Settings, course: &Course) -> Outcome<()> {
    println!(
        "\n{:<24}{:>8}{:>8}{:>8}{:>10}{:>10}{:>10}{:>10}",
        "attackers", "wave", "all", "cut", "limit s", "first s", "median s", "last s"
    );
    for (number, wave) in course.seen.iter().enumerate() {
        for seen in wave.iter().filter(|seen| seen.opened > 0) {
            println!(
                "{:<24}{:>8}{:>8}{:>8}{:>10.0}{:>10.2}{:>10.2}{:>10.2}",
                seen.kind.name(),
                number + 1,
                seen.opened,
                seen.cut,
                settings.limits.of(seen.kind)?,
                seen.first,
                seen.median,
                seen.last
            );
        }
    }
    println!(
        "\n{:<40}{:>12}{:>10}{:>8}",
        "the server holds", "RSS KiB", "ratio", "fds"
    );
    let base = course.baseline;
    for (name, held) in &course.after {
        let ratio = held.resident_kib as f64 / base.resident_kib as f64;
        let (kib, descriptors) = (held.resident_kib, held.descriptors);
        println!("{name:<40}{kib:>12}{ratio:>10.3}{descriptors:>8}");
    }
    println!(
        "the ratio is to the most that it held after the first {} waves; {} descriptors before all; goals: at most {GROWTH_MAX}, and the same",
        settings.warm, base.descriptors
    );
    Ok(())
}

fn report_honest(windows: &[Window], settings: &Settings) -> Vec<String> {
    let mut faults = Vec::new();
    println!(
        "\n{:<24}{:>12}{:>8}{:>10}{:>10}{:>10}",
        "honest", "answered", "failed", "p50 us", "p99 us", "p99.9 us"
    );
    for (number, name) in ["warming up", "alone", "attacked", "flooded"]
        .iter()
        .enumerate()
    {
        let window = &windows[number];
        let [p50, p99, p999] =
            [0.5, 0.99, 0.999].map(|share| window.latencies.quantile_micros(share));
        let (answered, failed) = (window.answered, window.failed);
        println!("{name:<24}{answered:>12}{failed:>8}{p50:>10.0}{p99:>10.0}{p999:>10.0}");
        if failed > 0 || answered == 0 {
            faults.push(format!(
                "honest, {name}: {failed} failed, {answered} answered"
            ));
        }
        if number == ATTACKED && settings.judges && p99 > HONEST_P99_MAX_MICROS {
            faults.push(format!("honest, {name}: p99 is {p99:.0} us"));
        }
    }
    println!("goals: none fails; p99 of the attacked at most {HONEST_P99_MAX_MICROS} us");
    faults
}

fn held(course: &Course, settings: &Settings) -> Vec<String> {
    let mut faults = Vec::new();
    let base = course.baseline;
    for (name, held) in &course.after {
        if held.descriptors != base.descriptors {
            let (now, before) = (held.descriptors, base.descriptors);
            faults.push(format!("{name}: {now} descriptors, not {before}"));
        }
        let ratio = held.resident_kib as f64 / base.resident_kib as f64;
        if settings.judges && ratio > GROWTH_MAX {
            faults.push(format!("{name}: memory is {ratio:.3} times what it was"));
        }
    }
    faults
}

fn starved(settings: &Settings) -> Outcome<Vec<String>> {
    let mut faults = Vec::new();
    println!(
        "\n{:<24}{:>12}{:>12}{:>16}",
        "starved server", "served", "CPU %", "answer, ms max"
    );
    let all = [
        Some(starved::without_room(settings.starved)?),
        starved::without_descriptors(settings.starved)?,
    ];
    for one in all.iter().flatten() {
        println!(
            "{:<24}{:>12}{:>12.2}{:>16.1}",
            one.name,
            one.served,
            one.cpu_share * 100.0,
            one.slowest.as_secs_f64() * 1000.0
        );
        faults.extend(one.faults());
    }
    println!("goals: at most 1 % of a core, and 150 ms after a descriptor is free");
    Ok(faults)
}

fn benchmark(settings: &Settings) -> Outcome<()> {
    histogram::check();
    println!("{}, attackers too", pin_load()?);
    waves::control(QUICK.limits, RAISED, &CONTROL)?;
    let begun = Instant::now();
    let mut target = Target::start(settings.limits)?;
    let plan = plan(&target, settings.rate)?;
    let listening = target.server.listen()?;
    println!(
        "{} attackers at a time beside {:.0} honest requests a second on {LINES} connections, and {:.0} visits",
        settings.wave.size(),
        plan.rate,
        plan.visits
    );
    let honest = Honest::start(target.server.address, plan, 4);
    thread::sleep(Duration::from_millis(500));
    honest.pause();
    let mut course = waves(settings, &mut target, &honest)?;
    floods(settings, &target, &honest, &mut course)?;
    let windows = honest.end()?;
    report_waves(settings, &course)?;
    let mut faults = std::mem::take(&mut course.faults);
    faults.extend(held(&course, settings));
    faults.extend(report_honest(&windows, settings));
    let panics = !target.server.end(Duration::from_secs(10))?;
    let said = listening.join().map_err(|_| "the listener panicked")?;
    // The last of a stop, and what it says of the sample as it starts.
    let expected = [
        "stopping: ",
        "serving the sample dataset",
        "  curl ",
        "or open ",
    ];
    let is_expected = |line: &&String| expected.iter().any(|begin| line.starts_with(begin));
    let said: Vec<&String> = said.iter().filter(|line| !is_expected(line)).collect();
    faults.extend(said.iter().map(|line| format!("the server says: {line}")));
    if panics {
        faults.push("the server did not end well".to_owned());
    }
    faults.extend(starved(settings)?);
    println!(
        "\n{} unexpected lines of the server; {:.0} s in all",
        said.len(),
        begun.elapsed().as_secs_f64()
    );
    for fault in &faults {
        println!("wrong: {fault}");
    }
    match faults.len() {
        0 => println!("nothing is wrong"),
        count => return Err(format!("{count} faults").into()),
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    match &words[..] {
        [flag, rest @ ..] if flag == hostile::FLAG => hostile::attack(rest),
        [.., last] if last == raised::RAISED => benchmark(if is_quick() { &QUICK } else { &FULL }),
        _ if raised::again()? => Ok(()),
        _ => Err("it failed".into()),
    }
}
