//! The most expensive requests of an anonymous client on a full catalogue: CPU time, memory, and the
//! delay of other connections of the same worker.
//!
//! In: the release binary with 300,000 islands, all of them new on the first day. Out: a table on
//! stdout, and an error if a value is above its bound. See `benches/README.md`.
#![expect(
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "computes with measurements and prints them"
)]

#[path = "../common/mod.rs"]
mod common;

use std::io::BufReader;

use crate::common::http::connect_slow;
use crate::common::prelude::*;

/// The first day: all islands are new on it, in a body of 121 MB with 300,000.
const FIRST_DAY: &str = "2026-11-01";

/// The values, printed as they are measured.
#[derive(Default)]
struct Table {
    /// Names of the values above their bounds.
    faults: Vec<String>,
}

impl Table {
    fn row(&mut self, name: &str, value: f64, unit: &str, at_most: f64) {
        println!("{name:<56}{value:>9.2} {unit:<8} at most {at_most}");
        // A short run may be one of many programs on its machine, which delay it.
        let is_wall_time = unit == "ms";
        if value > at_most && !(is_wall_time && is_quick()) {
            self.faults.push(name.to_owned());
        }
    }
}

/// Writes a dataset whose first day has every island.
fn dataset(directory: &Path, islands: u32) -> Outcome<()> {
    let creators = islands / 3;
    let size = format!("--islands {islands} --creators {creators} --days 3");
    synthesize(directory, &size)?;
    let mut rows = String::from("code,peakCCU\n");
    let listed = fs::read_to_string(directory.join("islands.csv"))?;
    for (peak, line) in (0..500).cycle().zip(listed.lines().skip(1)) {
        let code = line.split(',').next().ok_or("an empty line")?;
        writeln!(rows, "{code},{peak}")?;
    }
    write_file(&directory.join(format!("ccu/{FIRST_DAY}.csv")), rows)
}

fn open(server: &Server) -> Outcome<TcpStream> {
    Ok(connect(Ipv4Addr::LOCALHOST, server.address)?)
}

/// Sends requests and reads until the server closes; returns the number of bytes received.
fn exchange(server: &Server, requests: &[u8]) -> Outcome<u64> {
    let stream = open(server)?;
    let mut writing = stream.try_clone()?;
    let mut reading = BufReader::with_capacity(1 << 20, stream);
    let receive = || Ok(io::copy(&mut reading, &mut io::sink())?);
    let (sent, received) = beside(|_| writing.write_all(requests), receive)?;
    sent?;
    Ok(received)
}

/// A request repeated so many times; the last closes the connection.
fn pipeline(line: &str, headers: &str, times: usize) -> Vec<u8> {
    let head = |more: &str| format!("{line} HTTP/1.1\r\nhost: x\r\n{headers}{more}\r\n");
    (head("").repeat(times - 1) + &head("connection: close\r\n")).into_bytes()
}

/// CPU milliseconds of a request, the mean of so many.
fn cpu_millis(server: &Server, line: &str, headers: &str, times: usize) -> Outcome<f64> {
    let micros = server.cpu_micros_each(|| {
        exchange(server, &pipeline(line, headers, times))?;
        Ok(times as u64)
    });
    Ok(micros? / 1e3)
}

/// Milliseconds that health takes on another connection of the worker during `work`: the median and
/// the longest.
fn health_beside(
    server: &Server,
    work: impl FnOnce() -> Outcome<()> + Send,
) -> Outcome<(f64, f64)> {
    let watch = |is_over: &AtomicBool| -> Outcome<Vec<f64>> {
        let (mut stream, mut millis) = (open(server)?, Vec::new());
        while !is_over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            exchange_on(&mut stream, &get("/v1/health", ""))?;
            millis.push(begun.elapsed().as_secs_f64() * 1e3);
            thread::sleep(Duration::from_millis(1));
        }
        Ok(millis)
    };
    let (millis, ()) = beside(watch, work)?;
    let millis = millis?;
    Ok((median(&millis), largest(&millis)))
}

/// MiB of memory for so many clients that read next to nothing of the response.
fn memory_of_slow_readers(server: &Server, request: &[u8], readers: usize) -> Outcome<f64> {
    let before = server.usage()?.anonymous_kib;
    let mut streams = Vec::new();
    for _ in 0..readers {
        let mut stream = connect_slow(Ipv4Addr::LOCALHOST, server.address)?;
        stream.write_all(request)?;
        streams.push(stream);
    }
    for stream in &mut streams {
        stream.read_exact(&mut [0; 100])?;
    }
    thread::sleep(Duration::from_millis(500));
    let after = server.usage()?.anonymous_kib;
    Ok(after.saturating_sub(before) as f64 / 1024.0)
}

