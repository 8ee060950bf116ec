//! `run`: the parts wired together, started, and stopped by a signal.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use std::task::Poll;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;

use super::connection::Worker;
use super::gates::Gates;
use super::listener::{accept, bind};
use super::log::Log;
use super::near::Near;
use super::reload::Reloader;
use super::roster::{Roster, TICK};
use super::seldom::Seldom;
use super::settings::{Served, Settings, StartError};
use crate::calendar::UnixSeconds;
use crate::publish::open_sample;
use crate::site;
use crate::snapshot::{Body, Packed, Snapshot, both};
use crate::sync::{Latest, LatestReader};

/// How long requests under way may take to end after a signal.
const DRAIN: Duration = Duration::from_secs(25);
/// Threads of a worker that read files of the dumps; they end when there is nothing to read. A disk has
/// no use for more requests at a time, and each holds a piece in memory.
const READERS_MAX: usize = 4;

/// Serves until SIGTERM or SIGINT, then lets requests under way end. `started` is told the base
/// address once all sockets are bound; `say` gets a line for each event.
pub fn run(settings: &Settings, started: &dyn Fn(&str), say: fn(&str)) -> Result<(), StartError> {
    let log = Log::start(say)?;
    let outcome = serve(settings, started, &log);
    log.flush();
    outcome
}

fn serve(settings: &Settings, started: &dyn Fn(&str), log: &Log) -> Result<(), StartError> {
    let mut listeners: Vec<Vec<TcpListener>> = (0..settings.workers).map(|_| Vec::new()).collect();
    let mut first = None;
    for address in &settings.listen {
        let bound = bind_in_runtime(*address, settings.workers)?;
        first = first.or(bound[0].local_addr().ok());
        for (worker, listener) in listeners.iter_mut().zip(bound) {
            worker.push(listener);
        }
    }
    let address = first.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 8080)));
    let base_url = settings
        .base_url
        .clone()
        .unwrap_or_else(|| default_base_url(address));
    let (gates, snapshot) = open_all(settings, &base_url, log)?;
    let site = |text: String| Body::new(Packed::new(text.into_bytes()), UnixSeconds(0));
    let (openapi, docs) = (site(site::openapi(&base_url)), site(site::docs(&base_url)));
    let complaints = Arc::new(Seldom::new(log.clone()));
    // Nothing is ever sent: a worker's end is the end of its sender.
    let (working, ended) = mpsc::channel::<()>();
    let (mut threads, mut rosters) = (Vec::new(), Vec::new());
    for (at, sockets) in listeners.into_iter().enumerate() {
        let worker = Arc::new(Worker {
            snapshot: LatestReader::new(Arc::clone(&snapshot)),
            near: Near::new(),
            gate: gates.make(),
            openapi: openapi.counted_apart(),
            docs: docs.counted_apart(),
            clock: gates.clock(),
            roster: Arc::default(),
            buffers: Arc::default(),
            complaints: Arc::clone(&complaints),
        });
        rosters.push(Arc::clone(&worker.roster));
        threads.push(start(at, worker, sockets, working.clone())?);
    }
    drop(working);
    // Before anybody is told of the address: clients might leave no descriptor for it.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let signals = runtime.block_on(async { Signals::new() })?;
    log.flush();
    started(&format!("http://{address}"));
    runtime.block_on(signals.either(&rosters));
    log.say("stopping: no new connections, requests under way end");
    for roster in &rosters {
        roster.stop();
    }
    if ended.recv_timeout(DRAIN) == Err(mpsc::RecvTimeoutError::Timeout) {
        // They end with the process.
        return Ok(());
    }
    for thread in threads {
        if thread.join().is_err() {
            log.say("a worker had panicked");
        }
    }
    Ok(())
}

