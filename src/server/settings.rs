//! What to serve and how, and why that could not begin.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::keys::{KeyFileError, KeyPrefix};
use crate::observe::{AccessLogError, Supervisor};
use crate::quota::{StateError, TableSize, TierLimits};
use crate::request::TrustedProxies;
use crate::signup::SignupError;

/// What to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// The dataset compiled in.
    Sample,
    /// A published directory.
    Directory(PathBuf),
}

/// Descriptors that are not for connections: files, listeners, runtimes, and some to spare.
pub const DESCRIPTORS_ASIDE: u64 = 128;

/// What a connection may cost before it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// From the connection to the first byte of its first request.
    pub first_byte: Duration,
    /// From the first byte of a request's head to its last.
    pub head: Duration,
    /// Between an answer and the next request.
    pub idle: Duration,
    /// In which a client takes some of an answer that waits for it.
    pub send: Duration,
    /// Requests, the last of which is answered with `connection: close`.
    pub requests: u32,
    /// Its age, after which the next request is its last.
    pub age: Duration,
    /// Connections in all; as many as there are descriptors for where it is `None`.
    pub in_all: Option<u32>,
    /// Connections of one address.
    pub of_address: u16,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            first_byte: Duration::from_secs(10),
            head: Duration::from_secs(10),
            // Longer than proxies keep theirs: who closes first must not be the one that is asked.
            idle: Duration::from_secs(75),
            send: Duration::from_secs(10),
            requests: 100_000,
            age: Duration::from_hours(1),
            in_all: None,
            of_address: 1024,
        }
    }
}

/// Which build this is, for those who look at it from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// The version, as `1.0.0`.
    pub version: &'static str,
    /// The commit that it was made of, or `unknown`.
    pub commit: &'static str,
}

/// How people prove the address that a key of theirs is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignUp {
    /// It is the IP address that they come from.
    Ip,
    /// A link is sent there, by this command.
    Email(String),
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
    pub quota_sizes: TableSize,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: TrustedProxies,
    /// What a connection may cost.
    pub connections: ConnectionLimits,
    /// How long requests under way may take to end after a signal.
    pub drain: Duration,
    /// Where metrics and readiness are told; nowhere where it is `None`.
    pub admin: Option<SocketAddr>,
    /// The file that gets a line for each request.
    pub access_log: Option<PathBuf>,
    /// Whether and how people get free keys by themselves.
    pub sign_up: Option<SignUp>,
    /// Free keys that sign-up gives a UTC day in all.
    pub sign_up_daily: u32,
    /// Which build this is.
    pub build: Build,
    /// What a service manager wants to be told.
    pub supervisor: Supervisor,
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
    /// A socket that a service manager handed over is not one to accept from.
    Inherited(io::Error),
    /// The access log cannot be opened.
    AccessLog(AccessLogError),
    /// The service manager cannot be told.
    Supervisor(io::Error),
    /// The runtime or a thread could not be made.
    Runtime(io::Error),
    /// The compiled-in sample does not publish.
    Sample(String),
    /// Sign-up cannot be opened.
    SignUp(SignupError),
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
            StartError::Inherited(error) => {
                write!(
                    f,
                    "a socket of LISTEN_FDS is no listening TCP socket: {error}"
                )
            }
            StartError::AccessLog(error) => error.fmt(f),
            StartError::Supervisor(error) => {
                write!(f, "the socket that NOTIFY_SOCKET names: {error}")
            }
            StartError::Runtime(error) => write!(f, "cannot start: {error}"),
            StartError::Sample(problem) => write!(f, "the sample dataset: {problem}"),
            StartError::SignUp(error) => error.fmt(f),
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
