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
    // The error of the last poll. It is reported if the next poll finds the same files: between the
    // writes of two files, they do not belong together.
    let mut last_error = None;
    let poll = move |_| {
        let confirmed = match loader.load() {
            Ok(Some(certificate)) => {
                last_error = None;
                status.loaded();
                report(&certificate, &expiry, &status.errors.log);
                current.replace(certificate);
                None
            }
            // The same files as at the last poll.
            Ok(None) => last_error.take(),
            Err(error) => {
                let is_confirmed = last_error.as_ref() == Some(&error);
                last_error = Some(error.clone());
                is_confirmed.then_some(error)
            }
        };
        if let Some(error) = confirmed {
            status.refused(format!("{error}; the previous certificate stays in use"));
        }
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