/// Opens the counters and what is published at once: both take their time to bring to memory.
fn open_all(
    settings: &Settings,
    base_url: &str,
    log: &Log,
) -> Result<(Gates, Arc<Latest<Snapshot>>), StartError> {
    let (gates, snapshot) = both(
        || Gates::open(settings, log),
        || -> Result<_, StartError> {
            let snapshot = Arc::new(Latest::new(open(settings, base_url, log)?));
            watch_published(settings, base_url, &snapshot, log)?;
            Ok(snapshot)
        },
    );
    Ok((gates?, snapshot?))
}

/// Takes in what is published now, and from now on.
fn watch_published(
    settings: &Settings,
    base_url: &str,
    snapshot: &Arc<Latest<Snapshot>>,
    log: &Log,
) -> io::Result<()> {
    let Served::Directory(directory) = &settings.served else {
        return Ok(());
    };
    let mut reloader = Reloader::new(directory, settings.memory_bytes, base_url);
    if let Some(published) = reloader.poll(&|line| log.say(line)) {
        snapshot.replace(published);
    }
    let (watched, log) = (Arc::clone(snapshot), log.clone());
    std::thread::Builder::new()
        .name("reload".into())
        .spawn(move || reloader.watch(&watched, &|line| log.say(line)))?;
    Ok(())
}

fn open(settings: &Settings, base_url: &str, log: &Log) -> Result<Snapshot, StartError> {
    match &settings.served {
        Served::Sample => open_sample(settings.memory_bytes, base_url).map_err(StartError::Sample),
        Served::Directory(directory) => {
            log.say(&format!("watching {}", directory.display()));
            Ok(crate::publish::nothing_published(base_url))
        }
    }
}

fn bind_in_runtime(address: SocketAddr, workers: usize) -> Result<Vec<TcpListener>, StartError> {
    // Tokio's listener registers with a runtime even on its way to a plain one.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    bind(address, workers).map_err(|source| StartError::Bind { address, source })
}

/// What clients on this machine can use; others need `--base-url`.
fn default_base_url(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("http://localhost:{}", address.port())
    } else {
        format!("http://{address}")
    }
}

/// Starts a worker's thread. `working` is dropped when all its connections have ended.
fn start(
    at: usize,
    worker: Arc<Worker>,
    sockets: Vec<TcpListener>,
    working: mpsc::Sender<()>,
) -> io::Result<JoinHandle<()>> {
    // No timers: a runtime that has any reads the clock at each turn.
    let runtime = Builder::new_current_thread()
        .enable_io()
        .thread_name(format!("disk-{at}"))
        .max_blocking_threads(READERS_MAX)
        .build()?;
    let body = move || {
        runtime.block_on(work(worker, sockets));
        drop(working);
        // Whoever waits for a disk that does not answer is not waited for.
        runtime.shutdown_background();
    };
    let name = format!("worker-{at}");
    std::thread::Builder::new().name(name).spawn(body)
}

async fn work(worker: Arc<Worker>, sockets: Vec<TcpListener>) {
    let mut accepting = Vec::new();
    for socket in sockets {
        match tokio::net::TcpListener::from_std(socket) {
            Ok(listener) => accepting.push(tokio::spawn(accept(listener, Arc::clone(&worker)))),
            Err(_) => return,
        }
    }
    worker.roster.stopped().await;
    for task in accepting {
        task.abort();
        let _ = task.await;
    }
    worker.roster.emptied().await;
}

/// What ends a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on, in the runtime that it is called in.
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one of them, and tells the rosters the time until then.
    async fn either(mut self, rosters: &[Arc<Roster>]) {
        let begun = Instant::now();
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        std::future::poll_fn(|cx| {
            let terminated = self.terminate.poll_recv(cx).is_ready();
            if terminated || self.interrupt.poll_recv(cx).is_ready() {
                return Poll::Ready(());
            }
            while interval.poll_tick(cx).is_ready() {
                let ticks = begun.elapsed().as_millis() / TICK.as_millis();
                for roster in rosters {
                    roster.tick(u64::try_from(ticks).unwrap_or(u64::MAX));
                }
            }
            Poll::Pending
        })
        .await;
    }
}