/// CPU time of requests whose body is not sent, and of the whole body.
fn costs(server: &Server, target: &str, table: &mut Table) -> Outcome<()> {
    let (read, head) = (format!("GET {target}"), format!("HEAD {target}"));
    let (mut stream, mut raw) = (open(server)?, Vec::new());
    stream.write_all(&pipeline(&head, "", 1))?;
    stream.read_to_end(&mut raw)?;
    let response = Response::parse(raw)?;
    let etag = response.header("etag").ok_or("no entity tag")?;
    let known = format!("if-none-match: {etag}\r\n");
    let page = "HEAD /v1/islands?limit=200&offset=7";
    for (name, line, headers) in [
        ("HEAD of it", head.as_str(), ""),
        ("304 of it", &read, &known),
        ("HEAD of a page of 200, gzip", page, GZIP),
    ] {
        let millis = cpu_millis(server, line, headers, 100)?;
        table.row(name, millis, "ms CPU", 3.0);
    }
    let megabytes = exchange(server, &pipeline(&read, "", 1))? as f64 / 1e6;
    let millis = cpu_millis(server, &read, "", 5)?;
    println!(
        "all of it, {megabytes:.0} MB: {:.2} ms of CPU a MB",
        millis / megabytes
    );
    Ok(())
}

/// Delays of other connections.
fn waits(server: &Server, target: &str, table: &mut Table) -> Outcome<()> {
    let heads = pipeline(&format!("HEAD {target}"), "", 100);
    let (_, longest) = health_beside(server, || exchange(server, &heads).map(drop))?;
    table.row(
        "health beside 100 HEADs of it, longest",
        longest,
        "ms",
        300.0,
    );
    let request = pipeline(&format!("GET {target}"), "", 1);
    let read = || in_parallel(6, |_| exchange(server, &request)).map(drop);
    let (_, longest) = health_beside(server, read)?;
    table.row(
        "health beside six GETs of it, longest",
        longest,
        "ms",
        500.0,
    );
    let page = |at| get(&format!("/v1/islands?limit=200&offset={}", at * 17), GZIP);
    let mut pages: Vec<u8> = (0..1000).flat_map(page).collect();
    pages.extend_from_slice(&pipeline("HEAD /v1", "", 1));
    let (median, longest) = health_beside(server, || exchange(server, &pages).map(drop))?;
    let name = "health beside 1,000 pages of 200, gzip";
    table.row(&format!("{name}, median"), median, "ms", 10.0);
    table.row(&format!("{name}, longest"), longest, "ms", 100.0);
    Ok(())
}

/// Memory for clients that read next to nothing.
fn memory(server: &Server, target: &str, table: &mut Table) -> Outcome<()> {
    let live = b"GET /v1/live HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx".to_vec();
    for (name, request, readers, at_most) in [
        ("it", get(target, ""), 25, 150.0),
        ("it, gzip", get(target, GZIP), 25, 150.0),
        ("/v1/live, with a body", live, 90, 16.0),
    ] {
        let mib = memory_of_slow_readers(server, &request, readers)?;
        let name = format!("memory of {readers} slow readers of {name}");
        table.row(&name, mib, "MiB", at_most);
    }
    Ok(())
}

fn main() -> Outcome<()> {
    println!("{}", pin_load()?);
    let islands = full_or_quick(300_000, 20_000);
    let scratch = Scratch::new()?;
    let [data, published] = ["dataset", "published"].map(|name| scratch.path().join(name));
    dataset(&data, islands)?;
    run(publish_command(&data, &published, GENERATED_AT))?;
    let server = world::serve(|serve| {
        serve.arg("--published").arg(&published);
        serve.args(["--memory", "64MiB"]);
    })?;
    let target = format!("/v1/new/{FIRST_DAY}");
    println!("{islands} islands; \"it\" is {target}, on which all of them are new\n");
    let mut table = Table::default();
    costs(&server, &target, &mut table)?;
    waits(&server, &target, &mut table)?;
    memory(&server, &target, &mut table)?;
    if table.faults.is_empty() {
        return Ok(());
    }
    Err(format!("too much: {}", table.faults.join("; ")).into())
}
