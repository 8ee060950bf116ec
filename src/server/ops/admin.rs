//! The admin listener: `/metrics`, `/livez` and `/readyz`. It must not be public.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::observe::Exposition;
use crate::server::conn::limiter::{ConnectionLimiter, Permit};
use crate::server::ops::metrics;
use crate::server::ops::state::ServerState;
use crate::server::settings::{Settings, StartError};

/// Simultaneous connections. Scrapers and probes are few.
const CONNECTIONS_MAX: u32 = 64;
/// Lifetime of a connection, which serves one request.
const CONNECTION_MAX: Duration = Duration::from_secs(10);
/// Maximum age of a heartbeat. A worker has one a second.
const HEARTBEAT_MAX: Duration = Duration::from_secs(5);

/// Returns the inherited listener, or binds the configured address. Called in a runtime.
pub(crate) fn bind(
    settings: &Settings,
    inherited: Option<std::net::TcpListener>,
) -> Result<Option<TcpListener>, StartError> {
    if let Some(listener) = inherited {
        let listener = TcpListener::from_std(listener);
        return listener.map(Some).map_err(StartError::Inherited);
    }
    let Some(address) = settings.admin else {
        return Ok(None);
    };
    let bind = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    let bound = bind().map_err(|source| StartError::Bind { address, source })?;
    Ok(Some(bound))
}

/// Accepts connections for the life of the process.
pub(crate) async fn serve(listener: TcpListener, server: Arc<ServerState>) {
    let limiter = Arc::new(ConnectionLimiter::new(CONNECTIONS_MAX, u16::MAX));
    loop {
        let accepted = listener.accept().await;
        match (accepted, limiter.take()) {
            (Ok((stream, _)), Some(permit)) => {
                tokio::spawn(serve_connection(stream, Arc::clone(&server), permit));
            }
            // Too many connections: this one is closed.
            (Ok(_), None) => {}
            // No file descriptor is left, for example.
            (Err(_), _) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, server: Arc<ServerState>, _permit: Permit) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(request.method(), request.uri().path(), &server);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(CONNECTION_MAX, connection).await;
}

fn respond(method: &Method, path: &str, server: &ServerState) -> Response<Full<Bytes>> {
    let is_read = method == Method::GET || method == Method::HEAD;
    let (status, text) = match path {
        _ if !is_read => {
            let text = "only GET and HEAD are allowed\n".to_owned();
            (StatusCode::METHOD_NOT_ALLOWED, text)
        }
        "/metrics" => (StatusCode::OK, metrics::page(server)),
        "/livez" => health(liveness(server)),
        "/readyz" => health(readiness(server)),
        _ => {
            let text = "not found; the paths are /metrics, /livez and /readyz\n".to_owned();
            (StatusCode::NOT_FOUND, text)
        }
    };
    let media_type = match (path, status) {
        ("/metrics", StatusCode::OK) => Exposition::MEDIA_TYPE,
        _ => "text/plain; charset=utf-8",
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if !is_read {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

fn health(check: Result<String, String>) -> (StatusCode, String) {
    match check {
        Ok(text) => (StatusCode::OK, text + "\n"),
        Err(text) => (StatusCode::SERVICE_UNAVAILABLE, text + "\n"),
    }
}

/// Fails if a worker is stalled: the process should be restarted.
fn liveness(server: &ServerState) -> Result<String, String> {
    match server.stalled_worker(HEARTBEAT_MAX) {
        None => Ok("alive".to_owned()),
        Some((number, age)) => {
            let seconds = age.as_secs();
            Err(format!(
                "worker {number} had no heartbeat for {seconds} seconds"
            ))
        }
    }
}

/// Fails if no requests should be sent here.
fn readiness(server: &ServerState) -> Result<String, String> {
    if server
        .workers
        .iter()
        .any(|worker| worker.registry.is_stopping())
    {
        return Err("stopping".to_owned());
    }
    liveness(server)?;
    match server.snapshot.load_full().published {
        Some(published) => Ok(format!("ready; serving the publish of {published}")),
        None => Err("nothing is published".to_owned()),
    }
}
