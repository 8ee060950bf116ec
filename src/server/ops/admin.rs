//! The responses of the admin listener, and its socket.

use std::time::Duration;

use hyper::StatusCode;
use tokio::net::TcpListener;

use crate::server::ops::metrics;
use crate::server::ops::state::ServerState;
use crate::server::settings::{Settings, StartError};

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
