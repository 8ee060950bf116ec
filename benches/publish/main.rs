//! Publishing at the platform's scale: from nothing, with a live file more, with a day more; and beside
//! it DuckDB, which makes the same JSON of every island from the same files.
//!
//! `cargo bench --bench publish`; words: `small` for a thirtieth of it, `starts` for those of a server
//! alone, a number for so many rounds.
//! DuckDB runs where a Python that has it is named: `IM_BENCH_DUCKDB=VENV/bin/python`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::doc_markdown,
    clippy::print_stdout,
    reason = "a program that computes with measurements and prints what comes of it"
)]

#[allow(dead_code, reason = "each bench uses a part of it")]
#[path = "../common/mod.rs"]
mod common;
mod same;
mod starts;
mod watched;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::process::{Scratch, command, run};
use common::stats::median;
use common::{BINARY, Outcome, is_quick};
use watched::{Run, watch};

/// How large the dataset is, and how often each is run.
struct Settings {
    islands: u32,
    creators: u32,
    days: u32,
    long_run_days: u32,
    rows: u32,
    rounds: usize,
    starts: usize,
}

const FULL: Settings = Settings {
    islands: 300_000,
    creators: 100_000,
    days: 365,
    long_run_days: 700,
    rows: 60_000,
    rounds: 3,
    starts: 15,
};
const SMALL: Settings = Settings {
    islands: 20_000,
    creators: 7_000,
    days: 180,
    long_run_days: 360,
    rows: 4_000,
    rounds: 5,
    starts: 15,
};
/// Days enough for all rows, orders and indexes to be there.
const STARTS: Settings = Settings {
    days: 2,
    long_run_days: 2,
    rounds: 0,
    ..FULL
};
const QUICK: Settings = Settings {
    islands: 400,
    creators: 100,
    days: 5,
    long_run_days: 8,
    rows: 80,
    rounds: 1,
    starts: 3,
};

/// The variable that names a Python which has DuckDB.
const DUCKDB: &str = "IM_BENCH_DUCKDB";
/// When each publish of a round says it was made.
const STAMPS: [&str; 3] = [
    "2026-11-21T12:05:00Z",
    "2026-11-21T12:15:00Z",
    "2026-11-21T12:25:00Z",
];

/// The directories of a run.
struct Places {
    dataset: PathBuf,
    published: PathBuf,
    rival: PathBuf,
}

impl Places {
    fn publish(&self, stamp: &str) -> Command {
        let mut publish = command(BINARY, None);
        publish.arg("publish").arg("--dataset").arg(&self.dataset);
        publish.arg("--to").arg(&self.published);
        publish.args(["--generated-at", stamp]);
        publish
    }

    fn duckdb(&self, python: &OsString) -> Command {
        let mut duckdb = Command::new(python);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/publish/rival.py");
        duckdb.arg(script).arg(&self.dataset).arg(&self.rival);
        duckdb
    }
}

/// What is measured, in the order of the table.
#[derive(Default)]
struct Runs {
    full: Vec<Run>,
    live: Vec<Run>,
    day: Vec<Run>,
    duckdb: Vec<Run>,
}

fn round(places: &Places, python: Option<&OsString>, runs: &mut Runs) -> Outcome<()> {
    empty(&places.published)?;
    runs.full.push(watch(places.publish(STAMPS[0]))?);
    let live = places.dataset.join("live");
    let added = live.join("1795263000.csv");
    fs::copy(live.join("1795262400.csv"), &added)?;
    runs.live.push(watch(places.publish(STAMPS[1]))?);
    let daily = places.dataset.join("daily");
    let next = daily.join("2026-11-21.csv");
    fs::copy(daily.join("2026-11-20.csv"), &next)?;
    runs.day.push(watch(places.publish(STAMPS[2]))?);
    fs::remove_file(added)?;
    fs::remove_file(next)?;
    if let Some(python) = python {
        empty(&places.published)?;
        empty(&places.rival)?;
        runs.duckdb.push(watch(places.duckdb(python))?);
    }
    Ok(())
}

fn empty(directory: &Path) -> Outcome<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    Ok(fs::create_dir_all(directory)?)
}

