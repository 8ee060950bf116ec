//! Taking in issued, revoked and restored keys while serving. A damaged file is refused and the
//! keys loaded before stay.

use std::path::Path;
use std::sync::Arc;

use super::once::Once;
use crate::calendar::Clock;
use crate::keys::{KeyFileError, KeyFileState, KeyPrefix, KeyRing, KeyStore};
use crate::quota::{KeyedQuota, StateError};

/// Watches the keys of a state directory.
pub(crate) struct KeyReloader {
    store: KeyStore,
    prefix: KeyPrefix,
    keyed: Arc<KeyedQuota>,
    clock: Arc<Clock>,
    /// The file that was looked at last, good or bad.
    seen: Option<KeyFileState>,
    complaint: Once,
}

/// Why the keys of a directory could not be loaded at the start.
pub(crate) enum KeysError {
    File(KeyFileError),
    State(StateError),
}

impl KeyReloader {
    /// Loads the keys that a server begins with.
    pub(crate) fn open(
        directory: &Path,
        prefix: KeyPrefix,
        keyed: Arc<KeyedQuota>,
        clock: Arc<Clock>,
        say: &dyn Fn(&str),
    ) -> Result<(KeyReloader, KeyRing), KeysError> {
        let store = KeyStore::new(directory);
        let mut reloader = KeyReloader {
            seen: store.state().map_err(KeysError::File)?,
            store,
            prefix,
            keyed,
            clock,
            complaint: Once::default(),
        };
        let ring = reloader.load(say)?;
        say(&loaded(&ring));
        Ok((reloader, ring))
    }

    fn load(&mut self, say: &dyn Fn(&str)) -> Result<KeyRing, KeysError> {
        let records = self.store.read().map_err(KeysError::File)?;
        let today = self.clock.now().day;
        // Before anybody is known by a key, its counter is there.
        self.keyed
            .make_room(records.numbers_end(), today, say)
            .map_err(KeysError::State)?;
        Ok(KeyRing::new(self.prefix.clone(), &records))
    }

    /// The keys as they are now, if they have changed. `say` is told of complaints.
    pub(crate) fn poll(&mut self, say: &dyn Fn(&str)) -> Option<KeyRing> {
        let state = match self.store.state() {
            Ok(state) => state,
            Err(error) => {
                self.complaint
                    .say(say, format!("{error}; the keys loaded before stay"));
                return None;
            }
        };
        if state == self.seen {
            return None;
        }
        if state.is_none() {
            let path = self.store.path();
            let text = format!("{} is gone; the keys loaded before stay", path.display());
            self.complaint.say(say, text);
            return None;
        }
        let error = match self.load(say) {
            Ok(ring) => {
                say(&loaded(&ring));
                self.complaint = Once::default();
                self.seen = state;
                return Some(ring);
            }
            Err(KeysError::File(error)) => {
                // Looked at once; it cannot heal but by another change.
                if matches!(error, KeyFileError::Damaged { .. }) {
                    self.seen = state;
                }
                error.to_string()
            }
            Err(KeysError::State(error)) => error.to_string(),
        };
        self.complaint
            .say(say, format!("{error}; the keys loaded before stay"));
        None
    }
}

fn loaded(ring: &KeyRing) -> String {
    match ring.len() {
        1 => "1 key loaded".to_owned(),
        count => format!("{count} keys loaded"),
    }
}
