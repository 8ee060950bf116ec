//! The server's CPU time a request under load, beside a bare hyper that sends the same bytes.
//!
//! In: the release binary and a synthetic dataset, or a published directory named in
//! `ISLAND_METRICS_BENCH_PUBLISHED`. Out: a table on stdout. Both servers run on core 0, the load
//! comes from core 1, in rounds that take turns. See `benches/README.md`.
#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]

use std::convert::Infallible;
use std::env;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use memchr::memmem;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

type Outcome<T> = Result<T, Box<dyn Error>>;

const BINARY: &str = env!("CARGO_BIN_EXE_island-metrics");
const CONNECTIONS: u32 = 32;
const ROUNDS: u32 = 7;
/// How long one server is under load for one case in one round.
const RUN: Duration = Duration::from_millis(400);
/// No run is longer, whatever the machine: a source address may send 65,535 requests a day, and a
/// round, which has its own 32, measures 8 cases. Each stays below 60,000.
const REQUESTS_MAX: u32 = 7000 * CONNECTIONS;
/// When no further round begins, so that a slow machine ends too.
const DEADLINE: Duration = Duration::from_mins(2);
/// No answer within this is a failure, not a measurement.
const STALL: Duration = Duration::from_secs(20);
/// Nanoseconds in a tick of `/proc/PID/stat`: `USER_HZ` is 100 on every Linux.
const TICK_NANOS: u64 = 10_000_000;
const OFFSET_STEP: u32 = 7919; // a prime, so that steps modulo the islands meet each offset once

/// A temporary directory, removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server of ours, killed by handle at the end.
struct Server {
    child: Child,
    address: SocketAddr,
    _stderr: BufReader<ChildStderr>,
}

