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

/// Requests sent together on a connection, and the status of their responses.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) depth: usize,
    pub(crate) status: u16,
}

impl Batch {
    pub(crate) fn new(compared: &Compared) -> Batch {
        Batch {
            bytes: compared.request.repeat(compared.depth),
            depth: compared.depth,
            status: compared.status,
        }
    }
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
    pub(crate) fn fetch(&self, target: Target, batch: &Batch) -> Outcome<Response> {
        self.runtime.block_on(async {
            let mut stream = open(&self.connector, self.from(), target).await?;
            let mut received = Vec::new();
            let one = &batch.bytes[..batch.bytes.len() / batch.depth];
            stream.write_all(one).await?;
            stream.flush().await?;
            while Head::of_whole(&received).is_none() {
                read(&mut stream, &mut received).await?;
            }
            Response::parse(received)
        })
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

    /// Sends a batch again and again on each connection. Returns the number of responses.
    pub(crate) fn load(
        &self,
        connections: &mut Connections,
        batch: &Batch,
        duration: Duration,
    ) -> Outcome<u64> {
        self.block_on_awake(async {
            let mut tasks = JoinSet::new();
            for mut stream in connections.drain(..) {
                let batch = batch.clone();
                tasks.spawn(async move {
                    let (begun, mut count, mut buffer) = (Instant::now(), 0, Vec::new());
                    while begun.elapsed() < duration {
                        exchange(&mut stream, &batch, &mut buffer).await?;
                        count += batch.depth as u64;
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

    /// Sends a batch again and again, each time on a new connection, from so many clients. Returns
    /// the number of responses.
    pub(crate) fn load_anew(
        &self,
        target: Target,
        batch: &Batch,
        clients: usize,
        duration: Duration,
    ) -> Outcome<u64> {
        self.block_on_awake(async {
            let mut tasks = JoinSet::new();
            for _ in 0..clients {
                let (connector, batch) = (self.connector.clone(), batch.clone());
                let from = self.from();
                tasks.spawn(async move {
                    let (begun, mut count, mut buffer) = (Instant::now(), 0, Vec::new());
                    while begun.elapsed() < duration {
                        let mut stream = open(&connector, from, target).await?;
                        exchange(&mut stream, &batch, &mut buffer).await?;
                        let _ = stream.shutdown().await;
                        count += batch.depth as u64;
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
        batch: &Batch,
        connections: usize,
        measure: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<T> {
        self.runtime.block_on(async {
            let (mut opened, mut buffer) = (Vec::new(), Vec::new());
            for _ in 0..connections {
                let mut stream = open(&self.connector, self.from(), target).await?;
                exchange(&mut stream, batch, &mut buffer).await?;
                opened.push(stream);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            measure()
        })
    }

    /// Runs a load without ever sleeping.
    fn block_on_awake<T>(&self, load: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            let awake = tokio::spawn(async {
                loop {
                    tokio::task::yield_now().await;
                }
            });
            let result = load.await;
            awake.abort();
            result
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

/// Sends a batch and reads its whole responses.
async fn exchange(
    stream: &mut Box<dyn Stream>,
    batch: &Batch,
    buffer: &mut Vec<u8>,
) -> Outcome<()> {
    stream.write_all(&batch.bytes).await?;
    stream.flush().await?;
    buffer.clear();
    let (mut ended, mut at) = (0, 0);
    while ended < batch.depth {
        read(stream, buffer).await?;
        while let Some(head) = Head::of_whole(&buffer[at..]) {
            if head.status != batch.status {
                return Err(format!("status {}, not {}", head.status, batch.status).into());
            }
            at += head.length + head.body_length;
            ended += 1;
        }
    }
    Ok(())
}

async fn read(stream: &mut Box<dyn Stream>, buffer: &mut Vec<u8>) -> Outcome<()> {
    match stream.read_buf(buffer).await? {
        0 => Err("the server closed a connection".into()),
        _ => Ok(()),
    }
}
