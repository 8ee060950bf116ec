//! `run`: the parts wired together, started, and stopped by a signal.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Builder;

use crate::arena;
use crate::observe::{AccessLog, Notifier, Tally};
use crate::server::conn::limiter::Room;
use crate::server::conn::listener::{Sockets, accept, accept_rest};
use crate::server::conn::registry::Roster;
use crate::server::http::request_id::RequestIds;
use crate::server::http::worker::Worker;
use crate::server::http::worker_cache::WorkerCache;
use crate::server::ops::admin;
use crate::server::ops::dedup_log::Reloads;
use crate::server::ops::log::Log;
use crate::server::ops::metrics::{Figures, SHAPE};
use crate::server::ops::poller::{Prompt, lookout};
use crate::server::ops::rate_limited_log::Seldom;
use crate::server::ops::reload::Reloader;
use crate::server::ops::state::Gates;
use crate::server::ops::supervisor::{Ended, Signals, Steward};
use crate::server::settings::{Served, Settings, StartError};
use crate::server::web::pages::Pages;
use crate::server::web::rate_limiter::Visits;
use crate::server::web::signup_handle::Window;
use crate::snapshot::{Snapshot, both};
use crate::sync::{ArcSwap, ArcSwapCache};

/// Threads of a worker that read dumps and inflate long bodies; they end when there is nothing to read. A disk has
/// no use for more requests at a time, and each holds a piece in memory.
const READERS_MAX: usize = 4;

/// Opens the embedded sample dataset, given the size of its cache in bytes and the base URL.
pub type OpenSample = fn(usize, &str) -> Result<Snapshot, String>;

/// Serves until SIGTERM or SIGINT, then lets requests under way end. `started` is told the base
/// address once all sockets are bound, and has something to say to it; `say` gets a line for each event.
pub fn run(
    settings: &Settings,
    sample: OpenSample,
    started: &dyn Fn(&str) -> Vec<String>,
    say: fn(&str),
) -> Result<(), StartError> {
    arena::use_one();
    let log = Log::start(say)?;
    let outcome = serve(settings, sample, started, &log);
    log.flush();
    outcome
}

fn serve(
    settings: &Settings,
    sample: OpenSample,
    started: &dyn Fn(&str) -> Vec<String>,
    log: &Log,
) -> Result<(), StartError> {
    let notifier = Notifier::connect(settings.supervisor.notify_socket.as_deref())
        .map_err(StartError::Supervisor)?;
    let access = open_access_log(settings, log)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Tokio's listeners register with a runtime even on their way to plain ones.
    let entered = runtime.enter();
    let mut sockets = Sockets::open(settings)?;
    let admin = open_admin(settings, sockets.admin.take())?;
    // Before anybody is told of the address: clients might leave no descriptor for it.
    let signals = Signals::new()?;
    drop(entered);
    let address = sockets.address;
    let base_url = settings
        .base_url
        .clone()
        .unwrap_or_else(|| default_base_url(address));
    let opened = open_all(settings, sample, &base_url, log)?;
    let rosters = settings.rosters();
    let figures = Arc::new(opened.figures(settings, rosters, log, access));
    let visits = Arc::new(Visits::new());
    let window = Window::open(settings, &base_url, &opened.keys_prompt, &visits, log)?;
    let pages = Pages::new(&base_url, visits);
    let workers = start_workers(settings, &opened, (&pages, window), sockets, &figures)?;
    let steward = Steward {
        figures: Arc::clone(&figures),
        notifier,
        watchdog: settings.supervisor.watchdog,
        log: log.clone(),
        drain: settings.drain,
        workers,
    };
    if let Some(listener) = admin {
        runtime.spawn(admin::serve(listener, Arc::clone(&figures)));
    }
    for line in started(&format!("http://{address}")) {
        log.say(&line);
    }
    log.flush();
    steward.notifier.ready(&steward.state());
    let ended = runtime.block_on(steward.serve(signals));
    end(steward, ended, log);
    Ok(())
}

/// Waits for workers that have ended; others end with the process.
fn end(steward: Steward, ended: Ended, log: &Log) {
    if ended == Ended::Drained {
        for worker in steward.workers {
            if worker.join().is_err() {
                log.say("a worker had panicked");
            }
        }
    }
    // Those of workers that have not ended, too.
    for pen in &steward.figures.pens {
        pen.flush();
    }
    if let Some(access) = &steward.figures.access {
        access.flush();
    }
}

