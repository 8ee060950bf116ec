//! [`CertificateReloader`]: takes over a new certificate and key while serving. A pair that cannot be
//! used is refused, and the previous one stays in use.

use std::sync::Arc;

use crate::observe::Log;
use crate::server::ops::reload::{ReloadStatus, StateMetrics};
use crate::server::settings::{Settings, StartError};
use crate::sync::{ArcSwap, AtomicI64, Ordering, PollTrigger};
use crate::tls::{CertificateLoader, ServerCertificate};

struct CertificateReloader {
    loader: CertificateLoader,
    certificate: Arc<ArcSwap<ServerCertificate>>,
    expiry: Arc<AtomicI64>,
    /// The error of the last poll. It is reported if the next poll finds the same files: between the
    /// writes of two files, they do not belong together.
    error: Option<String>,
    status: ReloadStatus,
}

/// Loads the certificate that the server starts with, if there is one, and starts the poller of its
/// files.
pub(crate) fn start(
    settings: &Settings,
    metrics: &StateMetrics,
    pollers: &mut Vec<PollTrigger>,
    log: &Log,
) -> Result<Option<Arc<ArcSwap<ServerCertificate>>>, StartError> {
    let Some((certificate, key)) = &settings.certificate else {
        return Ok(None);
    };
    let status = ReloadStatus::new(log, &metrics.certificate_reloads);
    let loader = CertificateLoader::new(certificate.clone(), key.clone());
    let mut loader = loader.map_err(StartError::Setting)?;
    let first = loader.load().map_err(StartError::Setting)?;
    let first = first.expect("the first call finds no earlier contents");
    let expiry = Arc::clone(&metrics.certificate_expiry);
    report(&first, &expiry, &status.log);
    let certificate = Arc::new(ArcSwap::new(first));
    let mut reloader = CertificateReloader {
        loader,
        certificate: Arc::clone(&certificate),
        expiry,
        error: None,
        status,
    };
    pollers.push(PollTrigger::start("certificate", move || reloader.poll())?);
    Ok(Some(certificate))
}

/// Reports a certificate that is used from now on.
fn report(certificate: &ServerCertificate, expiry: &AtomicI64, log: &Log) {
    let expires = certificate.expires;
    expiry.store(expires.0, Ordering::Relaxed);
    log.write(&format!("TLS certificate loaded, valid until {expires}"));
    for line in &certificate.warnings {
        log.write(line);
    }
}

impl CertificateReloader {
    fn poll(&mut self) {
        match self.loader.load() {
            Ok(Some(certificate)) => {
                self.error = None;
                self.status.loaded();
                report(&certificate, &self.expiry, &self.status.log);
                self.certificate.swap(certificate);
            }
            // The same files as at the last poll.
            Ok(None) => {
                if let Some(error) = self.error.take() {
                    self.refuse(&error);
                }
            }
            Err(error) => {
                if self.error.as_ref() == Some(&error) {
                    self.refuse(&error);
                }
                self.error = Some(error);
            }
        }
    }

    fn refuse(&mut self, error: &str) {
        let line = format!("{error}; the previous certificate stays in use");
        self.status.refused(line);
    }
}
