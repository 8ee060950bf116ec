//! The settings of a server, and the errors of its start.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::keys::{KeyPrefix, KeyStoreError};
use crate::model::TierLimits;
use crate::observe::SystemdEnvironment;
use crate::quota::TableSize;
use crate::request::TrustedProxies;
#[cfg(feature = "shared-quota")]
use crate::shared::SharedQuotaSettings;
use crate::signup::SignupPolicy;
use crate::site::SiteSettings;
use crate::snapshot::Snapshot;

/// File descriptors besides connections: files, listeners, runtimes, and a reserve.
pub(crate) const OTHER_FDS: u64 = 128;

/// Limits of connections, and timeouts after which the server closes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// From the start of the connection to the first byte of its first request.
    pub(crate) first_byte: Duration,
    /// From the first byte of a request head to the last.
    pub(crate) head: Duration,
    /// Between a response and the next request.
    pub(crate) idle: Duration,
    /// Within which the client must read some of a pending response, beyond the time for what it has
    /// read before at `send_rate`.
    pub(crate) send: Duration,
    pub(crate) send_rate: u32,
    /// Maximum number of requests. The last response has `connection: close`.
    pub(crate) requests: u32,
    /// Maximum age. The first request after it is the last.
    pub(crate) age: Duration,
    /// Maximum number of connections; by default as many as there are file descriptors for.
    pub(crate) connections_max: Option<u32>,
    pub(crate) connections_per_address_max: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The published directory; the built-in sample dataset by default.
    pub(crate) published: Option<PathBuf>,
    pub(crate) open_sample: fn(&SiteSettings) -> Result<Snapshot, Box<dyn Error>>,
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) listen_tls: Vec<SocketAddr>,
    /// The files of a certificate chain and of its private key, both PEM, which TLS requires.
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    /// The public URL of the service in links; by default the first listening address.
    pub(crate) base_url: Option<String>,
    /// The number of worker threads. Each has its own runtime and sockets.
    pub(crate) workers: usize,
    /// Memory for caches and page bodies.
    pub(crate) memory_bytes: usize,
    /// The directory of keys and counters. Without it there are no keys, and counters end with the
    /// process.
    pub(crate) state: Option<PathBuf>,
    pub(crate) key_prefix: KeyPrefix,
    pub(crate) limits: TierLimits,
    /// The publisher's e-mail address or URL, shown on pages.
    pub(crate) contact: Option<String>,
    pub(crate) quota_sizes: TableSize,
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) connections: ConnectionLimits,
    /// Maximum time that open requests have to end after a signal.
    pub(crate) drain: Duration,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) access_log: Option<PathBuf>,
    pub(crate) signup: Option<SignupPolicy>,
    pub(crate) systemd: SystemdEnvironment,
    #[cfg(feature = "shared-quota")]
    pub(crate) shared_quota: Option<SharedQuotaSettings>,
}

impl Settings {
    /// Returns what clients can see of the settings of a server at `base_url`.
    pub(crate) fn service(&self, base_url: &str) -> SiteSettings {
        SiteSettings {
            limits: self.limits,
            has_sign_up: self.signup.is_some(),
            contact: self.contact.clone(),
            ..SiteSettings::new(base_url)
        }
    }
}

/// The reason why a server could not start, by the remedy.
#[derive(Debug)]
pub(crate) enum StartError {
    /// An address is in use, or not one of this machine.
    Unavailable(String),
    /// A setting or an inherited socket cannot be used.
    Setting(String),
    /// A file or a socket cannot be opened; that may be temporary.
    Io(String),
    /// A runtime, a thread or the sample dataset cannot be created.
    Internal(String),
    /// A setting or a file of sign-up, by the kind of the error.
    SignUp(io::Error),
    Keys(KeyStoreError),
}

impl StartError {
    pub(in crate::server) fn bind(address: SocketAddr, error: &io::Error) -> StartError {
        StartError::Unavailable(format!(
            "cannot listen on {address}: {error}; choose another address"
        ))
    }

    /// Files of the quota counters that cannot be opened; the error has the path.
    pub(in crate::server) fn counters(error: &io::Error) -> StartError {
        StartError::Io(error.to_string())
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Unavailable(problem)
            | StartError::Setting(problem)
            | StartError::Io(problem)
            | StartError::Internal(problem) => f.write_str(problem),
            StartError::SignUp(error) => error.fmt(f),
            StartError::Keys(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Internal(format!("cannot start: {error}"))
    }
}
