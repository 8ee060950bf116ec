//! The TLS configuration of a client: the certificates that it trusts.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

use super::{certificates, fault, provider, read_pem, refused};

/// Paths of the bundle of trusted certificates in common distributions.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Describes a failed handshake of a client. `ca_flag` is the flag that names certificates to trust.
pub fn handshake_problem(error: &io::Error, ca_flag: &str) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    let problem = match cause {
        // A bad signature: another authority has the name of a trusted one.
        Some(Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => format!(
            "the certificate was issued by an authority that is not trusted; {ca_flag} names others"
        ),
        // The library's texts contain the present time; a log has a line for each new text.
        Some(Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "the certificate expired".to_owned(),
        Some(Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => "the certificate is not valid yet".to_owned(),
        _ => error.to_string(),
    };
    format!("the TLS handshake failed: {problem}")
}

/// Returns the configuration of a client that trusts the certificates of `ca_file`, or else those of
/// `$SSL_CERT_FILE` or the distribution's bundle. `ca_flag` is the flag that names `ca_file`.
pub fn client_config(ca_file: Option<&Path>, ca_flag: &str) -> Result<Arc<ClientConfig>, String> {
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
    let path = path.ok_or_else(|| {
        format!(
            "no trusted certificates were found; install ca-certificates, or name a PEM file with {ca_flag}"
        )
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&path, &read_pem(&path)?.0)? {
        // A bundle may contain certificates that the library does not support.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(fault(&path, &"none of its certificates can be used"));
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
