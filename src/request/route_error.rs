//! Why a target names no endpoint.

use std::fmt;

use super::query::BadRequest;

/// Why a target names no endpoint; holds, and displays as, the message for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// 400
    BadRequest(String),
    /// 404
    NotFound(String),
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (RouteError::BadRequest(message) | RouteError::NotFound(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for RouteError {}

impl From<BadRequest> for RouteError {
    fn from(bad: BadRequest) -> RouteError {
        RouteError::BadRequest(bad.to_string())
    }
}
