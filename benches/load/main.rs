//! The server's CPU time a request under load, beside a bare hyper that sends the same bytes.
//!
//! In: the release binary and a synthetic dataset, or a published directory named in
//! `ISLAND_METRICS_BENCH_PUBLISHED`. Out: a table on stdout. Both servers run on core 0, the load
//! comes from core 1, in rounds that take turns. See `benches/README.md`.
#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]

mod bare;
mod server;
mod settings;
mod traffic;

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

use crate::bare::bare_hyper;
use crate::server::{Scratch, Server, command, has_taskset, publish};
use crate::settings::{
    BINARY, CONNECTIONS, DEADLINE, OFFSET_STEP, Outcome, REQUESTS_MAX, ROUNDS, RUN,
};
use crate::traffic::{Load, fetch, get, measure};

/// A line of the table.
struct Case {
    name: &'static str,
    bytes: usize,
    load: Load,
    /// What the case is compared with: a bare hyper, or the real server under another load.
    bare: Option<Server>,
    other: Load,
    requests: u32,
    pairs: Vec<(f64, f64)>,
}

/// What all cases are made with.
struct Bench {
    runtime: Runtime,
    real: Server,
    scratch: PathBuf,
    quick: bool,
}

impl Bench {
    /// A case against a bare hyper that answers with what the real server answered.
    fn against_bare(&self, name: &'static str, request: &[u8], load: (u32, u16)) -> Outcome<Case> {
        let (depth, status) = load;
        let captured = fetch(&self.runtime, &self.real, request, status)?;
        let path = self.scratch.join("captured");
        File::create(&path)?.write_all(&captured)?;
        let mut bare = command(env::current_exe()?.as_os_str(), Some(0));
        bare.arg("--bare-hyper").arg(&path);
        let bare = Server::start(bare)?;
        let bytes = captured.len();
        let request = request.to_vec();
        let load = Load {
            request: Arc::new(move |_| request.clone()),
            depth,
            status,
        };
        let other = load.clone();
        self.calibrated(Case {
            name,
            bytes,
            load,
            bare: Some(bare),
            other,
            requests: 0,
            pairs: Vec::new(),
        })
    }

    /// Pages that no cache holds, against the same page again and again.
    fn uncached(&self, islands: u32) -> Outcome<Case> {
        let page = move |number: u32| {
            let offset = (u64::from(number) * u64::from(OFFSET_STEP)) % u64::from(islands);
            get(&format!("/v1/islands?limit=50&offset={offset}"), "")
        };
        let bytes = fetch(&self.runtime, &self.real, &page(0), 200)?.len();
        let load = Load {
            request: Arc::new(page),
            depth: 1,
            status: 200,
        };
        let other = Load {
            request: Arc::new(move |_| page(0)),
            ..load.clone()
        };
        // Each offset is asked for once in all rounds together.
        let requests = (islands / (ROUNDS + 1)).max(CONNECTIONS);
        let name = "page, uncached : cached";
        Ok(Case {
            name,
            bytes,
            load,
            bare: None,
            other,
            requests,
            pairs: Vec::new(),
        })
    }

