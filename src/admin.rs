//! The admin listener of a server or a collector: `/metrics`, `/livez` and `/readyz`. It must not be public.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::observe::Exposition;

/// Simultaneous connections. Scrapers and probes are few.
const CONNECTIONS_MAX: usize = 64;
/// Lifetime of a connection, which serves one request.
const CONNECTION_MAX: Duration = Duration::from_secs(10);
/// Age at which a connection can be closed for a new one. A scraper or probe sends its request in a
/// moment, and gets the response at once, so its connection is not among those that are closed.
const EVICTED_AFTER: Duration = Duration::from_millis(50);

/// Accepts connections for the life of the process. When there are too many, the oldest one is closed, so that
/// clients which send nothing keep no scraper or probe out. `respond` returns status and text of the response
/// to one of the three paths; `None` for others.
pub(crate) async fn serve(
    listener: TcpListener,
    respond: impl Fn(&str) -> Option<(StatusCode, String)> + Clone + Send + 'static,
) {
    // The oldest first.
    let mut connections: VecDeque<(Instant, JoinHandle<()>)> = VecDeque::new();
    loop {
        connections.retain(|(_, connection)| !connection.is_finished());
        if connections.len() >= CONNECTIONS_MAX
            && let Some((begun, oldest)) = connections.pop_front()
        {
            sleep_until(begun + EVICTED_AFTER).await;
            oldest.abort();
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let respond = respond.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    std::future::ready(Ok::<_, Infallible>(response(&request, &respond)))
                });
                let connection = http1::Builder::new()
                    .keep_alive(false)
                    .header_read_timeout(None)
                    .serve_connection(TokioIo::new(stream), service);
                let task = tokio::spawn(async move {
                    // A scraper that disconnects is no fault.
                    let _ = timeout(CONNECTION_MAX, connection).await;
                });
                connections.push_back((Instant::now(), task));
            }
            // No file descriptor is left, for example.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

fn response(
    request: &Request<Incoming>,
    respond: impl Fn(&str) -> Option<(StatusCode, String)>,
) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let (status, text) = if matches!(*request.method(), Method::GET | Method::HEAD) {
        respond(path).unwrap_or_else(|| {
            let text = "not found; the paths are /metrics, /livez and /readyz\n";
            (StatusCode::NOT_FOUND, text.to_owned())
        })
    } else {
        let text = "only GET and HEAD are allowed\n";
        (StatusCode::METHOD_NOT_ALLOWED, text.to_owned())
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
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
