//! TLS settings shared by everything that speaks TLS: one cryptography provider, one set of errors.
//!
//! In: PEM files. Out: rustls configurations of clients and of the server. The provider is aws-lc-rs,
//! rustls' default.
//!
//! - `client`: the certificates that a client trusts
//! - `server`: the server's certificate and key
//! - `error`: settings that cannot work

#[cfg(any(feature = "collect", feature = "shared-quota"))]
mod client;
mod error;
#[cfg(feature = "tls")]
mod server;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

#[cfg(any(feature = "collect", feature = "shared-quota"))]
pub use client::{client_config, handshake_problem};
pub use error::TlsError;
#[cfg(feature = "tls")]
pub use server::{CertificateLoader, ServerCertificate};

use crate::regular_file;

/// Longer files are refused. The bundles of distributions have a quarter of a megabyte.
const FILE_BYTES_MAX: u64 = 4 << 20;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Opens a regular file. Opening does not wait for the other end of a pipe.
fn open(path: &Path) -> Result<File, TlsError> {
    match regular_file::open(path) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(TlsError::pem(path, "there is no such file".to_owned())),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Reads the text of a PEM file that is open.
fn read_pem(path: &Path, file: File) -> Result<Vec<u8>, TlsError> {
    let mut text = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text);
    read.map_err(|error| unreadable(path, &error))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let problem = format!("the file must have at most {FILE_BYTES_MAX} bytes");
        return Err(TlsError::pem(path, problem));
    }
    Ok(text)
}

fn unreadable(path: &Path, error: &std::io::Error) -> TlsError {
    TlsError::pem(path, format!("cannot read it: {error}"))
}

/// Returns all certificates of a PEM file, at least one.
fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| TlsError::pem(path, format!("it is not PEM: {error}")))?;
    if found.is_empty() {
        let problem = "the file must contain a certificate in PEM, got none".to_owned();
        return Err(TlsError::pem(path, problem));
    }
    Ok(found)
}
