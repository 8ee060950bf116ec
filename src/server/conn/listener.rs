//! Listening sockets: each worker's own, or inherited from a service manager.

use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;
use socket2::SockRef;
use tokio::net::TcpSocket;

use crate::server::settings::{Settings, StartError};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// The listening sockets of all workers.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// The sockets of each worker.
    pub(crate) of_workers: Vec<Vec<TcpListener>>,
    /// The address of the first one.
    pub(crate) address: SocketAddr,
    /// Whether a service manager has them too. Connections that wait in them at a shutdown are for
    /// the next server then.
    pub(crate) are_inherited: bool,
    /// The socket that the service manager calls `admin`.
    pub(crate) admin: Option<TcpListener>,
}

impl Listeners {
    /// Takes the sockets that a service manager passed, or else binds the addresses of the
    /// settings. To be called in a runtime.
    pub(crate) fn open(settings: &Settings) -> Result<Listeners, StartError> {
        let workers = settings.workers;
        let names = &settings.systemd.socket_names;
        let (inherited, admin) = inherited(names).map_err(StartError::Inherited)?;
        let mut of_workers: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
        for listener in &inherited {
            for worker in &mut of_workers {
                worker.push(listener.try_clone().map_err(StartError::Inherited)?);
            }
        }
        let addresses = if inherited.is_empty() {
            &settings.listen[..]
        } else {
            &[]
        };
        for address in addresses {
            // Beside a socket for the same port of IPv4, one for IPv6 is for IPv6 only.
            let mut others = addresses.iter();
            let only_v6 = address.is_ipv6()
                && others.any(|other| other.is_ipv4() && other.port() == address.port());
            let bound = bind(*address, only_v6, workers).map_err(|source| StartError::Bind {
                address: *address,
                source,
            })?;
            for (worker, listener) in of_workers.iter_mut().zip(bound) {
                worker.push(listener);
            }
        }
        let first = of_workers.first().and_then(|worker| worker.first());
        let address = first.and_then(|listener| listener.local_addr().ok());
        Ok(Listeners {
            of_workers,
            address: address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 8080))),
            are_inherited: !inherited.is_empty(),
            admin,
        })
    }
}

/// The sockets that the environment passes to this process, `LISTEN_FDS` of them, and apart from
/// them the one called `admin`.
fn inherited(names: &[String]) -> io::Result<(Vec<TcpListener>, Option<TcpListener>)> {
    let mut passed = ListenFd::from_env();
    let (mut listeners, mut admin) = (Vec::new(), None);
    for at in 0..passed.len() {
        if let Some(listener) = passed.take_tcp_listener(at)? {
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
    // SO_REUSEPORT would succeed beside another running server: a plain bind finds out whether the
    // port is free.
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
