//! Listening sockets, each worker's own or inherited from a service manager, and the accept loop.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::task::Poll;

use listenfd::ListenFd;
use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};

use crate::server::conn::limiter::Room;
use crate::server::http::connection::serve;
use crate::server::http::worker::Worker;
use crate::server::settings::{Settings, StartError};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// What the workers accept from.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// Those of each worker.
    pub(crate) of_workers: Vec<Vec<TcpListener>>,
    /// The first one's address.
    pub(crate) address: SocketAddr,
    /// Whether a service manager holds them too: what waits in them when the server stops is for
    /// the next one.
    pub(crate) are_inherited: bool,
    /// The one that the service manager calls `admin`.
    pub(crate) admin: Option<TcpListener>,
}

impl Sockets {
    /// Those that a service manager handed over, or else of our own. In a runtime.
    pub(crate) fn open(settings: &Settings) -> Result<Sockets, StartError> {
        let workers = settings.workers;
        let names = &settings.systemd.socket_names;
        let (inherited, admin) = inherited(names).map_err(StartError::Inherited)?;
        let mut of_workers: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
        let mut address = None;
        for listener in &inherited {
            address = address.or(listener.local_addr().ok());
            for worker in &mut of_workers {
                worker.push(listener.try_clone().map_err(StartError::Inherited)?);
            }
        }
        let own = if inherited.is_empty() {
            &settings.listen[..]
        } else {
            &[]
        };
        for wanted in own {
            // Beside a socket for the same port of IPv4, one for IPv6 is for that alone.
            let beside = |other: &&SocketAddr| other.is_ipv4() && other.port() == wanted.port();
            let only_v6 = wanted.is_ipv6() && own.iter().any(|other| beside(&other));
            let bound = bind(*wanted, only_v6, workers).map_err(|source| StartError::Bind {
                address: *wanted,
                source,
            })?;
            address = address.or(bound[0].local_addr().ok());
            for (worker, listener) in of_workers.iter_mut().zip(bound) {
                worker.push(listener);
            }
        }
        Ok(Sockets {
            of_workers,
            address: address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 8080))),
            are_inherited: !inherited.is_empty(),
            admin,
        })
    }
}

/// The sockets that the environment names for this process, `LISTEN_FDS` of them; apart, the one
/// called `admin`.
fn inherited(names: &[String]) -> io::Result<(Vec<TcpListener>, Option<TcpListener>)> {
    let mut handed = ListenFd::from_env();
    let (mut listeners, mut admin) = (Vec::new(), None);
    for at in 0..handed.len() {
        if let Some(listener) = handed.take_tcp_listener(at)? {
            if !SockRef::from(&listener).is_listener()? {
                return Err(io::Error::other("it does not listen"));
            }
            listener.set_nonblocking(true)?;
            if names.get(at).is_some_and(|name| name == "admin") {
                admin = Some(listener);
            } else {
                listeners.push(listener);
            }
        }
    }
    Ok((listeners, admin))
}

/// Binds an address once for each worker. Port 0 becomes a free port, the same for all.
fn bind(address: SocketAddr, only_v6: bool, workers: usize) -> io::Result<Vec<TcpListener>> {
    // Sharing a port is asked for below, and would be granted beside another running server too:
    // a plain bind finds out whether the port is free.
    let probe = socket(address, only_v6)?;
    probe.bind(address)?;
    let address = probe.local_addr()?;
    drop(probe);
    (0..workers)
        .map(|_| {
            let socket = socket(address, only_v6)?;
            socket.set_reuseport(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)?.into_std()
        })
        .collect()
}

fn socket(address: SocketAddr, only_v6: bool) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    if only_v6 {
        SockRef::from(&socket).set_only_v6(true)?;
    }
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

/// Accepts connections for ever, as long as there is room.
pub(crate) async fn accept(
    listener: Arc<tokio::net::TcpListener>,
    worker: Arc<Worker>,
    room: Arc<Room>,
) {
    loop {
        let Some(place) = room.take() else {
            worker.metrics.full.add(1);
            worker.roster.make_room();
            worker.roster.descriptor().await;
            continue;
        };
        match listener.accept().await {
            Ok((stream, peer)) => worker.take_in(stream, peer, place),
            // The client left before it was accepted.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                ) => {}
            // No descriptor or memory is left. Trying again at once would burn the core.
            Err(_) => {
                worker.metrics.accept_errors.add(1);
                drop(place);
                worker.roster.make_room();
                worker.roster.descriptor().await;
            }
        }
    }
}

/// Accepts what waits in the queue of a socket that is closed next, as long as there is room.
pub(crate) async fn accept_rest(
    listener: &tokio::net::TcpListener,
    worker: &Arc<Worker>,
    room: &Arc<Room>,
) {
    while let Some(place) = room.take() {
        let next = poll_fn(|cx| match listener.poll_accept(cx) {
            Poll::Ready(Ok(accepted)) => Poll::Ready(Some(accepted)),
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Ready(None),
        });
        let Some((stream, peer)) = next.await else {
            return;
        };
        worker.take_in(stream, peer, place);
    }
}

impl Worker {
    fn take_in(
        self: &Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        mut place: crate::server::conn::limiter::Place,
    ) {
        self.metrics.accepted.add(1);
        // Behind a proxy are many.
        if !self.gate.is_proxy(peer.ip()) && !place.is_for(peer.ip()) {
            self.metrics.refused.add(1);
            return;
        }
        let membership = self.roster.join(Some(place));
        tokio::spawn(serve(Arc::clone(self), stream, peer, membership));
    }
}
