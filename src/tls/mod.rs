//! TLS settings of the server and of all clients: one cryptography provider.
//!
//! In: PEM files. Out: rustls configurations of clients and of the server. The provider is aws-lc-rs,
//! rustls' default. Errors are texts that name the file.
//!
//! - `client`: the certificates that a client trusts
//! - `server`: the server's certificate and key

#[cfg(any(feature = "collect", feature = "shared-quota"))]
mod client;
#[cfg(feature = "tls")]
mod server;

use std::fmt::Display;
use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::Error;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

#[cfg(any(feature = "collect", feature = "shared-quota"))]
pub use client::{client_config, handshake_problem};
#[cfg(feature = "tls")]
pub use server::{CertificateLoader, ServerCertificate};

use crate::regular_file;

/// Longer files are refused. The bundles of distributions have a quarter of a megabyte.
const FILE_BYTES_MAX: u64 = 4 << 20;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Describes settings that the library refuses.
fn refused(error: &Error) -> String {
    format!("the TLS settings were refused: {error}")
}

fn fault(path: &Path, problem: &dyn Display) -> String {
    format!("{}: {problem}", path.display())
}

/// Reads the text of a PEM file. Opening does not wait for the other end of a pipe.
fn read_pem(path: &Path) -> Result<(Vec<u8>, Metadata), String> {
    let read = regular_file::read(path, FILE_BYTES_MAX + 1);
    let read = read.map_err(|error| fault(path, &format_args!("cannot read it: {error}")))?;
    let (text, metadata) = read.ok_or_else(|| fault(path, &"there is no such file"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let problem = format!("the file must have at most {FILE_BYTES_MAX} bytes");
        return Err(fault(path, &problem));
    }
    Ok((text, metadata))
}

/// Returns all certificates of a PEM file, at least one.
fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| fault(path, &format_args!("it is not PEM: {error}")))?;
    if found.is_empty() {
        let problem = "the file must contain a certificate in PEM, got none";
        return Err(fault(path, &problem));
    }
    Ok(found)
}
