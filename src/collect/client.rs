//! The HTTP client: one connection to the upstream, one request in flight.
//!
//! Bounded in size and time; follows no redirects. A failed connection is opened again by the next request.

use std::io::Read;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    RETRY_AFTER, USER_AGENT,
};
use hyper::rt::{Read as HyperRead, Write as HyperWrite};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::proxy::Proxy;
use super::reply::{MAX_BODY_BYTES, RawReply, with_correlation_id};
use super::settings::{CollectSettings, Upstream};
use crate::calendar::UnixSeconds;
use crate::tls;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// From the connection to the last byte of the body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The flag that names certificates to trust.
const CA_FLAG: &str = "--ca-file";
const CORRELATION_ID: HeaderName = HeaderName::from_static("x-epic-correlation-id");

pub(super) struct Client {
    upstream: Upstream,
    proxy: Option<Proxy>,
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
            proxy: settings.proxy.clone().filter(|_| upstream.is_tls),
            upstream,
            tls,
            user_agent: format!("island-metrics/{} (+{contact})", env!("CARGO_PKG_VERSION")),
            sender: None,
            sent_at: None,
        })
    }

    /// Sends a GET request and reads the response whole. An error says what was wrong.
    pub(super) async fn get(&mut self, target: &str) -> Result<RawReply, String> {
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

    async fn exchange(&mut self, target: &str) -> Result<RawReply, String> {
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
        let id = text(response.headers(), &CORRELATION_ID);
        let raw = read(response).await;
        raw.map_err(|problem| with_correlation_id(problem, id.as_deref()))
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
        let (host, port) = (self.upstream.host.as_str(), self.upstream.port);
        let socket = if let Some(proxy) = &self.proxy {
            proxy.connect(&format!("{host}:{port}")).await?
        } else {
            let problem = format!("cannot connect to {}", self.upstream.authority);
            let socket = TcpStream::connect((host, port)).await;
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

async fn read(response: Response<Incoming>) -> Result<RawReply, String> {
    let (head, body) = response.into_parts();
    let header = |name: &HeaderName| text(&head.headers, name);
    let too_long = || format!("the body is longer than {MAX_BODY_BYTES} bytes");
    let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            too_long()
        } else {
            format!("the body was cut short: {error}")
        }
    })?;
    let mut body = body.to_bytes().to_vec();
    match header(&CONTENT_ENCODING).as_deref() {
        None | Some("identity") => {}
        // A throttled response has no body to decompress.
        Some("gzip" | "x-gzip") if body.is_empty() => {}
        Some("gzip" | "x-gzip") => {
            let mut inflated = Vec::new();
            let mut decoder = MultiGzDecoder::new(&body[..]).take(MAX_BODY_BYTES as u64 + 1);
            decoder
                .read_to_end(&mut inflated)
                .map_err(|error| format!("the gzip body is damaged: {error}"))?;
            if inflated.len() > MAX_BODY_BYTES {
                return Err(too_long());
            }
            body = inflated;
        }
        Some(other) => return Err(format!("the content encoding must be gzip, got {other:?}")),
    }
    Ok(RawReply {
        status: head.status.as_u16(),
        content_type: header(&CONTENT_TYPE).unwrap_or_default(),
        retry_after_seconds: header(&RETRY_AFTER).and_then(|value| retry_after(&value)),
        correlation_id: header(&CORRELATION_ID),
        body,
    })
}

/// Returns the seconds of a `Retry-After`, which may also be a date.
fn retry_after(value: &str) -> Option<u64> {
    let until = || UnixSeconds::parse_http(value).map(|time| time.0 - UnixSeconds::now().0);
    let seconds = value.parse().ok();
    seconds.or_else(|| u64::try_from(until()?).ok())
}

/// Returns a header's value without what a log line must not contain.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.chars().take(200).collect())
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
