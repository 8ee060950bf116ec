//! Taking in issued, revoked and restored keys while serving. A damaged file is refused and the
//! keys loaded before stay.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::calendar::Clock;
use crate::keys::{KeyFileError, KeyFileVersion, KeyPrefix, KeyStore, KeyTable};
use crate::quota::{KeyedQuota, StateError};
use crate::server::ops::dedup_log::{Once, Reloads};
use crate::server::settings::StartError;

/// Watches the keys of a state directory.
pub(crate) struct KeyReloader {
    store: KeyStore,
    prefix: KeyPrefix,
    keyed: Arc<KeyedQuota>,
    clock: Arc<Clock>,
    /// The file that was looked at last, good or bad.
    seen: Option<KeyFileVersion>,
    complaint: Once,
    spares: Spares,
}

/// Descriptors kept back, so that the key file can be opened when connections have taken all others.
struct Spares(Vec<File>);

/// A connection that is waiting may snatch one in the moment that it is free, so there are several.
const SPARES: usize = 8;

impl Spares {
    fn release_one(&mut self) {
        self.0.pop();
    }

    fn refill(&mut self) {
        while self.0.len() < SPARES
            && let Ok(file) = File::open("/dev/null")
        {
            self.0.push(file);
        }
    }
}

impl KeyReloader {
    /// Loads the keys that a server begins with.
    pub(crate) fn open(
        directory: &Path,
        prefix: KeyPrefix,
        keyed: Arc<KeyedQuota>,
        clock: Arc<Clock>,
        say: &dyn Fn(&str),
    ) -> Result<(KeyReloader, KeyTable), StartError> {
        let store = KeyStore::new(directory);
        let mut reloader = KeyReloader {
            seen: store.version().map_err(StartError::Keys)?,
            store,
            prefix,
            keyed,
            clock,
            complaint: Once::default(),
            spares: Spares(Vec::new()),
        };
        reloader.spares.refill();
        let (ring, room) = reloader.load(say).map_err(StartError::Keys)?;
        room.map_err(StartError::State)?;
        say(&loaded(&ring));
        Ok((reloader, ring))
    }

    /// The keys in the file, and whether there is room to count for all of them. Before anybody is
    /// known by a key, its counter is there; a key without one is refused.
    fn load(&self, say: &dyn Fn(&str)) -> Result<(KeyTable, Result<(), StateError>), KeyFileError> {
        let records = self.store.read()?;
        let today = self.clock.now().day;
        let room = self.keyed.reserve(records.numbers_end(), today, say);
        Ok((KeyTable::new(self.prefix.clone(), &records), room))
    }

    /// The keys as they are now, if they have changed. `say` is told of complaints.
    pub(crate) fn poll(&mut self, reloads: &Reloads, say: &dyn Fn(&str)) -> Option<KeyTable> {
        self.spares.release_one();
        let ring = self.look(reloads, say);
        self.spares.refill();
        ring
    }

    fn look(&mut self, reloads: &Reloads, say: &dyn Fn(&str)) -> Option<KeyTable> {
        let refuse = |is_new: bool| reloads.refused.add(u64::from(is_new));
        let state = match self.store.version() {
            Ok(state) => state,
            Err(error) => {
                let text = format!("{error}; the keys loaded before stay");
                refuse(self.complaint.say(say, text));
                return None;
            }
        };
        if state == self.seen {
            return None;
        }
        if state.is_none() {
            let path = self.store.path();
            let text = format!("{} is gone; the keys loaded before stay", path.display());
            refuse(self.complaint.say(say, text));
            return None;
        }
        let error = match self.load(say) {
            Ok((ring, room)) => {
                match room {
                    Ok(()) => {
                        say(&loaded(&ring));
                        reloads.taken.add(1);
                        self.complaint = Once::default();
                        self.seen = state;
                    }
                    // Tried again until there is.
                    Err(error) => {
                        let text = format!("{error}; the newest keys are refused");
                        refuse(self.complaint.say(say, text));
                    }
                }
                return Some(ring);
            }
            Err(error) => error,
        };
        // A damaged file is looked at once; it cannot heal but by another change.
        if matches!(error, KeyFileError::Damaged { .. }) {
            self.seen = state;
        }
        let text = format!("{error}; the keys loaded before stay");
        refuse(self.complaint.say(say, text));
        None
    }
}

fn loaded(ring: &KeyTable) -> String {
    match ring.len() {
        1 => "1 key loaded".to_owned(),
        count => format!("{count} keys loaded"),
    }
}
