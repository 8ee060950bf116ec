//! Sign-up: clients issue free keys to themselves, list the keys of their address and revoke them.
//!
//! **In:** a client's IP address and a `SignupRequest`. **Out:** a `SignupResponse` or a
//! `SignupError`. An address is verified before its keys are shown: an IP address is that of the
//! connection, an e-mail address receives a link. No line of the log contains a token or a key.
//! **Independent of:** HTTP, HTML, request quotas.
//!
//! - `service`: the requests, and what the service does for each
//! - `tokens`: signed, expiring tokens in forms and links
//! - `policy`: settings, rate limits, and the rules for issuing a key
//! - `email`: the addresses to which links are mailed
//! - `mailer`: the command that sends mail
//! - `error`: rejected requests

mod email;
mod error;
mod mailer;
mod policy;
mod service;
mod tokens;

pub(crate) use error::SignupError;
pub(crate) use policy::{GcraLimiter, SignupPolicy, network_of};
pub(crate) use service::{SignupRequest, SignupResponse, SignupResult, SignupService};
#[cfg(feature = "shared-quota")]
pub(crate) use tokens::read_secret;
