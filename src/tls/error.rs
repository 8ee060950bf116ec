//! Errors of TLS settings.

use std::fmt;
use std::path::{Path, PathBuf};

use tokio_rustls::rustls;

/// Settings of TLS that cannot work.
#[derive(Debug)]
pub enum TlsError {
    /// No bundle of trusted certificates was found.
    NoBundle {
        /// The flag that names one.
        ca_flag: &'static str,
    },
    /// A file cannot be used.
    Pem {
        /// The file.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// The certificate and the private key do not belong together.
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The library refused the settings.
    Refused(rustls::Error),
}

impl TlsError {
    pub(super) fn pem(path: &Path, problem: String) -> TlsError {
        TlsError::Pem {
            path: path.to_owned(),
            problem,
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::NoBundle { ca_flag } => write!(
                f,
                "no trusted certificates were found; install ca-certificates, or name a PEM file with {ca_flag}"
            ),
            TlsError::Pem { path, problem } => write!(f, "{}: {problem}", path.display()),
            TlsError::Mismatch { certificate, key } => write!(
                f,
                "{}: the private key does not belong to the certificate in {}",
                key.display(),
                certificate.display()
            ),
            TlsError::Refused(error) => write!(f, "the TLS settings were refused: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}
