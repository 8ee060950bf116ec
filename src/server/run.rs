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

use super::caller::Gate;
use super::connection::Worker;
use super::key_reload::{KeyReloader, KeysError};
use super::listener::{accept, bind};
use super::reload::Reloader;
use crate::calendar::{Clock, UnixSeconds};
use crate::keys::{KeyFileError, KeyPrefix, KeyRecords, KeyRing};
use crate::publish::open_sample;
use crate::quota::{AnonymousQuota, KeyedQuota, Sizes, StateError, TierLimits};
use crate::request::TrustedProxies;
use crate::site;
use crate::snapshot::{Body, Packed, Snapshot};
use crate::sync::{Latest, LatestReader};

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
    /// Where keys and counters are kept; without it there are no keys, and counts end with the
    /// process.
    pub state: Option<PathBuf>,
    /// What keys begin with.
    pub key_prefix: KeyPrefix,
    /// Requests a UTC day.
    pub limits: TierLimits,
    /// How many anonymous clients a day the counters have room for.
    pub quota_sizes: Sizes,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: TrustedProxies,
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
    /// The key file is damaged, or cannot be read.
    Keys(KeyFileError),
    /// The counters' file cannot be opened or made.
    State(StateError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind { address, source } => {
                write!(f, "cannot listen on {address}: {source}")
            }
            StartError::Runtime(error) => write!(f, "cannot start: {error}"),
            StartError::Sample(problem) => write!(f, "the sample dataset: {problem}"),
            StartError::Keys(error) => error.fmt(f),
            StartError::State(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Runtime(error)
    }
}

impl From<KeysError> for StartError {
    fn from(error: KeysError) -> StartError {
        match error {
            KeysError::File(error) => StartError::Keys(error),
            KeysError::State(error) => StartError::State(error),
        }
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
    let clock = Arc::new(Clock::system(say));
    let gates = Gates::open(settings, &clock, say)?;
    let snapshot = Arc::new(Latest::new(open(settings, &base_url, say)?));
    watch_published(settings, &base_url, &snapshot, say)?;
    let site = |text: String| Body::new(Packed::new(text.into_bytes()), UnixSeconds(0));
    let (openapi, docs) = (site(site::openapi(&base_url)), site(site::docs(&base_url)));
    let (stop, stopped) = watch::channel(());
    let mut threads = Vec::new();
    for (at, sockets) in listeners.into_iter().enumerate() {
        let worker = Arc::new(Worker {
            snapshot: LatestReader::new(Arc::clone(&snapshot)),
            gate: gates.make(),
            openapi: openapi.clone(),
            docs: docs.clone(),
            clock: Arc::clone(&clock),
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

/// What the gates of all workers share.
struct Gates {
    keys: Arc<Latest<KeyRing>>,
    anonymous: Arc<AnonymousQuota>,
    keyed: Arc<KeyedQuota>,
    limits: TierLimits,
    proxies: Arc<TrustedProxies>,
}

impl Gates {
    /// Opens the state directory, if there is one, and watches its keys.
    fn open(settings: &Settings, clock: &Arc<Clock>, say: fn(&str)) -> Result<Gates, StartError> {
        let sizes = settings.quota_sizes;
        let keyed = Arc::new(KeyedQuota::new(settings.state.clone()));
        let (anonymous, keys) = match &settings.state {
            None => {
                let ring = KeyRing::new(settings.key_prefix.clone(), &KeyRecords::default());
                (AnonymousQuota::new(sizes), Arc::new(Latest::new(ring)))
            }
            Some(directory) => {
                let today = clock.now().day;
                let anonymous = AnonymousQuota::open(directory, sizes, today, &say)
                    .map_err(StartError::State)?;
                let (prefix, counters) = (settings.key_prefix.clone(), Arc::clone(&keyed));
                let (reloader, ring) =
                    KeyReloader::open(directory, prefix, counters, Arc::clone(clock), &say)?;
                let keys = Arc::new(Latest::new(ring));
                let watched = Arc::clone(&keys);
                std::thread::Builder::new()
                    .name("keys".into())
                    .spawn(move || reloader.watch(&watched, &say))?;
                (anonymous, keys)
            }
        };
        Ok(Gates {
            keys,
            anonymous: Arc::new(anonymous),
            keyed,
            limits: settings.limits,
            proxies: Arc::new(settings.trusted_proxies.clone()),
        })
    }

    /// A gate for one worker.
    fn make(&self) -> Gate {
        Gate {
            keys: LatestReader::new(Arc::clone(&self.keys)),
            anonymous: Arc::clone(&self.anonymous),
            keyed: Arc::clone(&self.keyed),
            limits: self.limits,
            proxies: Arc::clone(&self.proxies),
        }
    }
}

/// Takes in what is published now, and from now on.
fn watch_published(
    settings: &Settings,
    base_url: &str,
    snapshot: &Arc<Latest<Snapshot>>,
    say: fn(&str),
) -> io::Result<()> {
    let Served::Directory(directory) = &settings.served else {
        return Ok(());
    };
    let mut reloader = Reloader::new(directory, settings.memory_bytes, base_url);
    if let Some(published) = reloader.poll(&say) {
        snapshot.replace(published);
    }
    let watched = Arc::clone(snapshot);
    std::thread::Builder::new()
        .name("reload".into())
        .spawn(move || reloader.watch(&watched, &say))?;
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