impl Server {
    /// Starts a server and waits for the line that names its address.
    fn start(mut command: Command) -> Outcome<Server> {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stderr = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let mut line = String::new();
        let mut all = String::new();
        let found = loop {
            line.clear();
            if stderr.read_line(&mut line)? == 0 {
                break None;
            }
            all.push_str(&line);
            if let Some(address) = line.trim_end().strip_prefix("listening on http://") {
                break address.parse().ok();
            }
        };
        let Some(address) = found else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("a server did not start: {all}").into());
        };
        Ok(Server {
            child,
            address,
            _stderr: stderr,
        })
    }

    /// The CPU time of all its threads: to the nanosecond where the kernel keeps that.
    fn cpu_nanos(&self) -> Outcome<u64> {
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        let precise = fs::read_dir(process.join("task"))?.map(|task| {
            let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        match precise.sum::<Option<u64>>() {
            Some(nanos) if nanos > 0 => Ok(nanos),
            _ => stat_nanos(&process, 11),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two neighbouring times in `/proc/PID/stat`, counted from after the command's name: 11 for the
/// process's own (utime and stime), 13 for those of its children it has waited for.
fn stat_nanos(process: &Path, first: usize) -> Outcome<u64> {
    let text = fs::read_to_string(process.join("stat"))?;
    let (_, fields) = text.rsplit_once(')').ok_or("no name in stat")?;
    let ticks = fields
        .split_whitespace()
        .skip(first)
        .take(2)
        .map(str::parse::<u64>);
    Ok(ticks.sum::<Result<u64, _>>()? * TICK_NANOS)
}

/// A command on one core, where `taskset` exists, without the project's variables.
fn command(program: &OsStr, core: Option<u32>) -> Command {
    let mut command = match core {
        Some(core) if has_taskset() => {
            let mut command = Command::new("taskset");
            command.args(["-c", &core.to_string()]).arg(program);
            command
        }
        _ => Command::new(program),
    };
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("ISLAND_METRICS_") {
            command.env_remove(name);
        }
    }
    command
}

fn has_taskset() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let path = env::var_os("PATH").unwrap_or_default();
    // Once the load is pinned one core is left to it; the others are still there for a child.
    let several = cores > 1 || Path::new("/sys/devices/system/cpu/cpu1").exists();
    several && env::split_paths(&path).any(|directory| directory.join("taskset").exists())
}

/// Runs one command of the binary to its end.
fn run(words: &[&OsStr]) -> Outcome<()> {
    let output = command(BINARY.as_ref(), None)
        .args(words)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Makes a dataset up and publishes it; says how long publishing took, and its CPU time.
fn publish(scratch: &Path, name: &str, sizes: [&str; 3]) -> Outcome<(PathBuf, Duration, u64)> {
    let dataset = scratch.join(format!("{name}-dataset"));
    let published = scratch.join(format!("{name}-published"));
    let mut words: Vec<&OsStr> = vec!["synth".as_ref(), "--to".as_ref(), dataset.as_ref()];
    for (flag, size) in ["--islands", "--creators", "--days"].iter().zip(sizes) {
        words.extend([OsStr::new(flag), OsStr::new(size)]);
    }
    run(&words)?;
    let (begun, before) = (Instant::now(), stat_nanos(Path::new("/proc/self"), 13)?);
    let words = [
        "publish".as_ref(),
        "--dataset".as_ref(),
        dataset.as_os_str(),
    ];
    run(&[&words[..], &["--to".as_ref(), published.as_ref()]].concat())?;
    let wall = begun.elapsed();
    let cpu = stat_nanos(Path::new("/proc/self"), 13)? - before;
    fs::remove_dir_all(&dataset)?;
    Ok((published, wall, cpu))
}

/// What the load asks for: the request with a number, and how many are sent at once.
#[derive(Clone)]
struct Load {
    request: Arc<dyn Fn(u32) -> Vec<u8> + Send + Sync>,
    depth: u32,
    status: u16,
}

fn get(target: &str, headers: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nhost: bench\r\n{headers}\r\n").into_bytes()
}

/// The address a connection comes from: each round has its own 32 in 127.0.1.0 and up.
fn source(round: u32, connection: u32) -> SocketAddr {
    let base = u32::from(Ipv4Addr::new(127, 0, 1, 0));
    (Ipv4Addr::from(base + round * CONNECTIONS + connection), 0).into()
}

async fn connect(address: SocketAddr, source: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(source)?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn send(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The length of the first answer in `bytes`, and its status; `None` while its head is unfinished.
fn answer(bytes: &[u8]) -> Option<(usize, u16)> {
    let head = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let status = std::str::from_utf8(bytes.get(9..12)?).ok()?.parse().ok()?;
    if status == 304 {
        return Some((head, status));
    }
    let name = b"\r\ncontent-length: ";
    let at = memmem::find(&bytes[..head], name)? + name.len();
    let digits = bytes[at..head]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    Some((head + length, status))
}

/// Waits for `count` answers; `held` has the bytes of those that have come, the last ones at least.
async fn receive(stream: &TcpStream, held: &mut Vec<u8>, count: u32, want: u16) -> io::Result<()> {
    held.clear();
    let mut chunk = vec![0; 64 * 1024];
    let (mut at, mut left) = (0, count);
    while left > 0 {
        match stream.try_read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => held.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.readable().await?,
            Err(error) => return Err(error),
        }
        while let Some((length, status)) = answer(&held[at..]) {
            if status != want {
                return Err(io::Error::other(format!("answered {status}, not {want}")));
            }
            if held.len() - at < length {
                break;
            }
            at += length;
            left -= 1;
        }
    }
    Ok(())
}

/// Puts a server under load; says the microseconds of its CPU time a request.
fn measure(runtime: &Runtime, server: &Server, load: &Load, round: u32, all: u32) -> Outcome<f64> {
    let turns = (all / CONNECTIONS / load.depth).max(1);
    runtime.block_on(async {
        let mut streams = Vec::new();
        for connection in 0..CONNECTIONS {
            streams.push(connect(server.address, source(round, connection)).await?);
        }
        let before = server.cpu_nanos()?;
        let mut clients = JoinSet::new();
        for (connection, stream) in (0..).zip(streams) {
            clients.spawn(client(stream, load.clone(), connection, turns));
        }
        while let Some(ended) = tokio::time::timeout(STALL, clients.join_next()).await? {
            ended??;
        }
        let micros = u32::try_from((server.cpu_nanos()? - before) / 1000)?;
        Ok(f64::from(micros) / f64::from(turns * CONNECTIONS * load.depth))
    })
}

/// One connection's requests, each sent once the one before is answered.
async fn client(stream: TcpStream, load: Load, connection: u32, turns: u32) -> io::Result<()> {
    let mut held = Vec::new();
    for turn in 0..turns {
        let request = (load.request)(turn * CONNECTIONS + connection);
        send(&stream, &request.repeat(load.depth as usize)).await?;
        receive(&stream, &mut held, load.depth, load.status).await?;
    }
    Ok(())
}

/// One answer, as the server sent it.
fn fetch(runtime: &Runtime, server: &Server, request: &[u8], want: u16) -> Outcome<Vec<u8>> {
    let answered = runtime.block_on(async {
        let stream = connect(server.address, source(ROUNDS, 0)).await?;
        let mut held = Vec::new();
        send(&stream, request).await?;
        receive(&stream, &mut held, 1, want).await?;
        Ok::<_, io::Error>(held)
    });
    Ok(answered?)
}

/// The reference: answers every request with the bytes of a captured answer.
fn bare_hyper(captured: &Path) -> Outcome<()> {
    let captured = fs::read(captured)?;
    let (head, status) = answer(&captured).ok_or("no answer")?;
    let body_at = memmem::find(&captured, b"\r\n\r\n").ok_or("no head")? + 4;
    let body = Bytes::copy_from_slice(&captured[body_at..head]);
    let mut headers = HeaderMap::new();
    for line in std::str::from_utf8(&captured[..body_at])?.lines().skip(1) {
        let Some((name, value)) = line.split_once(": ") else {
            continue;
        };
        let name: HeaderName = name.parse()?;
        // Hyper writes these two by itself, as it does for the real server.
        if name != CONTENT_LENGTH && name != DATE {
            headers.append(name, HeaderValue::from_str(value)?);
        }
    }
    let status = StatusCode::from_u16(status)?;
    let respond = move || {
        let mut response = Response::new(Full::new(body.clone()));
        *response.status_mut() = status;
        *response.headers_mut() = headers.clone();
        std::future::ready(Ok::<_, Infallible>(response))
    };
    Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            writeln!(
                io::stderr(),
                "listening on http://{}",
                listener.local_addr()?
            )?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let respond = respond.clone();
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .pipeline_flush(true)
                    .serve_connection(TokioIo::new(stream), service_fn(move |_| respond()));
                tokio::spawn(connection);
            }
        })
}

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
        Err(error) => println!("start to first 200: not measured: {error}"),
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
