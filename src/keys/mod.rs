//! Who a key is, and what it buys.
//!
//! **In:** the state directory's key file, and what a client sends as its key. **Out:** a
//! [`KeyStatus`]; and, for the publisher, keys issued, revoked and restored.
//!
//! A key reads `<prefix>_live_<id>_<secret>`. Only a hash of the secret is stored, so a secret that
//! was shown once is nowhere else. **Must never know:** HTTP, limits, counters.

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
