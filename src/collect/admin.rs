//! The admin listener of a collector: `/metrics`, `/livez` and `/readyz`. Never for the public.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::observe::Exposition;
use crate::sync::{Mutex, lock};

/// Connections at a time. Scrapers and probes are few.
const MAX_CONNECTIONS: usize = 16;
/// Time for a request and its response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Content of the responses. The collector replaces it about once a second.
#[derive(Debug)]
pub(super) struct Page {
    /// The metrics.
    pub(super) metrics: String,
    /// Why the collector is not ready; `None` if it has had a usable response recently.
    pub(super) readiness: Option<&'static str>,
}

impl Page {
    /// Returns the content before the first tick.
    pub(super) fn starting() -> Page {
        Page {
            metrics: String::new(),
            readiness: Some("starting"),
        }
    }
}

/// Binds the address and serves in the background. Must be called in a runtime.
pub(super) async fn start(address: SocketAddr, page: Arc<Mutex<Page>>) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tokio::spawn(async move {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let page = Arc::clone(&page);
                    tokio::spawn(async move {
                        serve(stream, page).await;
                        drop(permit);
                    });
                }
                // For example, if no descriptor is left.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
    Ok(())
}

async fn serve(stream: TcpStream, page: Arc<Mutex<Page>>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(request.uri().path(), &lock(&page));
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    // A scraper that disconnects is no fault.
    let _ = tokio::time::timeout(TIMEOUT, connection).await;
}

fn respond(path: &str, page: &Page) -> Response<Full<Bytes>> {
    let (status, text) = match (path, page.readiness) {
        ("/metrics", _) => (StatusCode::OK, page.metrics.clone()),
        ("/livez", _) => (StatusCode::OK, "alive\n".to_owned()),
        ("/readyz", None) => (StatusCode::OK, "ready\n".to_owned()),
        ("/readyz", Some(problem)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")),
        _ => {
            let problem = "the paths are /metrics, /livez and /readyz\n";
            (StatusCode::NOT_FOUND, problem.to_owned())
        }
    };
    let media_type = match path {
        "/metrics" => Exposition::MEDIA_TYPE,
        _ => "text/plain; charset=utf-8",
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
