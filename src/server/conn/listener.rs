//! Listening sockets: each worker's own, or inherited from a service manager.

use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;
use socket2::SockRef;
use tokio::net::TcpSocket;

use crate::server::settings::{Settings, StartError};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;
/// Bytes of a connection that its system stores beyond those which the client's window admits. Without this limit it
/// stores megabytes, so that for minutes the server could not tell a slow client from one that reads nothing. A
/// socket is writable again when half of these are sent. Accepted connections inherit the limit.
pub(in crate::server) const UNSENT_BYTES_MAX: u32 = 64 * 1024;

/// A listening socket, of the standard library or of tokio.
#[derive(Debug)]
pub(crate) struct Listener<S> {
    pub(crate) socket: S,
    pub(crate) is_tls: bool,
}

#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) of_workers: Vec<Vec<Listener<TcpListener>>>,
    /// The addresses of all, and whether they are for TLS.
    pub(crate) addresses: Vec<(SocketAddr, bool)>,
    /// Whether a service manager has them too. Connections that wait in them at a shutdown are for
    /// the next server then.
    pub(crate) are_inherited: bool,
    /// The socket that the service manager calls `admin`, or that of the settings.
    pub(crate) admin: Option<TcpListener>,
}

impl Listeners {
    /// Takes the sockets that a service manager passed, or else binds the addresses of the
    /// settings. To be called in a runtime.
    pub(crate) fn open(settings: &Settings) -> Result<Listeners, StartError> {
        let workers = settings.workers;
        let names = &settings.systemd.socket_names;
        let inherited = inherited(names, workers).map_err(|error| {
            StartError::Setting(format!("LISTEN_FDS must be listening TCP sockets: {error}"))
        });
        let (mut sockets, mut admin) = inherited?;
        let are_inherited = !sockets.is_empty();
        if !are_inherited {
            let plain = settings.listen.iter().map(|address| (*address, false));
            let tls = settings.listen_tls.iter().map(|address| (*address, true));
            let addresses: Vec<(SocketAddr, bool)> = plain.chain(tls).collect();
            for (address, is_tls) in &addresses {
                // Beside a socket for the same port of IPv4, one for IPv6 is for IPv6 only.
                let mut others = addresses.iter();
                let only_v6 = address.is_ipv6()
                    && others.any(|(other, _)| other.is_ipv4() && other.port() == address.port());
                let bound = bind(*address, only_v6, workers);
                let bound = bound.map_err(|error| StartError::bind(*address, &error))?;
                sockets.push((bound, *is_tls));
            }
        }
        if let (None, Some(address)) = (&admin, settings.admin) {
            let bound = TcpListener::bind(address);
            let bound = bound.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
            admin = Some(bound.map_err(|error| StartError::bind(address, &error))?);
        }
        let addresses = sockets
            .iter()
            .map(|(of_workers, is_tls)| Ok((of_workers[0].local_addr()?, *is_tls)))
            .collect::<io::Result<_>>()?;
        let mut of_workers: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
        for (sockets, is_tls) in sockets {
            for (worker, socket) in of_workers.iter_mut().zip(sockets) {
                worker.push(Listener { socket, is_tls });
            }
        }
        Ok(Listeners {
            of_workers,
            addresses,
            are_inherited,
            admin,
        })
    }
}

/// A socket of each worker for one address, and whether it is for TLS.
type Sockets = (Vec<TcpListener>, bool);

/// The sockets that the environment passes to this process, `LISTEN_FDS` of them; those called `tls`
/// are for TLS. Apart from them the one called `admin`.
fn inherited(names: &[String], workers: usize) -> io::Result<(Vec<Sockets>, Option<TcpListener>)> {
    let mut passed = ListenFd::from_env();
    let (mut sockets, mut admin) = (Vec::new(), None);
    for at in 0..passed.len() {
        if let Some(socket) = passed.take_tcp_listener(at)? {
            if !SockRef::from(&socket).is_listener()? {
                return Err(io::Error::other("it does not listen"));
            }
            socket.set_nonblocking(true)?;
            SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
            let name = names.get(at).map_or("", String::as_str);
            if name == "admin" {
                admin = Some(socket);
            } else {
                let clones = (0..workers).map(|_| socket.try_clone());
                sockets.push((clones.collect::<io::Result<_>>()?, name == "tls"));
            }
        }
    }
    Ok((sockets, admin))
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
            SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
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
