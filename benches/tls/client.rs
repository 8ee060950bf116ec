//! Load over TLS, or plain: connections in a closed loop on one thread, which has a core of its own
//! and never sleeps: a server that had to wake it would pay for that.

use std::cell::RefCell;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
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
use crate::common::http::{Head, Response};
use crate::common::pool::Sources;
use crate::common::requests::Compared;

/// A connection of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Open connections to one server.
pub(crate) type Connections = Vec<Box<dyn Stream>>;

/// A client that trusts the bench's certificates and never continues a session.
pub(crate) struct Client {
    runtime: Runtime,
    connector: TlsConnector,
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
            // Sockets are polled after few tasks, as one task is always ready.
            runtime: Builder::new_current_thread()
                .event_interval(4)
                .enable_all()
                .build()?,
            connector: TlsConnector::from(Arc::new(config)),
            sources: RefCell::new(Sources::new()),
        })
    }

    /// Returns the version, cipher suite and key exchange group that a server chooses.
    pub(crate) fn negotiated(&self, target: Target) -> Outcome<String> {
        self.runtime.block_on(async {
            let stream = handshake(&self.connector, self.from(), target).await?;
            let session = stream.get_ref().1;
            let version = session.protocol_version().ok_or("no version")?;
            let suite = session.negotiated_cipher_suite().ok_or("no suite")?;
            let group = session.negotiated_key_exchange_group();
            let group = group.ok_or("no group")?.name();
            Ok(format!("{version:?} {:?} {group:?}", suite.suite()))
        })
    }

    /// Sends one request and returns its response.
    pub(crate) fn fetch(&self, target: Target, request: &Compared) -> Outcome<Response> {
        let (mut one, mut received) = (request.clone(), Vec::new());
        one.depth = 1;
        self.runtime.block_on(async {
            let mut stream = open(&self.connector, self.from(), target).await?;
            exchange(&mut stream, &one, &mut received).await
        })?;
        Response::parse(received)
    }

    /// Opens connections, each from an address of its own, which `load` uses again and again.
    pub(crate) fn open(&self, target: Target, connections: usize) -> Outcome<Connections> {
        self.runtime.block_on(async {
            let mut opened = Vec::new();
            for _ in 0..connections {
                opened.push(open(&self.connector, self.from(), target).await?);
            }
            Ok(opened)
        })
    }

    /// Sends requests on each connection for so long, at least once. Returns the number of responses.
    pub(crate) fn load(
        &self,
        connections: &mut Connections,
        request: &Compared,
        duration: Duration,
    ) -> Outcome<u64> {
        let clients = connections.drain(..).map(|mut stream| {
            let request = request.clone();
            async move {
                let (begun, mut count, mut buffer) = (Instant::now(), 0, Vec::new());
                while count == 0 || begun.elapsed() < duration {
                    exchange(&mut stream, &request, &mut buffer).await?;
                    count += request.depth as u64;
                }
                Ok((count, stream))
            }
        });
        let ended = self.run_awake(clients)?;
        let (counts, streams): (Vec<u64>, Connections) = ended.into_iter().unzip();
        *connections = streams;
        Ok(counts.iter().sum())
    }

    /// Sends requests, each time on a new connection, from so many clients. Returns the number of
    /// responses.
    pub(crate) fn load_anew(
        &self,
        target: Target,
        request: &Compared,
        clients: usize,
        duration: Duration,
    ) -> Outcome<u64> {
        let clients = (0..clients).map(|_| {
            let (connector, request) = (self.connector.clone(), request.clone());
            let from = self.from();
            async move {
                let (begun, mut count, mut buffer) = (Instant::now(), 0, Vec::new());
                while begun.elapsed() < duration {
                    let mut stream = open(&connector, from, target).await?;
                    exchange(&mut stream, &request, &mut buffer).await?;
                    let _ = stream.shutdown().await;
                    count += request.depth as u64;
                }
                Ok(count)
            }
        });
        Ok(self.run_awake(clients)?.iter().sum())
    }

    /// Runs clients to their end without ever sleeping.
    fn run_awake<T: Send + 'static>(
        &self,
        clients: impl Iterator<Item = impl Future<Output = Outcome<T>> + Send + 'static>,
    ) -> Outcome<Vec<T>> {
        self.runtime.block_on(async {
            let awake = tokio::spawn(async {
                loop {
                    tokio::task::yield_now().await;
                }
            });
            let clients: JoinSet<Outcome<T>> = clients.collect();
            let ended = clients.join_all().await.into_iter().collect();
            awake.abort();
            ended
        })
    }

    /// An address that has sent no request.
    fn from(&self) -> Ipv4Addr {
        self.sources.borrow_mut().fresh()
    }
}

async fn open(
    connector: &TlsConnector,
    from: Ipv4Addr,
    target: Target,
) -> Outcome<Box<dyn Stream>> {
    if target.is_tls {
        return Ok(Box::new(handshake(connector, from, target).await?));
    }
    Ok(Box::new(socket(from, target).await?))
}

async fn socket(from: Ipv4Addr, target: Target) -> Outcome<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.set_nodelay(true)?;
    Ok(socket.connect(target.address).await?)
}

async fn handshake(
    connector: &TlsConnector,
    from: Ipv4Addr,
    target: Target,
) -> Outcome<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost")?;
    Ok(connector.connect(name, socket(from, target).await?).await?)
}

/// Sends a batch of requests and reads their whole responses into `buffer`.
async fn exchange(
    stream: &mut Box<dyn Stream>,
    request: &Compared,
    buffer: &mut Vec<u8>,
) -> Outcome<()> {
    stream
        .write_all(&request.request.repeat(request.depth))
        .await?;
    stream.flush().await?;
    buffer.clear();
    let (mut ended, mut at) = (0, 0);
    while ended < request.depth {
        if stream.read_buf(buffer).await? == 0 {
            return Err("the server closed a connection".into());
        }
        while let Some(head) = Head::of_whole(&buffer[at..]) {
            if head.status != request.status {
                return Err(format!("status {}, not {}", head.status, request.status).into());
            }
            at += head.length + head.body_length;
            ended += 1;
        }
    }
    Ok(())
}
