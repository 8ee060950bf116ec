//! The release server under load, beside others that send the same bytes. See `benches/README.md`.
#![expect(
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "computes with measurements and prints them"
)]

mod cases;
mod chart;
#[path = "../common/mod.rs"]
mod common;
mod epoll;
mod readme;
mod report;
mod rounds;

use std::ffi::OsString;
use std::rc::Rc;

use crate::cases::{Case, Maker};
use crate::common::BINARY;
use crate::common::prelude::*;
use crate::rounds::{RATE_SHARE, Record, measure, warm};

/// Builds `benches/rivals`, the crate with axum and actix-web, into `target/rivals` and returns the path of
/// the program. A quick run requires a program built before.
fn build_rivals(target: &Path) -> Outcome<PathBuf> {
    let into = target.join("rivals");
    let program = into.join("release/rivals");
    if is_quick() {
        let there = program.exists().then_some(program);
        return there.ok_or_else(|| "a quick run does not build them".into());
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/rivals/Cargo.toml");
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--locked", "--quiet"]);
    build.arg("--manifest-path").arg(manifest);
    build.arg("--target-dir").arg(into);
    // Without a network this fails fast, not after a minute of attempts.
    build.env("CARGO_NET_RETRY", "0");
    build.env("CARGO_HTTP_TIMEOUT", "15");
    run(build)?;
    Ok(program)
}

fn benchmark(save: bool, chosen: &[String]) -> Outcome<()> {
    // Cargo's target directory.
    let target = Path::new(BINARY).ancestors().nth(2);
    let target = target.ok_or("no target directory")?;
    let rivals = build_rivals(target).map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().to_owned();
        println!("without axum and actix-web: {last}");
    });
    let begun = Instant::now();
    let scratch = Scratch::new()?;
    let starts = (0..full_or_quick(5, 1)).map(|_| world::start_millis(None));
    let starts = starts.collect::<Outcome<Vec<f64>>>()?;
    println!("start to first 200 on the sample: {:.1} ms", median(starts));
    let published = match env::var_os("IM_BENCH_PUBLISHED") {
        Some(directory) => directory.into(),
        None => world::published(scratch.path(), full_or_quick(MEDIUM, TINY))?,
    };
    println!("{}", pin_load()?);
    let state = scratch.path().join("state");
    let key = world::issue_key(&state, "bench@example.com")?;
    let real = world::serve(|serve| {
        serve.arg("--published").arg(&published);
        serve.arg("--state").arg(&state);
    })?;
    let maker = Maker {
        real: Rc::new(real),
        scratch: scratch.path(),
        rivals: rivals.ok(),
        key,
        chosen,
    };
    let mut cases = maker.cases()?;
    let mut sources = Sources::new();
    warm(&mut sources, &mut cases)?;
    let records = measure(&mut sources, &mut cases, begun)?;
    // Only all cases together are saved.
    let save = save && !is_quick() && chosen.is_empty();
    report(target, &cases, &records, save)?;
    println!("{:.0} s in all", begun.elapsed().as_secs_f64());
    Ok(())
}

fn report(target: &Path, cases: &[Case], records: &[Record], save: bool) -> Outcome<()> {
    let rows = report::rows(cases, records);
    let rounds = records.last().map_or(0, |record| record.round + 1);
    print!("\n{}", readme::table(cases, &rows));
    println!(
        "\nmedians of {rounds} interleaved rounds; ratios are of CPU, round by round; requests/s \
         and latencies from the scheduled moment, at {RATE_SHARE} of what the slowest server can do, are in the file"
    );
    let waited = median(records.iter().map(|record| record.busy.waited));
    println!(
        "servers waited for their core {:.0} % of the time: other work on this machine, which \
         affects latencies and requests/s, and CPU time least",
        waited * 100.0
    );
    let raw = target.join("bench/load.csv");
    write_file(&raw, report::raw_csv(cases, records))?;
    println!("all rounds: {}", raw.display());
    if save {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/results");
        let svg = results.join("load.svg");
        write_file(&svg, chart::svg(cases, &rows))?;
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/README.md");
        readme::update(&readme, cases, &rows)?;
        println!("chart: {}, table: {}", svg.display(), readme.display());
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    if let [flag, captured] = &arguments[..] {
        if flag == bare::FLAG {
            return bare::serve(captured.as_ref(), None);
        }
        if flag == epoll::FLAG {
            return epoll::serve(captured.as_ref());
        }
    }
    let (flags, chosen): (Vec<String>, Vec<String>) =
        env::args().skip(1).partition(|word| word.starts_with("--"));
    benchmark(flags.iter().any(|flag| flag == "--save"), &chosen)
}
