//! API keys: verification for the server; issuing, revoking and restoring for the publisher.
//!
//! **In:** the key file of the state directory, and the bytes that a client sends as its key. **Out:** a
//! [`KeyStatus`], or changed key records.
//!
//! A key has the form `<prefix>_live_<id>_<secret>`. Only a hash of the secret is stored, so a secret
//! can be shown only once, when the key is issued. **Independent of:** HTTP, limits, counters.

mod address;
mod key_file;
mod key_table;
mod records;
mod store;
mod token;

pub use address::{KeyAddress, MalformedAddress};
pub use key_file::{KeyFileError, KeyFileVersion};
pub use key_table::{KeyEntry, KeyStatus, KeyTable};
pub use records::{FREE_KEYS_MAX, KeyChangeError, KeyRecord, KeyRecords};
pub use store::{KeyStore, KeyStoreError};
pub use token::{KeyId, KeyPrefix, MalformedId, MalformedPrefix, NewKey, constant_time_eq};
