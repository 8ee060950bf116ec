//! Signed tokens with an expiry, which forms and links carry, and the secret that signs them.
//!
//! `<expires>.<number>.<mac>.<address>`: two numbers in hexadecimal, 128 bits of HMAC-SHA-256 over the
//! purpose and the other fields as written, and the address percent-encoded with `~` in place of `%`:
//! the text is the same in a form, in a link and in a line of mail, however often it is decoded.

use std::io;
use std::path::Path;

use bitcoin_hashes::{Hash, HashEngine, HmacEngine, sha256};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::error::SignupError;
use crate::calendar::UnixSeconds;
use crate::durable;
use crate::keys::{KeyAddress, SignupSecret, constant_time_eq};
use crate::regular_file::{self, forbidden_mode, with_path};

/// Long enough for mail delayed by greylisting, short enough for a screen left open.
const LIFETIME_SECONDS: i64 = 3600;
/// 128 bits cannot be guessed, and keep links short.
const MAC_BYTES: usize = 16;
pub(super) const MAC_CHARS: usize = 2 * MAC_BYTES;
/// The longest token has an address of 254 bytes, each percent-encoded.
const TOKEN_CHARS_MAX: usize = 16 + 8 + MAC_CHARS + 3 * 254 + 3;

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// The purpose of a token. A token is not valid for another purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenPurpose {
    /// Proves that a form came from the service's own page, opened by the client of this address.
    Form,
    /// Authorizes its bearer to manage the keys of the address.
    AddressHolder,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignedToken {
    pub(super) address: KeyAddress,
    /// Keys ever issued to the address when the token was signed. Once another is issued, the token
    /// issues no key.
    pub(super) number: u32,
    pub(super) expires: UnixSeconds,
}

impl SignedToken {
    pub(super) fn sign(&self, purpose: TokenPurpose, secret: &SignupSecret) -> String {
        let expires = format!("{:x}", self.expires.0.cast_unsigned());
        let number = format!("{:x}", self.number);
        let address = utf8_percent_encode(self.address.as_str(), ENCODED).to_string();
        let address = address.replace('%', "~");
        let mac = mac(purpose, secret, [&expires, &number, &address]);
        format!("{expires}.{number}.{mac}.{address}")
    }

    /// Parses a token, and checks its signature, purpose and expiry.
    pub(super) fn verify(
        text: &str,
        purpose: TokenPurpose,
        secret: &SignupSecret,
        now: UnixSeconds,
    ) -> Result<SignedToken, SignupError> {
        let token = SignedToken::parse(text, purpose, secret).ok_or(SignupError::InvalidToken)?;
        let left = token.expires.0.saturating_sub(now.0);
        // A token that is valid for much longer was signed while the clock was ahead.
        let is_current = (1..=2 * LIFETIME_SECONDS).contains(&left);
        is_current.then_some(token).ok_or(SignupError::ExpiredToken)
    }

    fn parse(text: &str, purpose: TokenPurpose, secret: &SignupSecret) -> Option<SignedToken> {
        if text.len() > TOKEN_CHARS_MAX {
            return None;
        }
        let fields: Vec<&str> = text.splitn(4, '.').collect();
        let [expires, number, found, address] = fields[..].try_into().ok()?;
        let expected = mac(purpose, secret, [expires, number, address]);
        if !constant_time_eq(found.as_bytes(), expected.as_bytes()) {
            return None;
        }
        // The text is as it was signed, so that the rest cannot fail.
        let address = address.replace('~', "%");
        let decoded = percent_decode_str(&address).decode_utf8().ok()?;
        Some(SignedToken {
            address: decoded.parse().ok()?,
            number: u32::from_str_radix(number, 16).ok()?,
            expires: UnixSeconds(u64::from_str_radix(expires, 16).ok()?.cast_signed()),
        })
    }
}

/// Returns the expiry of a token that is signed now.
pub(super) fn expiry(now: UnixSeconds) -> UnixSeconds {
    UnixSeconds(now.0 + LIFETIME_SECONDS)
}

/// Only the last field can contain a dot, so that different tokens have different texts.
fn mac(
    purpose: TokenPurpose,
    secret: &SignupSecret,
    [expires, number, address]: [&str; 3],
) -> String {
    // Never changed: mailed links would become invalid.
    let purpose = match purpose {
        TokenPurpose::Form => "Form",
        TokenPurpose::AddressHolder => "Holder",
    };
    let signed = format!("signup {purpose} {expires}.{number}.{address}");
    let mut mac = HmacEngine::<sha256::HashEngine>::new(&secret.0);
    mac.input(signed.as_bytes());
    let mac = mac.finalize().to_byte_array();
    let digits = mac[..MAC_BYTES].iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// Reads the secret of a state directory, or creates one. It is stored so that links stay valid after
/// a restart.
pub(super) fn read_or_create_secret(directory: &Path) -> io::Result<SignupSecret> {
    // Processes that start concurrently get the same secret.
    let _lock = durable::lock_state(directory).map_err(with_path(directory))?;
    if let Some(secret) = read_secret(directory)? {
        return Ok(secret);
    }
    let secret = SignupSecret::random();
    secret.store(directory)?;
    Ok(secret)
}

/// Reads the secret of a state directory; `None` if it has none. Errors have the path; that of a mode is
/// `InvalidInput`, that of contents `InvalidData`.
pub(crate) fn read_secret(directory: &Path) -> io::Result<Option<SignupSecret>> {
    let path = directory.join(SignupSecret::FILE);
    let failed = with_path(&path);
    let read = regular_file::read(&path, SignupSecret::BYTES as u64 + 1).map_err(&failed)?;
    let Some((secret, metadata)) = read else {
        return Ok(None);
    };
    let refused = |kind, problem| failed(io::Error::new(kind, problem));
    if let Some(mode) = forbidden_mode(&metadata, 0o077) {
        let problem = format!(
            "the file's mode must be 600, got {mode:o}: anyone who can read it can act for every \
             address; if others may have read it, remove it to create a new one, with --shared-keys \
             from all servers and the store"
        );
        return Err(refused(io::ErrorKind::InvalidInput, problem));
    }
    let secret = secret.try_into().map(|secret| Some(SignupSecret(secret)));
    secret.map_err(|_| {
        let (expected, bytes) = (SignupSecret::BYTES, metadata.len());
        let problem = format!(
            "the file must have {expected} bytes, got {bytes}; remove it to create a new \
             one, which invalidates links that were mailed"
        );
        refused(io::ErrorKind::InvalidData, problem)
    })
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
