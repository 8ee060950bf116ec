//! The listener for those who run the server: `/metrics`, `/livez` and `/readyz`. Never for the public.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::observe::Exposition;
use crate::server::conn::limiter::{Place, Room};
use crate::server::http::body::ResponseBody;
use crate::server::ops::metrics::Figures;

/// Connections at a time. Scrapers and probes are few.
const CONNECTIONS_MAX: u32 = 64;
/// For a request and its answer; each has a connection of its own. Who dawdles keeps others out no longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a worker may give no sign of life. It gives one a second.
const SILENT_MAX: Duration = Duration::from_secs(5);

/// Binds the address. In a runtime.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Answers for ever.
pub(crate) async fn serve(listener: TcpListener, figures: Arc<Figures>) {
    let room = Arc::new(Room::new(CONNECTIONS_MAX, u16::MAX));
    loop {
        let accepted = listener.accept().await;
        match (accepted, room.take()) {
            (Ok((stream, _)), Some(place)) => {
                tokio::spawn(converse(stream, Arc::clone(&figures), place));
            }
            // Too many at a time: closed.
            (Ok(_), None) => {}
            // As when no descriptor is left.
            (Err(_), _) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(stream: TcpStream, figures: Arc<Figures>, _place: Place) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer(request.method(), request.uri().path(), &figures);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    // A scraper that goes away is its own affair.
    let _ = tokio::time::timeout(PATIENCE, connection).await;
}

fn answer(method: &Method, path: &str, figures: &Figures) -> Response<ResponseBody> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let (status, kind, text) = match path {
        _ if method != Method::GET && method != Method::HEAD => {
            let text = "want GET or HEAD\n".to_owned();
            (StatusCode::METHOD_NOT_ALLOWED, TEXT, text)
        }
        "/metrics" => (StatusCode::OK, Exposition::MEDIA_TYPE, figures.page()),
        "/livez" => judged(figures.liveness(), TEXT),
        "/readyz" => judged(figures.readiness(), TEXT),
        _ => {
            let text = "want /metrics, /livez or /readyz\n".to_owned();
            (StatusCode::NOT_FOUND, TEXT, text)
        }
    };
    let mut response = Response::new(ResponseBody::Whole(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

fn judged(
    judgement: Result<String, String>,
    kind: &'static str,
) -> (StatusCode, &'static str, String) {
    let (status, text) = match judgement {
        Ok(text) => (StatusCode::OK, text),
        Err(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
    };
    (status, kind, format!("{text}\n"))
}

impl Figures {
    /// Whether every worker answers. A process that does not is best started anew.
    pub(crate) fn liveness(&self) -> Result<String, String> {
        match self.silent_worker(SILENT_MAX) {
            None => Ok("alive".to_owned()),
            Some((at, silent)) => Err(format!(
                "worker {at} has answered nothing for {} seconds",
                silent.as_secs()
            )),
        }
    }

    /// A worker that has given no sign of life for longer than `max`.
    pub(crate) fn silent_worker(&self, max: Duration) -> Option<(usize, Duration)> {
        let silent = self.rosters.iter().map(|roster| roster.silent_for());
        silent.enumerate().find(|(_, silent)| *silent > max)
    }

    /// Whether requests should be sent here.
    pub(crate) fn readiness(&self) -> Result<String, String> {
        if self.rosters.iter().any(|roster| roster.is_stopping()) {
            return Err("stopping".to_owned());
        }
        self.liveness()?;
        match self.snapshot.load_full().published() {
            Some(published) => Ok(format!("ready; serving the publish of {published}")),
            None => Err("nothing is published".to_owned()),
        }
    }
}
