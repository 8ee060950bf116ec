//! `run`: the parts wired together, started, and stopped by a signal.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::server::graceful::GracefulShutdown;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::connection::Worker;
use super::listener::{accept, bind};
use super::reload::Reloader;
use crate::calendar::{Clock, UnixSeconds};
use crate::publish::open_sample;
use crate::quota::AnonymousQuota;
use crate::site;
use crate::snapshot::{Body, Packed, Snapshot, SnapshotCell, SnapshotReader};

/// Slots of the anonymous table, as a power of two: 64 MiB, room for five million addresses a day.
const QUOTA_SLOTS_LOG2: u32 = 23;
/// Cells shared by who comes when the table is full, as a power of two: 8 MiB.
const QUOTA_OVERFLOW_LOG2: u32 = 20;
/// How long requests under way may take to end after a signal.
const DRAIN: Duration = Duration::from_secs(25);

/// What to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// The dataset compiled in.
    Sample,
    /// A published directory.
    Directory(PathBuf),
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to serve.
    pub served: Served,
    /// Addresses to listen on, at least one.
    pub listen: Vec<SocketAddr>,
    /// The service's own address in links; the first listening address where it is `None`.
    pub base_url: Option<String>,
    /// Threads, each with its own runtime and sockets.
    pub workers: usize,
    /// Bytes that bodies and pages may take beside rows and orders.
    pub memory_bytes: usize,
    /// Requests of an anonymous client a UTC day.
    pub limit_anonymous: u16,
}

/// Why serving could not begin.
#[derive(Debug)]
pub enum StartError {
    /// An address is taken or not ours.
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The runtime or a thread could not be made.
    Runtime(io::Error),
    /// The compiled-in sample does not publish.
    Sample(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind { address, source } => {
                write!(f, "cannot listen on {address}: {source}")
            }
            StartError::Runtime(error) => write!(f, "cannot start: {error}"),
            StartError::Sample(problem) => write!(f, "the sample dataset: {problem}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Runtime(error)
    }
}

/// Serves until SIGTERM or SIGINT, then lets requests under way end. `started` is told the base
/// address once all sockets are bound; `say` gets a line for each event.
pub fn run(settings: &Settings, started: &dyn Fn(&str), say: fn(&str)) -> Result<(), StartError> {
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
    let cell = Arc::new(SnapshotCell::new(open(settings, &base_url, say)?));
    let quota = Arc::new(AnonymousQuota::new(QUOTA_SLOTS_LOG2, QUOTA_OVERFLOW_LOG2));
    let clock = Clock;
    let site = |text: String| Body::new(Packed::new(text.into_bytes()), UnixSeconds(0));
    let (openapi, docs) = (site(site::openapi(&base_url)), site(site::docs(&base_url)));
    if let Served::Directory(directory) = &settings.served {
        let mut reloader = Reloader::new(directory, settings.memory_bytes, &base_url);
        if let Some(snapshot) = reloader.poll(&say) {
            cell.replace(snapshot);
        }
        let watched = Arc::clone(&cell);
        std::thread::Builder::new()
            .name("reload".into())
            .spawn(move || reloader.watch(&watched, &say))?;
    }
    let (stop, stopped) = watch::channel(());
    let mut threads = Vec::new();
    for (at, sockets) in listeners.into_iter().enumerate() {
        let worker = Arc::new(Worker {
            snapshot: SnapshotReader::new(Arc::clone(&cell)),
            quota: Arc::clone(&quota),
            limit_anonymous: settings.limit_anonymous,
            openapi: openapi.clone(),
            docs: docs.clone(),
            clock,
        });
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let stopped = stopped.clone();
        let body = move || runtime.block_on(work(worker, sockets, stopped));
        threads.push(
            std::thread::Builder::new()
                .name(format!("worker-{at}"))
                .spawn(body)?,
        );
    }
    drop(stopped);
    started(&format!("http://{address}"));
    Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(signalled())?;
    say("stopping: no new connections, requests under way end");
    drop(stop);
    for thread in threads {
        if thread.join().is_err() {
            say("a worker had panicked");
        }
    }
    Ok(())
}

fn open(settings: &Settings, base_url: &str, say: fn(&str)) -> Result<Snapshot, StartError> {
    match &settings.served {
        Served::Sample => open_sample(settings.memory_bytes, base_url).map_err(StartError::Sample),
        Served::Directory(directory) => {
            say(&format!("watching {}", directory.display()));
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

async fn work(worker: Arc<Worker>, sockets: Vec<TcpListener>, mut stopped: watch::Receiver<()>) {
    let graceful = Arc::new(GracefulShutdown::new());
    let mut accepting = Vec::new();
    for socket in sockets {
        match tokio::net::TcpListener::from_std(socket) {
            Ok(listener) => {
                accepting.push(tokio::spawn(accept(
                    listener,
                    Arc::clone(&worker),
                    Arc::clone(&graceful),
                )));
            }
            Err(_) => return,
        }
    }
    // Resolves, with an error, when the sender is dropped.
    while stopped.changed().await.is_ok() {}
    for task in accepting {
        task.abort();
        let _ = task.await;
    }
    if let Some(graceful) = Arc::into_inner(graceful) {
        let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    }
}

async fn signalled() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    std::future::poll_fn(|cx| {
        let either = terminate.poll_recv(cx).is_ready() || interrupt.poll_recv(cx).is_ready();
        if either {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    Ok(())
}