impl Settings {
    fn rosters(&self) -> Vec<Arc<Roster>> {
        let workers = 0..self.workers;
        workers
            .map(|_| Arc::new(Roster::new(self.connections)))
            .collect()
    }
}

fn open_access_log(settings: &Settings, log: &Log) -> Result<Option<AccessLog>, StartError> {
    let open = |path| {
        let log = log.clone();
        AccessLog::open(path, move |line| log.say(line))
    };
    let opened = settings.access_log.as_deref().map(open).transpose();
    opened.map_err(StartError::AccessLog)
}

/// The admin listener, which may have been handed over.
fn open_admin(
    settings: &Settings,
    inherited: Option<TcpListener>,
) -> Result<Option<tokio::net::TcpListener>, StartError> {
    if let Some(listener) = inherited {
        let listener = tokio::net::TcpListener::from_std(listener);
        return listener.map(Some).map_err(StartError::Inherited);
    }
    let bind = |address: SocketAddr| {
        admin::bind(address).map_err(|source| StartError::Bind { address, source })
    };
    settings.admin.map(bind).transpose()
}

/// What is answered from, and who looks after it.
struct Opened {
    gates: Gates,
    snapshot: Arc<ArcSwap<Snapshot>>,
    reloads: Arc<Reloads>,
    data_prompt: Option<Prompt>,
    keys_prompt: Prompt,
}

impl Opened {
    fn prompts(&self) -> Vec<Prompt> {
        let keys = self.keys_prompt.clone();
        self.data_prompt.iter().cloned().chain([keys]).collect()
    }

    fn figures(
        &self,
        settings: &Settings,
        rosters: Vec<Arc<Roster>>,
        log: &Log,
        access: Option<AccessLog>,
    ) -> Figures {
        Figures {
            build: settings.build,
            tallies: rosters
                .iter()
                .map(|_| Arc::new(Tally::new(SHAPE)))
                .collect(),
            snapshot: Arc::clone(&self.snapshot),
            reloads: Arc::clone(&self.reloads),
            prompts: self.prompts(),
            keys: self.gates.keys(),
            census: self.gates.census(),
            clients_max: self.gates.clients_max(),
            log: log.clone(),
            pens: match &access {
                Some(access) => rosters.iter().map(|_| Arc::new(access.pen())).collect(),
                None => Vec::new(),
            },
            access,
            rosters,
        }
    }
}

/// Opens the counters and what is published at once: both take their time to bring to memory.
fn open_all(
    settings: &Settings,
    sample: OpenSample,
    base_url: &str,
    log: &Log,
) -> Result<Opened, StartError> {
    let reloads = Arc::new(Reloads::default());
    let (gates, published) = both(
        || Gates::open(settings, log),
        || -> Result<_, StartError> {
            let snapshot = Arc::new(ArcSwap::new(open(settings, sample, base_url, log)?));
            let prompt = watch_published(settings, base_url, (&snapshot, &reloads), log)?;
            Ok((snapshot, prompt))
        },
    );
    let ((gates, keys_prompt), (snapshot, data_prompt)) = (gates?, published?);
    Ok(Opened {
        gates,
        snapshot,
        reloads,
        data_prompt,
        keys_prompt,
    })
}

/// Takes in what is published now, and from now on.
fn watch_published(
    settings: &Settings,
    base_url: &str,
    (snapshot, reloads): (&Arc<ArcSwap<Snapshot>>, &Arc<Reloads>),
    log: &Log,
) -> io::Result<Option<Prompt>> {
    let Served::Directory(directory) = &settings.served else {
        return Ok(None);
    };
    let reloads = Arc::clone(reloads);
    let mut reloader = Reloader::new(
        directory,
        settings.snapshot_cache_bytes(),
        base_url,
        reloads,
    );
    if let Some(published) = reloader.poll(&|line| log.say(line)) {
        snapshot.swap(published);
    }
    let (watched, log) = (Arc::clone(snapshot), log.clone());
    let (lookout, prompt) = lookout("data");
    std::thread::Builder::new()
        .name("reload".into())
        .spawn(move || reloader.watch(&watched, lookout, &|line| log.say(line)))?;
    Ok(Some(prompt))
}