fn benchmark(settings: &Settings) -> Outcome<()> {
    let scratch = Scratch::new()?;
    let at = |name: &str| scratch.path().join(name);
    let places = Places {
        dataset: at("dataset"),
        published: at("published"),
        rival: at("rival"),
    };
    synthesize(&places.dataset, settings)?;
    let input_bytes = bytes_below(&places.dataset)?;
    println!(
        "{} islands, {} rows a day, {} days and {} long-run days: {} MB of CSV; {} rounds",
        settings.islands,
        settings.rows,
        settings.days,
        settings.long_run_days,
        input_bytes / 1_000_000,
        settings.rounds
    );
    let python = env::var_os(DUCKDB);
    if python.is_none() {
        println!(
            "without DuckDB: want {DUCKDB}=VENV/bin/python, of a venv with `pip install duckdb`"
        );
    }
    let mut runs = Runs::default();
    for _ in 0..settings.rounds {
        round(&places, python.as_ref(), &mut runs)?;
    }
    if settings.rounds > 0 {
        table(&runs, input_bytes);
    }
    empty(&places.published)?;
    run(places.publish(STAMPS[0]))?;
    starts::measure(&places.published, settings.starts)?;
    if python.is_some() && settings.rounds > 0 {
        let compared = same::compare(&places.published, &places.rival)?;
        println!("DuckDB's JSON is ours: {compared} islands compared, detail and history");
    }
    Ok(())
}

fn synthesize(dataset: &Path, settings: &Settings) -> Outcome<()> {
    let mut synth = command(BINARY, None);
    synth.arg("synth").arg("--to").arg(dataset);
    for (flag, number) in [
        ("--islands", settings.islands),
        ("--creators", settings.creators),
        ("--days", settings.days),
        ("--long-run-days", settings.long_run_days),
        ("--rows", settings.rows),
    ] {
        synth.arg(flag).arg(number.to_string());
    }
    run(synth).map(drop)
}

fn bytes_below(directory: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() {
            bytes_below(&entry.path())?
        } else {
            found.len()
        };
    }
    Ok(bytes)
}

fn table(runs: &Runs, input_bytes: u64) {
    println!(
        "  {:<34}{:>9}{:>9}{:>11}{:>12}{:>12}",
        "", "wall s", "CPU s", "peak MiB", "to inputs", "CPU to full"
    );
    let cpu = |runs: &[Run]| median(runs.iter().map(|run| run.cpu_seconds));
    let full_cpu = cpu(&runs.full);
    for (name, runs) in [
        ("publish, from nothing", &runs.full),
        ("publish, a live file more", &runs.live),
        ("publish, a day more", &runs.day),
        ("DuckDB, the islands' JSON alone", &runs.duckdb),
    ] {
        if runs.is_empty() {
            continue;
        }
        let of = |value: fn(&Run) -> f64| median(runs.iter().map(value));
        let peak = of(|run| run.peak_bytes);
        let to_inputs = peak / input_bytes as f64;
        println!(
            "  {name:<34}{:>9.2}{:>9.2}{:>11.0}{to_inputs:>12.2}{:>12.4}",
            of(|run| run.wall_seconds),
            cpu(runs),
            peak / f64::from(1 << 20),
            cpu(runs) / full_cpu,
        );
    }
    if !runs.duckdb.is_empty() {
        let ratio = |value: fn(&Run) -> f64| {
            let pairs = runs.full.iter().zip(&runs.duckdb);
            median(pairs.map(|(ours, theirs)| value(ours) / value(theirs)))
        };
        println!(
            "publish to DuckDB, median of rounds: {:.2} in wall time, {:.2} in CPU time; goal below 1",
            ratio(|run| run.wall_seconds),
            ratio(|run| run.cpu_seconds)
        );
    }
}

fn main() -> Outcome<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let mut settings = match () {
        () if is_quick() => QUICK,
        () if words.iter().any(|word| word == "small") => SMALL,
        () if words.iter().any(|word| word == "starts") => STARTS,
        () => FULL,
    };
    if let Some(rounds) = words.iter().find_map(|word| word.parse().ok()) {
        settings.rounds = rounds;
    }
    benchmark(&settings)
}
