//! The server's certificate and key, read from two PEM files that others replace at any time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::aws_lc_rs::Ticketer;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::server::ProducesTickets;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig, SignatureAlgorithm};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::time::Time;

use super::{certificates, fault, provider, read_pem, refused};
use crate::calendar::UnixSeconds;
use crate::regular_file::forbidden_mode;

#[derive(Debug)]
pub struct ServerCertificate {
    pub config: Arc<ServerConfig>,
    /// The last second in which the certificate is valid.
    pub expires: UnixSeconds,
    /// Lines for the log about a certificate that can be used.
    pub warnings: Vec<String>,
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
    /// The contents that were read last, if they can be used.
    contents: Option<[Vec<u8>; 2]>,
}

impl CertificateLoader {
    pub fn new(certificate: PathBuf, key: PathBuf) -> Result<CertificateLoader, String> {
        Ok(CertificateLoader {
            certificate,
            key,
            tickets: Ticketer::new().map_err(|error| refused(&error))?,
            contents: None,
        })
    }

    /// Reads both files. Returns `None` if their contents are those of the last call, which can be used: comparing a few
    /// kilobytes costs less than rules about times of files and links that are replaced.
    pub fn load(&mut self) -> Result<Option<ServerCertificate>, String> {
        let (certificate, _) = read_pem(&self.certificate)?;
        let (key, metadata) = read_pem(&self.key)?;
        // Users outside of the file's group may not read it.
        if let Some(mode) = forbidden_mode(&metadata, 0o007) {
            let problem = format!(
                "the mode of a private key must be 640 or less, got {mode:o}: every user of this machine \
                 can use it; if others may have read it, replace key and certificate"
            );
            return Err(fault(&self.key, &problem));
        }
        let contents = [certificate, key];
        if self.contents.as_ref() == Some(&contents) {
            return Ok(None);
        }
        self.contents = None;
        let loaded = self.server_certificate(&contents)?;
        self.contents = Some(contents);
        Ok(Some(loaded))
    }

    fn server_certificate(&self, [chain, key]: &[Vec<u8>; 2]) -> Result<ServerCertificate, String> {
        let chain = certificates(&self.certificate, chain)?;
        let key = private_key(&self.key, key)?;
        let provider = provider();
        let unusable = |error: &dyn std::fmt::Display| {
            let problem = format!("the certificate is malformed: {error}");
            fault(&self.certificate, &problem)
        };
        let leaf = Certificate::from_der(&chain[0]).map_err(|error| unusable(&error))?;
        let leaf = leaf.tbs_certificate();
        let lacks_chain = chain.len() == 1 && leaf.issuer() != leaf.subject();
        let signing_key = provider.key_provider.load_private_key(key);
        let signing_key = signing_key.map_err(|error| {
            let problem = format!("the private key cannot be used: {error}");
            fault(&self.key, &problem)
        })?;
        let is_rsa = signing_key.algorithm() == SignatureAlgorithm::RSA;
        let certified = CertifiedKey::new(chain, signing_key);
        certified.keys_match().map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let certificate = self.certificate.display();
                let problem =
                    format!("the private key does not belong to the certificate in {certificate}");
                fault(&self.key, &problem)
            }
            other => unusable(&other),
        })?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(&error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.ticketer = Arc::clone(&self.tickets);
        // A client opens few connections; each further ticket would cost bytes in every handshake.
        config.send_tls13_tickets = 1;
        let validity = leaf.validity();
        let (valid_from, expires) = (seconds(validity.not_before), seconds(validity.not_after));
        let now = UnixSeconds::now();
        let warnings = [
            (now > expires, format!("the TLS certificate expired at {expires}")),
            (now < valid_from, format!("the TLS certificate is not valid before {valid_from}")),
            (
                lacks_chain,
                "the file of the TLS certificate has no intermediate certificate; \
                 many clients will not trust it"
                    .to_owned(),
            ),
            (
                is_rsa,
                "the TLS key is an RSA key; a handshake with an ECDSA key takes a sixth of the CPU time"
                    .to_owned(),
            ),
        ];
        let warnings = warnings.into_iter().filter(|(applies, _)| *applies);
        Ok(ServerCertificate {
            config: Arc::new(config),
            expires,
            warnings: warnings.map(|(_, text)| text).collect(),
        })
    }
}

fn seconds(time: Time) -> UnixSeconds {
    let seconds = time.to_unix_duration().as_secs();
    UnixSeconds(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn private_key(path: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
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
        fault(path, &problem)
    })
}
