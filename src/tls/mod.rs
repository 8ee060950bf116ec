//! TLS settings shared by everything that speaks TLS: one cryptography provider, one set of errors.
//!
//! In: PEM files. Out: rustls configurations. The provider is aws-lc-rs, rustls' default.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

/// Paths of the bundle of trusted certificates in common distributions.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Settings of TLS that cannot work.
#[derive(Debug)]
pub enum TlsError {
    /// No bundle of trusted certificates was found.
    NoBundle,
    /// A file could not be read as PEM.
    Pem {
        /// The file.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// The library refused the settings.
    Refused(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::NoBundle => f.write_str(
                "no trusted certificates were found; install ca-certificates, or name a PEM file with --ca-file",
            ),
            TlsError::Pem { path, problem } => write!(f, "{}: {problem}", path.display()),
            TlsError::Refused(error) => write!(f, "the TLS settings were refused: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Returns the configuration of a client that trusts the certificates of `ca_file`, or else those of
/// `$SSL_CERT_FILE` or the distribution's bundle.
pub fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let from_environment = || {
        env::var_os("SSL_CERT_FILE")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    };
    let of_distribution = || BUNDLES.iter().map(PathBuf::from).find(|path| path.exists());
    let path = ca_file
        .map(Path::to_owned)
        .or_else(from_environment)
        .or_else(of_distribution);
    let path = path.ok_or(TlsError::NoBundle)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&path)? {
        // A bundle may contain certificates that the library does not support.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        let problem = "the file must contain at least one certificate in PEM, got none".to_owned();
        return Err(TlsError::Pem { path, problem });
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Refused)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Reads all certificates of a PEM file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error = |error: rustls::pki_types::pem::Error| TlsError::Pem {
        path: path.to_owned(),
        problem: format!("cannot read certificates: {error}"),
    };
    let found = CertificateDer::pem_file_iter(path).map_err(error)?;
    found.collect::<Result<_, _>>().map_err(error)
}
