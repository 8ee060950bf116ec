//! API keys: verification for the server; issuing, revoking and restoring for the publisher.
//!
//! **In:** the key file of the state directory, and the bytes that a client sends as its key. **Out:** a
//! [`KeyStatus`], or changed key records. **Independent of:** HTTP, limits, counters.
//!
//! A key has the form `<prefix>_live_<id>_<secret>`. Only a hash of the secret is stored, so a secret
//! can be shown only once, when the key is issued.
//!
//! - `token`: the text of a key
//! - `address`: the e-mail or IP address that a key is issued to
//! - `records`: the records of all keys, and the rules for changing and merging them
//! - `key_file`: their format on disk
//! - `store`: reading and changing the key file
//! - `sharing`: the exchange of keys with other servers, as the rest of a server sees it
//! - `key_table`: the keys in a server's memory

mod address;
mod key_file;
mod key_table;
mod records;
mod sharing;
mod store;
mod token;

pub use address::KeyAddress;
#[cfg(feature = "shared-quota")]
pub(crate) use key_file::{hex, parse_hex};
pub use key_table::{KeyEntry, KeyStatus, KeyTable};
pub use records::{KeyRecord, KeyRecords, KeyStoreError};
#[cfg(feature = "shared-quota")]
pub(crate) use sharing::CheckRecords;
pub use sharing::{KeySharing, SharedKeysState, SignupSecret};
pub use store::KeyStore;
pub use token::{KeyId, KeyPrefix, Malformed, NewKey, constant_time_eq};
