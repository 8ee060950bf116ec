//! Load over TLS, or plain: connections in a closed loop on one thread, which has a core of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::common::Outcome;
use crate::common::http::Head;

/// A connection of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Open connections to one server.
pub(crate) type Connections = Vec<Box<dyn Stream>>;

/// A client that trusts the bench's certificates and never continues a session.
pub(crate) struct Client {
    runtime: Runtime,
    connector: TlsConnector,
}

/// The address of a server, and whether it speaks TLS.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) is_tls: bool,
}

impl Client {
    pub(crate) fn new(certificates: &[&std::path::Path]) -> Outcome<Client> {
        let mut roots = RootCertStore::empty();
        for path in certificates {
            roots.add(CertificateDer::from_pem_file(path)?)?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions()?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Client {
            runtime: Builder::new_current_thread().enable_all().build()?,
            connector: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Returns the version, cipher suite and key exchange group that a server chooses.
    pub(crate) fn negotiated(&self, target: Target) -> Outcome<String> {
        self.runtime.block_on(async {
            let stream = handshake(&self.connector, target).await?;
            let session = stream.get_ref().1;
            let version = session.protocol_version().ok_or("no version")?;
            let suite = session.negotiated_cipher_suite().ok_or("no suite")?;
            let group = session.negotiated_key_exchange_group();
            let group = group.ok_or("no group")?.name();
            Ok(format!("{version:?} {:?} {group:?}", suite.suite()))
        })
    }

    /// Opens connections, which `load` uses again and again.
    pub(crate) fn open(&self, target: Target, connections: usize) -> Outcome<Connections> {
        let connector = &self.connector;
        self.runtime.block_on(async {
            let mut opened = Vec::new();
            for _ in 0..connections {
                opened.push(open(connector, target).await?);
            }
            Ok(opened)
        })
    }

    /// Sends `request` again and again on each connection. Returns the number of responses.
    pub(crate) fn load(
        &self,
        connections: &mut Connections,
        request: &[u8],
        duration: Duration,
    ) -> Outcome<u64> {
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for mut stream in connections.drain(..) {
                let request = request.to_owned();
                tasks.spawn(async move {
                    let (begun, mut count, mut buffer) = (Instant::now(), 0, Vec::new());
                    while begun.elapsed() < duration {
                        exchange(&mut stream, &request, &mut buffer).await?;
                        count += 1;
                    }
                    Outcome::Ok((count, stream))
                });
            }
            let mut responses = 0;
            while let Some(ended) = tasks.join_next().await {
                let (count, stream) = ended??;
                responses += count;
                connections.push(stream);
            }
            Ok(responses)
        })
    }

    /// Sends `request` again and again, each time on a new connection, from so many clients. Returns
    /// the number of responses.
    pub(crate) fn load_anew(
        &self,
        target: Target,
        request: &[u8],
        clients: usize,
        duration: Duration,
    ) -> Outcome<u64> {
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..clients {
                let (connector, request) = (self.connector.clone(), request.to_owned());
                tasks.spawn(async move {
                    let (begun, mut count, mut buffer) = (Instant::now(), 0, Vec::new());
                    while begun.elapsed() < duration {
                        let mut stream = open(&connector, target).await?;
                        exchange(&mut stream, &request, &mut buffer).await?;
                        let _ = stream.shutdown().await;
                        count += 1;
                    }
                    Outcome::Ok(count)
                });
            }
            let mut responses = 0;
            while let Some(count) = tasks.join_next().await {
                responses += count??;
            }
            Ok(responses)
        })
    }

    /// Opens idle connections after one response each, and calls `measure` while they are open.
    pub(crate) fn idle<T>(
        &self,
        target: Target,
        request: &[u8],
        connections: usize,
        measure: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<T> {
        self.runtime.block_on(async {
            let (mut open_ones, mut buffer) = (Vec::new(), Vec::new());
            for _ in 0..connections {
                let mut stream = open(&self.connector, target).await?;
                exchange(&mut stream, request, &mut buffer).await?;
                open_ones.push(stream);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            measure()
        })
    }
}

async fn open(connector: &TlsConnector, target: Target) -> Outcome<Box<dyn Stream>> {
    if target.is_tls {
        return Ok(Box::new(handshake(connector, target).await?));
    }
    Ok(Box::new(socket(target).await?))
}

async fn socket(target: Target) -> Outcome<TcpStream> {
    let socket = TcpStream::connect(target.address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

async fn handshake(connector: &TlsConnector, target: Target) -> Outcome<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost")?;
    Ok(connector.connect(name, socket(target).await?).await?)
}

/// Sends a request and reads its whole response, which must be a 200.
async fn exchange(
    stream: &mut Box<dyn Stream>,
    request: &[u8],
    buffer: &mut Vec<u8>,
) -> Outcome<()> {
    stream.write_all(request).await?;
    stream.flush().await?;
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            return Err("the server closed a connection".into());
        }
        if let Some(head) = Head::of_whole(buffer) {
            return match head.status {
                200 => Ok(()),
                status => Err(format!("status {status}").into()),
            };
        }
    }
}
