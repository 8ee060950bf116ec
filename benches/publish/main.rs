//! Publishing at the size of the platform, beside DuckDB. See `benches/README.md`.
#![expect(
    clippy::cast_precision_loss,
    clippy::doc_markdown,
    clippy::print_stdout,
    reason = "computes with measurements and prints them"
)]

#[path = "../common/mod.rs"]
mod common;
mod same;

use std::ffi::OsString;
use std::process::Stdio;

use crate::common::prelude::*;
use common::process::stat;
use common::world::start_millis;

/// Sizes of the dataset, as arguments of `synth`.
const FULL: &str = "--islands 300000 --creators 100000 --days 365 --long-run-days 700 --rows 60000";
const SMALL: &str = "--islands 20000 --creators 7000 --days 180 --long-run-days 360 --rows 4000";
/// Two days are enough for all rows, orders and indexes.
const STARTS: &str = "--islands 300000 --creators 100000 --days 2 --long-run-days 2 --rows 60000";
const QUICK: &str = "--islands 400 --creators 100 --days 5 --long-run-days 8 --rows 80";

/// Variable with the path of a Python that has DuckDB.
const DUCKDB: &str = "IM_BENCH_DUCKDB";
/// `generatedAt` of the publishes of a round.
const STAMPS: [&str; 3] = [
    "2026-11-21T12:05:00Z",
    "2026-11-21T12:15:00Z",
    "2026-11-21T12:25:00Z",
];

/// The runs of a round, which are the rows of the table. The last needs DuckDB.
const RUNS: [&str; 4] = [
    "publish, from nothing",
    "publish, a live file more",
    "publish, a day more",
    "DuckDB, the islands' JSON alone",
];
const FROM_NOTHING: usize = 0;
const DUCKDB_RUN: usize = 3;

/// Runs of a round on a dataset, to the directory published and that of DuckDB.
fn round(
    [dataset, published, rival]: &[PathBuf; 3],
    python: Option<&OsString>,
) -> Outcome<Vec<Run>> {
    let publish = |stamp| watch(&mut publish_command(dataset, published, stamp));
    empty(published)?;
    let mut runs = vec![publish(STAMPS[0])?];
    let live = dataset.join("live");
    let added = live.join("1795263000.csv");
    fs::copy(live.join("1795262400.csv"), &added)?;
    runs.push(publish(STAMPS[1])?);
    let daily = dataset.join("daily");
    let next = daily.join("2026-11-21.csv");
    fs::copy(daily.join("2026-11-20.csv"), &next)?;
    runs.push(publish(STAMPS[2])?);
    fs::remove_file(added)?;
    fs::remove_file(next)?;
    if let Some(python) = python {
        empty(published)?;
        empty(rival)?;
        let mut duckdb = Command::new(python);
        duckdb.arg("benches/publish/rival.py");
        runs.push(watch(duckdb.arg(dataset).arg(rival))?);
    }
    Ok(runs)
}

/// A process run to its end.
struct Run {
    wall_seconds: f64,
    /// User and system time.
    cpu_seconds: f64,
    /// Peak of resident memory.
    peak_bytes: f64,
}

/// Runs a process, which must succeed, and samples it.
fn watch(command: &mut Command) -> Outcome<Run> {
    const INTERVAL: Duration = Duration::from_millis(5);
    let begun = Instant::now();
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::inherit()).spawn()?;
    let process = format!("/proc/{}", child.id());
    let mut peak_kib = 0;
    // A zombie still has its times, but no longer its memory.
    let cpu_seconds = loop {
        if let ('Z', nanos) = stat(process.as_ref())? {
            break nanos as f64 / 1e9;
        }
        peak_kib = status_kib(&process, "VmHWM:").unwrap_or(peak_kib);
        thread::sleep(INTERVAL);
    };
    let wall_seconds = begun.elapsed().as_secs_f64();
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("{command:?} ended with {status}").into());
    }
    Ok(Run {
        wall_seconds,
        cpu_seconds,
        peak_bytes: peak_kib as f64 * 1024.0,
    })
}