    /// Chooses how many requests a run has, by the time that a few take.
    fn calibrated(&self, mut case: Case) -> Outcome<Case> {
        let few = 64 * CONNECTIONS;
        let begun = Instant::now();
        measure(&self.runtime, &self.real, &case.load, ROUNDS, few)?;
        let many = RUN.as_secs_f64() / begun.elapsed().as_secs_f64() * f64::from(few);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates"
        )]
        let many = many as u32;
        case.requests = if self.quick {
            few
        } else {
            many.clamp(few, REQUESTS_MAX)
        };
        Ok(case)
    }

    fn round(&self, case: &mut Case, round: u32) -> Outcome<()> {
        let mut load = case.load.clone();
        if case.bare.is_none() {
            let (page, begun) = (Arc::clone(&load.request), round * case.requests);
            load.request = Arc::new(move |number| page(begun + number));
        }
        let real = || measure(&self.runtime, &self.real, &load, round, case.requests);
        let other = case.bare.as_ref().unwrap_or(&self.real);
        let other = || measure(&self.runtime, other, &case.other, round, case.requests);
        // Whoever goes first finds a cooler core, so they take turns at that.
        let pair = if round.is_multiple_of(2) {
            let real = real()?;
            (real, other()?)
        } else {
            let other = other()?;
            (real()?, other)
        };
        case.pairs.push(pair);
        Ok(())
    }

    fn cases(&self) -> Outcome<Vec<Case>> {
        let list = "/v1/islands?limit=50";
        let listed = fetch(&self.runtime, &self.real, &get(list, ""), 200)?;
        let listed = String::from_utf8(listed)?;
        let between = |from: &str, to: &str| -> Outcome<&str> {
            let (_, rest) = listed
                .split_once(from)
                .ok_or_else(|| format!("no {from} in {listed}"))?;
            Ok(rest.split_once(to).ok_or("cut short")?.0)
        };
        let island = format!("/v1/islands/{}", between("\"code\":\"", "\"")?);
        let tag = format!("if-none-match: {}\r\n", between("\r\netag: ", "\r\n")?);
        let islands = between("\"total\":", ",")?.trim_end_matches('}').parse()?;
        let zipped = get(list, "accept-encoding: gzip\r\n");
        Ok(vec![
            self.against_bare("GET /v1", &get("/v1", ""), (1, 200))?,
            self.against_bare("page of 50, cached", &get(list, ""), (1, 200))?,
            self.against_bare("page of 50, gzip", &zipped, (1, 200))?,
            self.against_bare("one island", &get(&island, ""), (1, 200))?,
            self.against_bare("page of 50, 304", &get(list, &tag), (1, 304))?,
            self.against_bare("GET /v1, 16 pipelined", &get("/v1", ""), (16, 200))?,
            self.uncached(islands)?,
        ])
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn table(cases: &[Case]) -> String {
    let mut text = format!(
        "{:<24}{:>8}{:>9}{:>9}{:>7}\n",
        "case", "bytes", "us", "bare us", "ratio"
    );
    for case in cases {
        let of = |value: fn(&(f64, f64)) -> f64| median(case.pairs.iter().map(value).collect());
        let (real, other, ratio) = (
            of(|pair| pair.0),
            of(|pair| pair.1),
            of(|pair| pair.0 / pair.1),
        );
        let times = match case.bare {
            Some(_) => format!("{real:>9.2}{other:>9.2}"),
            None => format!("{:>9}{:>9}", "", ""),
        };
        let _ = writeln!(
            text,
            "{:<24}{:>8}{times}{ratio:>7.2}",
            case.name, case.bytes
        );
    }
    text
}

/// From the start of `serve` on the sample to its first 200, in milliseconds.
fn first_answer(runtime: &Runtime) -> Outcome<f64> {
    let mut serve = command(BINARY.as_ref(), None);
    serve.args(["serve", "--listen", "127.0.0.1:0"]);
    let begun = Instant::now();
    let server = Server::start(serve)?;
    fetch(runtime, &server, &get("/v1", ""), 200)?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}

fn benchmark(quick: bool) -> Outcome<()> {
    let begun = Instant::now();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let scratch = env::temp_dir().join(format!("island-metrics-bench-{}", std::process::id()));
    fs::create_dir(&scratch)?;
    let scratch = Scratch(scratch);
    if env::var_os("ISLAND_METRICS_BENCH_PUBLISH").is_some() {
        let (_, wall, cpu) = publish(&scratch.0, "large", ["20000", "8000", "90"])?;
        println!(
            "publish, 20,000 islands x 90 days: {wall:.1?}, CPU {:.1?}",
            Duration::from_nanos(cpu)
        );
    }
    let starts = (0..if quick { 1 } else { 5 }).map(|_| first_answer(&runtime));
    match starts.collect::<Outcome<_>>() {
        Ok(starts) => println!("start to first 200: {:.1} ms", median(starts)),
        Err(error) => return Err(error),
    }
    let sizes = if quick {
        ["400", "150", "3"]
    } else {
        ["20000", "8000", "30"]
    };
    let published = match env::var_os("ISLAND_METRICS_BENCH_PUBLISHED") {
        Some(directory) => directory.into(),
        None => publish(&scratch.0, "load", sizes)?.0,
    };
    // Only this thread is left on core 1: it makes all of the load.
    if has_taskset() {
        let pinned = ["-p", "-c", "1", &std::process::id().to_string()].map(OsString::from);
        Command::new("taskset")
            .args(pinned)
            .stdout(Stdio::null())
            .status()?;
    }
    let mut serve = command(BINARY.as_ref(), Some(0));
    serve.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--workers",
        "1",
        "--limit-anonymous",
        "65535",
    ]);
    serve.arg("--published").arg(&published);
    let real = Server::start(serve)?;
    let bench = Bench {
        runtime,
        real,
        scratch: scratch.0.clone(),
        quick,
    };
    let mut cases = bench.cases()?;
    for round in 0..if quick { 1 } else { ROUNDS } {
        if begun.elapsed() > DEADLINE && round > 0 {
            println!("only {round} rounds: this machine is slow");
            break;
        }
        for case in &mut cases {
            bench.round(case, round)?;
        }
    }
    print!("{}", table(&cases));
    Ok(())
}

fn main() -> Outcome<()> {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    if let [flag, captured] = &words[..]
        && flag == "--bare-hyper"
    {
        return bare_hyper(captured.as_ref());
    }
    // `cargo bench` says so; `cargo test --benches` only wants to know that this works.
    let quick = env::var_os("ISLAND_METRICS_BENCH_QUICK").is_some();
    benchmark(quick || !words.iter().any(|word| word == "--bench"))
}
