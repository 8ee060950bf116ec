//! [`KeySharing`]: the exchange of keys with other servers, as the rest of a server sees it.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::records::{KeyRecord, KeyRecords};
use crate::durable;
use crate::regular_file::with_path;
use crate::sync::{Mutex, PollTrigger};

/// The secret that signs tokens of sign-up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SignupSecret(pub [u8; SignupSecret::BYTES]);

impl SignupSecret {
    /// Name of its file in the state directory.
    pub const FILE: &str = "signup.secret";
    /// The output length of the hash: HMAC would hash a longer secret down to it.
    pub const BYTES: usize = 32;

    pub fn random() -> SignupSecret {
        let mut secret = [0; SignupSecret::BYTES];
        // The kernel's generator does not fail once the system has booted.
        getrandom::fill(&mut secret).expect("the system gives random numbers");
        SignupSecret(secret)
    }

    /// Stores the secret in a state directory. The error has the path.
    pub fn store(&self, directory: &Path) -> io::Result<()> {
        let path = directory.join(SignupSecret::FILE);
        durable::replace_private(&path, &self.0).map_err(with_path(&path))
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for SignupSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignupSecret(***)")
    }
}

/// The state of the keys that a server shares.
#[derive(Clone, Copy, Debug)]
pub struct SharedKeysState {
    /// The last exchange with the store succeeded.
    pub is_up: bool,
    /// An exchange since the start has left this server with keys, or other servers have had time to put theirs into the
    /// store.
    pub has_exchanged: bool,
    /// Time of the last exchange that succeeded; before the first one, the time of the start.
    pub exchanged: Instant,
    /// The secret of all servers; `None` if this server has none and has not got one from the store.
    pub secret: Option<SignupSecret>,
}

/// Returns `true` if a key may be added to the records.
pub(crate) type CheckRecords<'a> = &'a mut dyn FnMut(&KeyRecords) -> bool;

/// Adds a key to the store and the known keys if the check accepts the records of all servers, which no server changes in
/// between. Returns `false` if the check refused it, it was too late, or the store cannot be reached. In the last case,
/// the store may have the key. Waits for an exchange with the store; must not be called with a lock of the keys, which
/// the exchange uses too.
type AddKey = Arc<dyn Fn(&KeyRecord, CheckRecords<'_>) -> bool + Send + Sync>;

/// The exchange of keys with the store. It ends when all clones are dropped.
#[derive(Clone)]
pub struct KeySharing {
    /// The result of the last exchange.
    pub state: Arc<Mutex<SharedKeysState>>,
    pub(crate) add: AddKey,
    /// The thread that exchanges keys.
    pub(crate) exchange: PollTrigger,
}

impl fmt::Debug for KeySharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeySharing").field(&self.state).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_stored_and_not_shown() {
        let name = format!("im-secret-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        durable::create_private_directory(&directory).unwrap();
        let secret = SignupSecret::random();
        secret.store(&directory).unwrap();
        let stored = std::fs::read(directory.join(SignupSecret::FILE)).unwrap();
        assert_eq!(stored, secret.0);
        assert_eq!(format!("{secret:?}"), "SignupSecret(***)");
        std::fs::remove_dir_all(&directory).unwrap();
        let error = secret.store(&directory).unwrap_err().to_string();
        assert!(error.contains(SignupSecret::FILE), "{error}");
    }
}
