//! The responses of the admin listener.

use std::time::Duration;

use hyper::StatusCode;

use crate::server::ops::metrics;
use crate::server::ops::state::ServerState;

/// Maximum age of a heartbeat. A worker has one a second.
const HEARTBEAT_MAX: Duration = Duration::from_secs(5);

/// Returns status and text of the response to a path.
pub(crate) fn respond(path: &str, server: &ServerState) -> Option<(StatusCode, String)> {
    match path {
        "/metrics" => Some((StatusCode::OK, metrics::page(server))),
        "/livez" => Some(health(liveness(server))),
        "/readyz" => Some(health(readiness(server))),
        _ => None,
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
