//! The HTTP client: one connection to the upstream, one request in flight.
//!
//! Bounded in size and time; follows no redirects. A failed connection is opened again by the next request.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HOST, USER_AGENT};
use hyper::rt::{Read as HyperRead, Write as HyperWrite};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::reply::{MAX_BODY_BYTES, Raw, header, with_correlation_id};
use super::settings::{CollectSettings, HttpAddress};
use crate::tls;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// From the connection to the last byte of the body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The flag that names certificates to trust.
const CA_FLAG: &str = "--ca-file";
/// Longest head of the response of a proxy, in bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;

pub(super) struct Client {
    upstream: HttpAddress,
    proxy: Option<HttpAddress>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    user_agent: String,
    sender: Option<SendRequest<Empty<Bytes>>>,
    /// Time at which the last request was sent, after its connection was open; `None` if it was not.
    pub(super) sent_at: Option<Instant>,
}

impl Client {
    /// Creates a client. No connection is opened.
    pub(super) fn new(settings: &CollectSettings) -> Result<Client, String> {
        let (upstream, contact) = (settings.upstream.clone(), &settings.contact);
        let tls = if upstream.is_tls {
            let config = tls::client_config(settings.ca_file.as_deref(), CA_FLAG)?;
            let name = ServerName::try_from(upstream.host.clone());
            let name = name.map_err(|_| format!("{} is not a host name", upstream.host))?;
            Some((TlsConnector::from(config), name))
        } else {
            None
        };
        Ok(Client {
            proxy: settings.proxy.clone(),
            upstream,
            tls,
            user_agent: format!("island-metrics/{} (+{contact})", env!("CARGO_PKG_VERSION")),
            sender: None,
            sent_at: None,
        })
    }

    /// Sends a GET request and reads the response whole. An error says what was wrong.
    pub(super) async fn get(&mut self, target: &str) -> Raw {
        self.sent_at = None;
        let result = timeout(REQUEST_TIMEOUT, self.exchange(target)).await;
        let result = result.unwrap_or_else(|_| {
            Err(format!(
                "no response within {} s",
                REQUEST_TIMEOUT.as_secs()
            ))
        });
        if result.is_err() {
            self.sender = None;
        }
        result
    }

    async fn exchange(&mut self, target: &str) -> Raw {
        let uri = format!("{}{target}", self.upstream.base_path);
        let request = Request::get(uri)
            .header(HOST, &self.upstream.authority)
            .header(USER_AGENT, &self.user_agent)
            .header(ACCEPT, "application/json")
            .header(ACCEPT_ENCODING, "gzip")
            .body(Empty::new())
            .map_err(|error| error.to_string())?;
        let sender = self.sender().await?;
        let response = sender.send_request(request);
        self.sent_at = Some(Instant::now());
        let response = response.await;
        let response = response.map_err(|error| describe("no response", &error))?;
        let (head, body) = response.into_parts();
        let encoding = header(&head.headers, &CONTENT_ENCODING);
        match read(body, encoding.as_deref()).await {
            Ok(body) => Ok(Response::from_parts(head, body)),
            Err(problem) => Err(with_correlation_id(problem, &head.headers)),
        }
    }

    /// Returns the open connection, or opens one.
    async fn sender(&mut self) -> Result<&mut SendRequest<Empty<Bytes>>, String> {
        let is_open = match &mut self.sender {
            // An idle connection may have been closed by the other side.
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !is_open {
            let opened = timeout(CONNECT_TIMEOUT, self.connect()).await;
            let opened = opened
                .map_err(|_| format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()))?;
            self.sender = Some(opened?);
        }
        Ok(self.sender.as_mut().expect("opened above"))
    }

    async fn connect(&self) -> Result<SendRequest<Empty<Bytes>>, String> {
        let socket = if let Some(proxy) = &self.proxy {
            connect_through(&proxy.host_and_port, &self.upstream.host_and_port).await?
        } else {
            let problem = format!("cannot connect to {}", self.upstream.authority);
            let socket = open(&self.upstream.host_and_port).await;
            socket.map_err(|error| describe(&problem, &error))?
        };
        match &self.tls {
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), socket).await;
                let problem = |error| tls::handshake_problem(&error, CA_FLAG);
                start(stream.map_err(problem)?).await
            }
            None => start(socket).await,
        }
    }
}

