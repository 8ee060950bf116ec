//! [`run`]: starts a server, and stops it on a signal.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Builder;

use crate::observe::{Log, Notifier};
use crate::server::accept::{accept, accept_rest};
use crate::server::conn::limiter::ConnectionLimiter;
use crate::server::conn::listener::{Listener, Listeners};
use crate::server::ops::admin;
use crate::server::ops::state::ServerState;
use crate::server::ops::supervisor::{Events, Supervisor};
use crate::server::settings::{Settings, StartError};
use crate::server::worker::Worker;

/// Threads of a worker that read dumps and inflate long bodies; they end when idle. More would not
/// make a disk faster, and each holds a piece in memory.
const READERS_MAX: usize = 4;

/// Serves until SIGTERM or SIGINT, then lets open requests end. `started` is called with the URLs of
/// all listening sockets when they are bound, and returns lines for the log; `write` writes a log line.
pub(crate) fn run(
    settings: &Settings,
    started: &dyn Fn(&[String]) -> Vec<String>,
    write: fn(&str),
) -> Result<(), StartError> {
    let log = Log::start(write)?;
    let result = serve(settings, started, &log);
    log.flush();
    result
}

fn serve(
    settings: &Settings,
    started: &dyn Fn(&[String]) -> Vec<String>,
    log: &Log,
) -> Result<(), StartError> {
    let notifier = Notifier::connect(settings.systemd.notify_socket.as_deref())
        .map_err(|error| StartError::Io(format!("cannot use NOTIFY_SOCKET: {error}")))?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Binding and signal handlers require a runtime.
    let entered = runtime.enter();
    let mut sockets = Listeners::open(settings)?;
    let admin_listener = sockets.admin.take();
    let admin_listener = admin_listener.map(tokio::net::TcpListener::from_std);
    let admin_listener = admin_listener.transpose()?;
    // Before the address is announced: connections could use up the file descriptors.
    let events = Events::new()?;
    drop(entered);
    if sockets.are_inherited && !settings.listen_tls.is_empty() {
        log.write("--listen-tls is not used, since the service manager has passed sockets");
    }
    let addresses = &sockets.addresses;
    if addresses.iter().any(|(_, is_tls)| *is_tls) && settings.certificate.is_none() {
        let problem = "the socket named tls requires --tls-certificate and --tls-key";
        return Err(StartError::Setting(problem.to_owned()));
    }
    let urls = addresses.iter();
    let urls = urls.map(|(address, is_tls)| format!("{}://{address}", scheme(*is_tls)));
    let urls: Vec<String> = urls.collect();
    let (first, is_tls) = *addresses.first().expect("settings name an address");
    // By default a URL that clients on this machine can use: that of the first listening socket.
    // Others require `--base-url`.
    let default_base_url = if first.ip().is_unspecified() {
        format!("{}://localhost:{}", scheme(is_tls), first.port())
    } else {
        urls[0].clone()
    };
    let is_local = first.ip().is_unspecified() || first.ip().is_loopback();
    let mut others = addresses.iter().map(|(address, _)| address.ip());
    if settings.base_url.is_none() && is_local && others.any(|address| !address.is_loopback()) {
        log.write(&format!(
            "links begin with {default_base_url}; set --base-url to the URL that clients use"
        ));
    }
    let base_url = settings.base_url.clone().unwrap_or(default_base_url);
    let state = Arc::new(ServerState::open(settings, &base_url, log)?);
    let threads = start_workers(settings, &state, sockets)?;
    if let Some(listener) = admin_listener {
        let server = Arc::clone(&state);
        runtime.spawn(crate::admin::serve(listener, move |path: &str| {
            admin::respond(path, &server)
        }));
    }
    for line in started(&urls) {
        log.write(&line);
    }
    log.flush();
    let mut supervisor = Supervisor::new(settings, state, notifier, threads);
    runtime.block_on(supervisor.run(events));
    supervisor.finish();
    Ok(())
}

fn scheme(is_tls: bool) -> &'static str {
    if is_tls { "https" } else { "http" }
}

fn start_workers(
    settings: &Settings,
    state: &ServerState,
    sockets: Listeners,
) -> io::Result<Vec<JoinHandle<()>>> {
    // Each listener holds a permit for the connection that it waits for.
    let listeners = sockets.of_workers.iter().map(Vec::len).sum::<usize>();
    let listeners = u32::try_from(listeners).unwrap_or(u32::MAX);
    let limiter = Arc::new(settings.connection_limiter(listeners));
    let mut threads = Vec::new();
    for (worker, own) in state.workers.iter().zip(sockets.of_workers) {
        let number = threads.len();
        let mut runtime = Builder::new_current_thread();
        // Timers only where requests wait for a store: a runtime that has them reads the clock in each
        // turn.
        if worker.services.gate.leases.is_some() {
            runtime.enable_time();
        }
        let runtime = runtime
            .enable_io()
            .thread_name(format!("disk-{number}"))
            .max_blocking_threads(READERS_MAX)
            .build()?;
        let work = work(
            Arc::clone(worker),
            own,
            sockets.are_inherited,
            Arc::clone(&limiter),
        );
        let body = move || {
            runtime.block_on(work);
            // Does not wait for threads that a disk blocks.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name(format!("worker-{number}"));
        threads.push(thread.spawn(body)?);
    }
    Ok(threads)
}

/// Accepts connections until the server stops, then waits until all of them have ended.
async fn work(
    worker: Arc<Worker>,
    listeners: Vec<Listener<TcpListener>>,
    are_inherited: bool,
    limiter: Arc<ConnectionLimiter>,
) {
    tokio::spawn(Arc::clone(&worker).heartbeat());
    let mut accepting = Vec::new();
    for Listener { socket, is_tls } in listeners {
        let Ok(socket) = tokio::net::TcpListener::from_std(socket) else {
            return;
        };
        let listener = Arc::new(Listener { socket, is_tls });
        let task = accept(
            Arc::clone(&listener),
            Arc::clone(&worker),
            Arc::clone(&limiter),
        );
        accepting.push((tokio::spawn(task), listener));
    }
    worker.registry.stopped().await;
    for (task, listener) in accepting {
        task.abort();
        let _ = task.await;
        // Closing the last handle of a socket refuses the connections in its queue.
        if !are_inherited {
            accept_rest(&listener, &worker, &limiter);
        }
    }
    worker.registry.emptied().await;
}