fn empty(directory: &Path) -> Outcome<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    Ok(fs::create_dir_all(directory)?)
}

/// Publishes a dataset of the size that the arguments of `synth` set in so many rounds.
fn benchmark(size: &str, rounds: usize) -> Outcome<()> {
    let scratch = Scratch::new()?;
    let directories = ["dataset", "published", "rival"].map(|name| scratch.path().join(name));
    let [dataset, published, rival] = &directories;
    synthesize(dataset, size)?;
    let input_bytes = bytes_below(dataset)?;
    let megabytes = input_bytes / 1_000_000;
    println!("{size}: {megabytes} MB of CSV; {rounds} rounds");
    let python = env::var_os(DUCKDB);
    if python.is_none() {
        println!(
            "without DuckDB: it needs {DUCKDB}=VENV/bin/python, of a venv with `pip install duckdb`"
        );
    }
    let rounds = (0..rounds).map(|_| round(&directories, python.as_ref()));
    let rounds = rounds.collect::<Outcome<Vec<_>>>()?;
    if !rounds.is_empty() {
        table(&rounds, input_bytes);
    }
    empty(published)?;
    run(publish_command(dataset, published, STAMPS[0]))?;
    starts(published, full_or_quick(15, 3))?;
    if python.is_some() && !rounds.is_empty() {
        let compared = same::compare(published, rival)?;
        println!("DuckDB's JSON is the same: {compared} islands compared, detail and history");
    }
    Ok(())
}

/// Starts a server `count` times on a published directory, and prints the times to the first 200.
fn starts(published: &Path, count: usize) -> Outcome<()> {
    // Reads the files into the page cache, and does not count.
    start_millis(Some(published))?;
    let millis = (0..count).map(|_| start_millis(Some(published)));
    let millis = millis.collect::<Outcome<Vec<f64>>>()?;
    let least = millis.iter().copied().fold(f64::INFINITY, f64::min);
    let most = largest(&millis);
    println!(
        "start to first 200: {:.0} ms, median of {count} starts ({least:.0} to {most:.0}); goal 200",
        median(millis)
    );
    Ok(())
}

/// Sum of the sizes of all files.
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

fn table(rounds: &[Vec<Run>], input_bytes: u64) {
    println!(
        "  {:<34}{:>9}{:>9}{:>11}{:>12}{:>12}",
        "", "wall s", "CPU s", "peak MiB", "to inputs", "CPU to full"
    );
    let of =
        |run: usize, value: fn(&Run) -> f64| median(rounds.iter().map(|runs| value(&runs[run])));
    let (wall, cpu) = (|run: &Run| run.wall_seconds, |run: &Run| run.cpu_seconds);
    let full_cpu = of(FROM_NOTHING, cpu);
    let all = rounds[0].len();
    for (run, name) in RUNS.iter().enumerate().take(all) {
        let peak = of(run, |run| run.peak_bytes);
        println!(
            "  {name:<34}{:>9.2}{:>9.2}{:>11.0}{:>12.2}{:>12.4}",
            of(run, wall),
            of(run, cpu),
            peak / f64::from(1 << 20),
            peak / input_bytes as f64,
            of(run, cpu) / full_cpu,
        );
    }
    if all > DUCKDB_RUN {
        let ratio = |value: fn(&Run) -> f64| {
            let ratio = |runs: &Vec<Run>| value(&runs[FROM_NOTHING]) / value(&runs[DUCKDB_RUN]);
            median(rounds.iter().map(ratio))
        };
        println!(
            "publish to DuckDB, median of rounds: {:.2} in wall time, {:.2} in CPU time; goal below 1",
            ratio(wall),
            ratio(cpu)
        );
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let (size, rounds) = match () {
        () if is_quick() => (QUICK, 1),
        () if has("small") => (SMALL, 5),
        () if has("starts") => (STARTS, 0),
        () => (FULL, 3),
    };
    let given = arguments.iter().find_map(|argument| argument.parse().ok());
    benchmark(size, given.unwrap_or(rounds))
}