/// Opens a connection to one of the addresses of a host and port.
async fn open(host_and_port: &str) -> io::Result<TcpStream> {
    open_first(lookup_host(host_and_port).await?.collect()).await
}

/// Opens a connection to the first address that accepts one. One that does not respond, such as an IPv6 address without
/// a route, gets a share of the time only; the last share is for the handshake.
async fn open_first(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let shares = u32::try_from(addresses.len() + 1).unwrap_or(u32::MAX);
    let mut opened = Err(io::Error::other("it has no address"));
    for address in addresses {
        let attempt = timeout(CONNECT_TIMEOUT / shares, TcpStream::connect(address)).await;
        opened = attempt.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if opened.is_ok() {
            break;
        }
    }
    opened
}

/// Opens a connection to a host through a proxy, with the method CONNECT.
async fn connect_through(proxy: &str, authority: &str) -> Result<TcpStream, String> {
    let problem = |problem: String| format!("the proxy {proxy} {problem}");
    let socket = open(proxy).await;
    let mut socket = socket.map_err(|error| problem(format!("cannot be reached: {error}")))?;
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let lost = |error: io::Error| problem(format!("closed the connection: {error}"));
    socket.write_all(request.as_bytes()).await.map_err(lost)?;
    let mut head = Vec::new();
    // The first bytes after the head are the upstream's.
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
        head.push(socket.read_u8().await.map_err(lost)?);
    }
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default();
    if line.split(' ').nth(1) != Some("200") {
        return Err(problem(format!("refused the connection: {line:?}")));
    }
    Ok(socket)
}

async fn start<S>(stream: S) -> Result<SendRequest<Empty<Bytes>>, String>
where
    S: Send + 'static,
    TokioIo<S>: HyperRead + HyperWrite + Unpin,
{
    let (sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    // It ends with the sender. Its error reaches the request that is in flight.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

async fn read(body: Incoming, encoding: Option<&str>) -> Result<Vec<u8>, String> {
    let too_long = || format!("the body is longer than {MAX_BODY_BYTES} bytes");
    let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            too_long()
        } else {
            format!("the body was cut short: {error}")
        }
    })?;
    let body = body.to_bytes();
    // Names of codings are compared without case (RFC 9110 section 8.4.1).
    let encoding = encoding.map(str::to_ascii_lowercase);
    match encoding.as_deref() {
        None | Some("identity") => Ok(body.to_vec()),
        // A throttled response has no body to decompress.
        Some("gzip" | "x-gzip") if body.is_empty() => Ok(Vec::new()),
        Some("gzip" | "x-gzip") => {
            let mut inflated = Vec::new();
            let mut decoder = MultiGzDecoder::new(&body[..]).take(MAX_BODY_BYTES as u64 + 1);
            decoder
                .read_to_end(&mut inflated)
                .map_err(|error| format!("the gzip body is damaged: {error}"))?;
            if inflated.len() > MAX_BODY_BYTES {
                return Err(too_long());
            }
            Ok(inflated)
        }
        Some(other) => Err(format!("the content encoding must be gzip, got {other:?}")),
    }
}

/// Returns an error with its causes, which hyper and rustls do not show.
fn describe(problem: &str, error: &dyn std::error::Error) -> String {
    let mut text = format!("{problem}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let shown = error.to_string();
        if !text.ends_with(&shown) {
            text = format!("{text}: {shown}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener as StdListener, TcpStream as StdStream};

    use tokio::net::TcpSocket;

    use super::*;

    #[test]
    fn an_address_that_does_not_respond_leaves_time_for_the_next() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let _entered = runtime.enter();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = socket.listen(0).unwrap();
        let silent = full.local_addr().unwrap();
        // Its queue of connections is full after the first ones.
        let mut queued = Vec::new();
        while let Ok(socket) = StdStream::connect_timeout(&silent, Duration::from_millis(300)) {
            queued.push(socket);
        }
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        let sound = listener.local_addr().unwrap();
        let opened = open_first(vec![silent, sound]);
        let opened = runtime.block_on(async { timeout(CONNECT_TIMEOUT, opened).await });
        assert_eq!(opened.unwrap().unwrap().peer_addr().unwrap(), sound);
    }
}
