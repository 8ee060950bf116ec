//! Takes over a new certificate and key while serving. A pair that cannot be used is refused, and the
//! previous one stays in use.

use std::sync::Arc;

use crate::observe::Log;
use crate::server::ops::reload::{ReloadStatus, StateMetrics};
use crate::server::settings::{Settings, StartError};
use crate::sync::{AtomicI64, Ordering, PollTrigger, Replicated};
use crate::tls::{CertificateLoader, ServerCertificate};

/// Loads the certificate that the server starts with, if there is one, and starts the poller of its
/// files.
pub(crate) fn start(
    settings: &Settings,
    metrics: &StateMetrics,
    pollers: &mut Vec<PollTrigger>,
    log: &Log,
) -> Result<Option<Arc<Replicated<ServerCertificate>>>, StartError> {
    let Some((certificate, key)) = &settings.certificate else {
        return Ok(None);
    };
    let mut status = ReloadStatus::new(log, &metrics.certificate_reloads);
    let loader = CertificateLoader::new(certificate.clone(), key.clone());
    let mut loader = loader.map_err(StartError::Setting)?;
    let first = loader.load().map_err(StartError::Setting)?;
    let first = first.expect("the first call finds no earlier contents");
    let expiry = Arc::clone(&metrics.certificate_expiry);
    report(&first, &expiry, &status.errors.log);
    let certificate = Arc::new(Replicated::new(first));
    let current = Arc::clone(&certificate);
    // While the two files are being replaced, they may not match: an error is reported if two polls in a row find it.
    let mut last_error = None;
    let poll = move |_| {
        let error = match loader.load() {
            Ok(None) => {
                status.errors.reset();
                None
            }
            Ok(Some(certificate)) => {
                status.loaded();
                report(&certificate, &expiry, &status.errors.log);
                current.replace(certificate);
                None
            }
            Err(error) => Some(error),
        };
        if let Some(error) = error.as_ref().filter(|_| last_error == error) {
            status.refused(format!("{error}; the previous certificate stays in use"));
        }
        last_error = error;
    };
    pollers.push(PollTrigger::start("certificate", poll)?);
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
