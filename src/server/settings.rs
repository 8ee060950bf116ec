//! What to serve and how, and why that could not begin.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::key_reload::KeysError;
use crate::keys::{KeyFileError, KeyPrefix};
use crate::quota::{Sizes, StateError, TierLimits};
use crate::request::TrustedProxies;

/// What to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// The dataset compiled in.
    Sample,
    /// A published directory.
    Directory(PathBuf),
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to serve.
    pub served: Served,
    /// Addresses to listen on, at least one.
    pub listen: Vec<SocketAddr>,
    /// The service's own address in links; the first listening address where it is `None`.
    pub base_url: Option<String>,
    /// Threads, each with its own runtime and sockets.
    pub workers: usize,
    /// Bytes that bodies and pages may take beside rows and orders.
    pub memory_bytes: usize,
    /// Where keys and counters are kept; without it there are no keys, and counts end with the
    /// process.
    pub state: Option<PathBuf>,
    /// What keys begin with.
    pub key_prefix: KeyPrefix,
    /// Requests a UTC day.
    pub limits: TierLimits,
    /// How many anonymous clients a day the counters have room for.
    pub quota_sizes: Sizes,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: TrustedProxies,
}

/// Why serving could not begin.
#[derive(Debug)]
pub enum StartError {
    /// An address is taken or not ours.
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The runtime or a thread could not be made.
    Runtime(io::Error),
    /// The compiled-in sample does not publish.
    Sample(String),
    /// The key file is damaged, or cannot be read.
    Keys(KeyFileError),
    /// The counters' file cannot be opened or made.
    State(StateError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind { address, source } => {
                write!(f, "cannot listen on {address}: {source}")
            }
            StartError::Runtime(error) => write!(f, "cannot start: {error}"),
            StartError::Sample(problem) => write!(f, "the sample dataset: {problem}"),
            StartError::Keys(error) => error.fmt(f),
            StartError::State(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Runtime(error)
    }
}

impl From<KeysError> for StartError {
    fn from(error: KeysError) -> StartError {
        match error {
            KeysError::File(error) => StartError::Keys(error),
            KeysError::State(error) => StartError::State(error),
        }
    }
}
