//! The responses of the admin listener.

use std::time::Duration;

use hyper::{Method, StatusCode};

use crate::server::ops::metrics;
use crate::server::ops::state::ServerState;

/// Maximum age of a heartbeat. A worker has one a second.
const HEARTBEAT_MAX: Duration = Duration::from_secs(5);

/// Returns status and text of the response to a request.
pub(crate) fn respond(method: &Method, path: &str, server: &ServerState) -> (StatusCode, String) {
    if method != Method::GET && method != Method::HEAD {
        let text = "only GET and HEAD are allowed\n".to_owned();
        return (StatusCode::METHOD_NOT_ALLOWED, text);
    }
    match path {
        "/metrics" => (StatusCode::OK, metrics::page(server)),
        "/livez" => health(liveness(server)),
        "/readyz" => health(readiness(server)),
        _ => {
            let text = "not found; the paths are /metrics, /livez and /readyz\n".to_owned();
            (StatusCode::NOT_FOUND, text)
        }
    }
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
