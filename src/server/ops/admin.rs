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
        "/livez" => {
            let fault = server.fault(HEARTBEAT_MAX);
            Some(health(fault.map_or_else(|| Ok("alive".to_owned()), Err)))
        }
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

/// Fails if no requests should be sent here.
fn readiness(server: &ServerState) -> Result<String, String> {
    if server
        .workers
        .iter()
        .any(|worker| worker.registry.is_stopping())
    {
        return Err("stopping".to_owned());
    }
    if let Some(fault) = server.fault(HEARTBEAT_MAX) {
        return Err(fault);
    }
    let has_keys = || server.quota.keys.current().count() > 0;
    if metrics::shared_keys(server).is_some_and(|keys| !keys.has_exchanged && !has_keys()) {
        let problem = "no keys are known: the store of shared keys has not been reached since the start, or has none yet";
        return Err(problem.to_owned());
    }
    match server.snapshot.current().published {
        Some(published) => Ok(format!("ready; serving the publish of {published}")),
        None => Err("nothing is published".to_owned()),
    }
}