fn open(
    settings: &Settings,
    sample: OpenSample,
    base_url: &str,
    log: &Log,
) -> Result<Snapshot, StartError> {
    match &settings.served {
        Served::Sample => {
            sample(settings.snapshot_cache_bytes(), base_url).map_err(StartError::Sample)
        }
        Served::Directory(directory) => {
            log.say(&format!("watching {}", directory.display()));
            Ok(Snapshot::new(None, None, base_url))
        }
    }
}

/// What clients on this machine can use; others need `--base-url`.
fn default_base_url(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("http://localhost:{}", address.port())
    } else {
        format!("http://{address}")
    }
}

/// Starts a thread for each worker.
fn start_workers(
    settings: &Settings,
    opened: &Opened,
    (pages, window): (&Pages, Option<Window>),
    sockets: Sockets,
    figures: &Figures,
) -> io::Result<Vec<JoinHandle<()>>> {
    let complaints = Arc::new(Seldom::new(figures.log.clone()));
    // Each listener that waits for a connection holds a place for it.
    let waiting: usize = sockets.of_workers.iter().map(Vec::len).sum();
    let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
    let room = Arc::new(settings.room_for_connections(waiting));
    let downloads = Arc::new(settings.room_for_downloads());
    let cache_bytes = settings.worker_cache_bytes();
    let are_inherited = sockets.are_inherited;
    let mut threads = Vec::new();
    for (at, own) in sockets.of_workers.into_iter().enumerate() {
        let worker = Arc::new(Worker {
            snapshot: ArcSwapCache::new(Arc::clone(&opened.snapshot)),
            cache: WorkerCache::new(cache_bytes),
            gate: opened.gates.make(),
            pages: pages.with_own_refcount(),
            window: window.clone(),
            clock: opened.gates.clock(),
            roster: Arc::clone(&figures.rosters[at]),
            buffers: Arc::default(),
            complaints: Arc::clone(&complaints),
            limits: settings.connections,
            tally: Arc::clone(&figures.tallies[at]),
            ids: RequestIds::new(),
            downloads: Arc::clone(&downloads),
            access: figures.pens.get(at).cloned(),
        });
        let doors = Doors {
            sockets: own,
            are_inherited,
            room: Arc::clone(&room),
        };
        threads.push(start(at, worker, doors)?);
    }
    Ok(threads)
}

/// Where a worker's connections come from.
struct Doors {
    sockets: Vec<TcpListener>,
    are_inherited: bool,
    room: Arc<Room>,
}

/// Starts a worker's thread, which ends when the server stops and all its connections have ended.
fn start(at: usize, worker: Arc<Worker>, doors: Doors) -> io::Result<JoinHandle<()>> {
    // No timers: a runtime that has any reads the clock at each turn.
    let runtime = Builder::new_current_thread()
        .enable_io()
        .thread_name(format!("disk-{at}"))
        .max_blocking_threads(READERS_MAX)
        .build()?;
    let body = move || {
        runtime.block_on(work(worker, doors));
        // Whoever waits for a disk that does not answer is not waited for.
        runtime.shutdown_background();
    };
    let name = format!("worker-{at}");
    std::thread::Builder::new().name(name).spawn(body)
}

async fn work(worker: Arc<Worker>, doors: Doors) {
    tokio::spawn(Arc::clone(&worker).live());
    let mut accepting = Vec::new();
    for socket in doors.sockets {
        let Ok(listener) = tokio::net::TcpListener::from_std(socket) else {
            return;
        };
        let listener = Arc::new(listener);
        let room = Arc::clone(&doors.room);
        let task = accept(Arc::clone(&listener), Arc::clone(&worker), room);
        accepting.push((tokio::spawn(task), listener));
    }
    worker.roster.stopped().await;
    for (task, listener) in accepting {
        task.abort();
        let _ = task.await;
        // Who waits in a queue that nobody else holds would be refused when it is closed.
        if !doors.are_inherited {
            accept_rest(&listener, &worker, &doors.room).await;
        }
    }
    worker.roster.emptied().await;
}
