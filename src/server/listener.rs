//! Listening sockets, one for each worker and address, and the accept loop.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tokio::net::TcpSocket;

use super::connection::{Worker, serve};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// Binds an address once for each worker. Port 0 becomes a free port, the same for all.
pub(crate) fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    // Sharing a port is asked for below, and would be granted beside another running server too:
    // a plain bind finds out whether the port is free.
    let probe = socket(address)?;
    probe.bind(address)?;
    let address = probe.local_addr()?;
    drop(probe);
    (0..workers)
        .map(|_| {
            let socket = socket(address)?;
            socket.set_reuseport(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)?.into_std()
        })
        .collect()
}

fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

/// Accepts connections for ever.
pub(crate) async fn accept(listener: tokio::net::TcpListener, worker: Arc<Worker>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                tokio::spawn(serve(Arc::clone(&worker), stream, peer));
            }
            // The client left before it was accepted.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                ) => {}
            // No descriptor or memory is left. Trying again at once would burn the core.
            Err(_) => worker.roster.descriptor().await,
        }
    }
}
