//! The server's certificate and key, read from two PEM files that others replace at any time.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::aws_lc_rs::Ticketer;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::ProducesTickets;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig, SignatureAlgorithm};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use super::{TlsError, certificates, open, provider, read_pem, unreadable};
use crate::calendar::UnixSeconds;

/// A certificate in use.
#[derive(Debug)]
pub struct ServerCertificate {
    /// The configuration that handshakes use.
    pub config: Arc<ServerConfig>,
    /// The first second in which the certificate is valid.
    pub valid_from: UnixSeconds,
    /// The last second in which the certificate is valid.
    pub expires: UnixSeconds,
    /// Whether the key is an RSA key, with which a handshake takes six times as long as with ECDSA.
    pub is_rsa: bool,
    /// Whether the file has one certificate only and another one has issued it. Many clients trust
    /// such a certificate only together with the missing ones.
    pub lacks_chain: bool,
}

/// Reads the two files whenever they have changed.
#[derive(Debug)]
pub struct CertificateLoader {
    /// The server's certificate first, then the intermediate ones.
    certificate: PathBuf,
    /// The private key: PKCS #8, SEC1 or PKCS #1, not encrypted.
    key: PathBuf,
    /// Encrypts the session tickets of all configurations, so that sessions survive a new certificate.
    tickets: Arc<dyn ProducesTickets>,
    /// The contents that were read last, usable or not.
    contents: Option<[Vec<u8>; 2]>,
}

impl CertificateLoader {
    /// Creates a loader, which has read nothing yet.
    pub fn new(certificate: PathBuf, key: PathBuf) -> Result<CertificateLoader, TlsError> {
        Ok(CertificateLoader {
            certificate,
            key,
            tickets: Ticketer::new().map_err(TlsError::Refused)?,
            contents: None,
        })
    }

    /// Reads both files. Returns `None` if their contents are those of the last call: comparing a few
    /// kilobytes costs less than rules about times of files and links that are replaced.
    pub fn load(&mut self) -> Result<Option<ServerCertificate>, TlsError> {
        let (certificate, key) = (open(&self.certificate)?, open(&self.key)?);
        check_mode(&self.key, &key)?;
        let contents = [
            read_pem(&self.certificate, certificate)?,
            read_pem(&self.key, key)?,
        ];
        if self.contents.as_ref() == Some(&contents) {
            return Ok(None);
        }
        let [chain, private] = self.contents.insert(contents);
        let chain = certificates(&self.certificate, chain)?;
        let key_der = private_key(&self.key, private)?;
        self.server_certificate(chain, key_der).map(Some)
    }

    fn server_certificate(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<ServerCertificate, TlsError> {
        let provider = provider();
        let unusable = |error: &dyn std::fmt::Display| {
            TlsError::pem(
                &self.certificate,
                format!("the certificate is malformed: {error}"),
            )
        };
        let leaf = Certificate::from_der(&chain[0]).map_err(|error| unusable(&error))?;
        let leaf = leaf.tbs_certificate();
        let lacks_chain = chain.len() == 1 && leaf.issuer() != leaf.subject();
        let signing_key = provider.key_provider.load_private_key(key);
        let signing_key = signing_key.map_err(|error| {
            TlsError::pem(
                &self.key,
                format!("the private key cannot be used: {error}"),
            )
        })?;
        let is_rsa = signing_key.algorithm() == SignatureAlgorithm::RSA;
        let certified = CertifiedKey::new(chain, signing_key);
        certified.keys_match().map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
            },
            other => unusable(&other),
        })?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Refused)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.ticketer = Arc::clone(&self.tickets);
        // A client opens few connections; each further ticket would cost bytes in every handshake.
        config.send_tls13_tickets = 1;
        let seconds = |time: x509_cert::time::Time| {
            let seconds = time.to_unix_duration().as_secs();
            UnixSeconds(i64::try_from(seconds).unwrap_or(i64::MAX))
        };
        let validity = leaf.validity();
        Ok(ServerCertificate {
            config: Arc::new(config),
            valid_from: seconds(validity.not_before),
            expires: seconds(validity.not_after),
            is_rsa,
            lacks_chain,
        })
    }
}

impl ServerCertificate {
    /// Returns warnings about a certificate that can be used, for the log.
    pub fn warnings(&self, now: UnixSeconds) -> Vec<String> {
        let mut warnings = Vec::new();
        if now > self.expires {
            let line = format!("the TLS certificate expired at {}", self.expires);
            warnings.push(line);
        } else if now < self.valid_from {
            let line = format!(
                "the TLS certificate is not valid before {}",
                self.valid_from
            );
            warnings.push(line);
        }
        if self.lacks_chain {
            warnings.push(
                "the file of the TLS certificate has no intermediate certificate; \
                 many clients will not trust it"
                    .to_owned(),
            );
        }
        if self.is_rsa {
            warnings.push(
                "the TLS key is an RSA key; a handshake with an ECDSA key takes a sixth of the CPU time"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// Refuses a key that users outside of the file's group may read.
fn check_mode(path: &Path, key: &File) -> Result<(), TlsError> {
    let metadata = key.metadata().map_err(|error| unreadable(path, &error))?;
    let mode = metadata.permissions().mode() & 0o777;
    let by_others = mode & 0o007;
    if by_others == 0 {
        return Ok(());
    }
    let problem = format!(
        "the mode of a private key must be 640 or less, got {mode:o}: every user of this machine can \
         use it; if others may have read it, replace key and certificate"
    );
    Err(TlsError::pem(path, problem))
}

fn private_key(path: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| {
        // PKCS #8 names it in the label, the older formats in a header.
        let is_encrypted = text.windows(9).any(|word| word == b"ENCRYPTED");
        let problem = match error {
            _ if is_encrypted => {
                "the private key is encrypted; decrypt it with `openssl pkey -in FILE -out FILE`"
                    .to_owned()
            }
            pem::Error::NoItemsFound => {
                "the file must contain a private key in PEM, got none".to_owned()
            }
            error => format!("it is not PEM: {error}"),
        };
        TlsError::pem(path, problem)
    })
}
