//! Who a key is, and what it buys.
//!
//! **In:** the state directory's key file, and what a client sends as its key. **Out:** a
//! [`Verdict`]; and, for the publisher, keys issued, revoked and restored.
//!
//! A key reads `<prefix>_live_<id>_<secret>`. Only a hash of the secret is stored, so a secret that
//! was shown once is nowhere else. **Must never know:** HTTP, limits, counters.

mod address;
mod file;
mod records;
mod ring;
mod store;
mod token;

pub use address::{KeyAddress, MalformedAddress};
pub use file::{KeyFileError, KeyFileState};
pub use records::{FREE_KEYS_MAX, KeyRecord, KeyRecords, Refusal};
pub use ring::{Grant, KeyRing, Verdict};
pub use store::{KeyStore, StoreError};
pub use token::{KeyId, KeyPrefix, MalformedId, MalformedPrefix, NewKey, is_equal};
