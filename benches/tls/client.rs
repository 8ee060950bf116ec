//! Client connections over TLS for the load, which polls without sleeping like all others.

use std::cell::RefCell;
use std::io::{Read, Write};

use mio::net;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::common::pool::Stream;
use crate::common::prelude::*;
use crate::common::requests::Compared;

/// Concurrent clients that connect for each request.
const CLIENTS: usize = 8;

/// A client that trusts the bench's certificates and never continues a session.
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    sources: RefCell<Sources>,
}

/// The address of a server, and whether it speaks TLS.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) is_tls: bool,
}

impl Client {
    pub(crate) fn new(certificates: &[&Path]) -> Outcome<Client> {
        let mut roots = RootCertStore::empty();
        for path in certificates {
            roots.add(CertificateDer::from_pem_file(path)?)?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions()?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Client {
            config: Arc::new(config),
            sources: RefCell::new(Sources::new()),
        })
    }

    /// A stream over TLS whose handshake follows with the first request.
    fn tls<S: Read + Write>(&self, stream: S) -> Outcome<TlsStream<S>> {
        let name = ServerName::try_from("localhost")?;
        let session = ClientConnection::new(Arc::clone(&self.config), name)?;
        Ok(TlsStream(StreamOwned::new(session, stream)))
    }

    /// A stream of a pool, over TLS or plain.
    fn wrap(&self, target: Target, stream: net::TcpStream) -> Outcome<Box<dyn Stream>> {
        if target.is_tls {
            return Ok(Box::new(self.tls(stream)?));
        }
        Ok(Box::new(stream))
    }

    /// A socket from an address that has sent no request.
    fn socket(&self, target: Target) -> Outcome<TcpStream> {
        let from = self.sources.borrow_mut().fresh();
        Ok(connect(from, target.address)?)
    }

    /// Sends one request over TLS; returns its response, and the connection, which is open.
    pub(crate) fn fetch(
        &self,
        target: Target,
        request: &[u8],
    ) -> Outcome<(Response, TlsStream<TcpStream>)> {
        let mut stream = self.tls(self.socket(target)?)?;
        let response = exchange_on(&mut stream.0, request)?;
        Ok((Response::parse(response)?, stream))
    }

    /// Opens connections, each from an address of its own.
    pub(crate) fn open(&self, target: Target, connections: usize) -> Outcome<Pool> {
        let froms = self.sources.borrow_mut().many(connections);
        Pool::connect_by(froms, target.address, |stream| self.wrap(target, stream))
    }

    /// Sends requests, each on a new connection, from [`CLIENTS`]. Returns the number of responses.
    pub(crate) fn load_new_connections(
        &self,
        target: Target,
        request: &Compared,
        duration: Duration,
    ) -> Outcome<u64> {
        let mut pool = self.open(target, CLIENTS)?;
        for at in 0..CLIENTS {
            pool.send(at, &request.request)?;
        }
        let (begun, mut responses, mut done) = (Instant::now(), 0, Vec::new());
        let mut active = CLIENTS;
        while active > 0 {
            pool.receive(request.status, &mut done)?;
            for &(at, _) in &done {
                responses += 1;
                if begun.elapsed() < duration {
                    pool.replace(at, self.socket(target)?, |stream| self.wrap(target, stream))?;
                    pool.send(at, &request.request)?;
                } else {
                    active -= 1;
                }
            }
        }
        Ok(responses)
    }
}

/// A stream over TLS, closed with a notification when dropped.
pub(crate) struct TlsStream<S: Read + Write>(StreamOwned<ClientConnection, S>);

impl Stream for TlsStream<net::TcpStream> {}

impl<S: Read + Write> TlsStream<S> {
    /// The version, cipher suite and key exchange group that the server has chosen.
    pub(crate) fn negotiated(&self) -> Outcome<String> {
        let session = &self.0.conn;
        let version = session.protocol_version().ok_or("no version")?;
        let suite = session.negotiated_cipher_suite().ok_or("no suite")?;
        let group = session.negotiated_key_exchange_group();
        let group = group.ok_or("no group")?.name();
        Ok(format!("{version:?} {:?} {group:?}", suite.suite()))
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    /// Reads as many records as the buffer has room for.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = self.0.read(buffer)?;
        while (1..buffer.len()).contains(&count)
            && let Ok(more @ 1..) = self.0.read(&mut buffer[count..])
        {
            count += more;
        }
        Ok(count)
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    /// Takes all bytes. Before the end of the handshake, they are sent by a later read.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.conn.writer().write_all(bytes)?;
        self.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.0.conn.wants_write() {
            self.0.conn.write_tls(&mut self.0.sock)?;
        }
        Ok(())
    }
}

impl<S: Read + Write> Drop for TlsStream<S> {
    fn drop(&mut self) {
        self.0.conn.send_close_notify();
        let _ = self.flush();
    }
}
