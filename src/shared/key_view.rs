//! [`KeyView`]: the keys that the store is known to have, compared with those of this server. It decides
//! what is exchanged, and knows nothing of connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::calendar::UnixSeconds;
use crate::keys::{KeyId, KeyRecord, KeyRecords};

/// Most records in one call, in each direction.
pub(super) const PAGE: usize = 256;
/// Between two repairs of a record. Two servers with different keys of one id would otherwise write their
/// records in turns all the time.
const REPAIR_PAUSE: Duration = Duration::from_mins(1);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) generation: String,
    /// Highest number of a change.
    pub(super) number: u64,
    /// Number up to which the changes are in `records`.
    pub(super) seen: u64,
    /// A key was not added, since its address has the most active ones.
    pub(super) is_refused: bool,
    /// Ids and lines. A line is empty if the store has no valid one.
    pub(super) records: Vec<(String, Vec<u8>)>,
}

/// The store as this server knows it.
#[derive(Debug, Default)]
pub(super) struct KeyView {
    /// Another one means that the store has lost keys. Empty after a connection was opened: the store may
    /// have lost keys meanwhile that this server knows it had.
    pub(super) generation: String,
    /// Highest number of a change.
    pub(super) number: u64,
    /// All changes up to this number have been received.
    pub(super) seen: u64,
    /// The states of the keys in the store.
    states: HashMap<KeyId, (UnixSeconds, Option<UnixSeconds>)>,
    /// Ids of records that cannot be read.
    unreadable: Vec<String>,
    /// Records that have been received and not yet merged.
    pub(super) received: Vec<KeyRecord>,
    own: Arc<KeyRecords>,
    /// Indexes of own records that the store lacks.
    missing: Vec<usize>,
    /// The store is known to have all own records.
    is_complete: bool,
    repaired: HashMap<KeyId, Instant>,
}

impl KeyView {
    /// Forgets all that is known of the store. Records that were received from it stay valid.
    pub(super) fn forget(&mut self) {
        (self.number, self.seen) = (0, 0);
        self.generation.clear();
        self.states.clear();
        self.unreadable.clear();
        self.missing.clear();
        self.is_complete = false;
    }

    /// Returns whether the store is known to have all own records, and this server those of the store.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete && self.seen >= self.number && self.received.is_empty()
    }

    pub(super) fn set_own(&mut self, own: Arc<KeyRecords>) {
        if !Arc::ptr_eq(&self.own, &own) {
            self.own = own;
            self.missing.clear();
            self.is_complete = false;
        }
    }

    /// Returns the arguments of the next call; `None` if no further call is needed. Records that the store
    /// has are received first, so that only those are sent which it lacks.
    pub(super) fn next_call(&mut self) -> Option<Vec<String>> {
        if self.generation.is_empty() || self.seen < self.number {
            return Some(Vec::new());
        }
        let own = self.own.as_slice();
        if !self.is_complete && self.missing.is_empty() {
            let is_missing = |key: &KeyRecord| {
                let state = self.states.get(&key.id);
                state.is_none_or(|state| *state < key.state())
            };
            let missing = (0..own.len()).filter(|at| is_missing(&own[*at]));
            self.missing = missing.collect();
            self.is_complete = self.missing.is_empty();
        }
        let mut lines = std::mem::take(&mut self.unreadable);
        let sent = self.missing.len().saturating_sub(PAGE);
        for key in self.missing.drain(sent..).map(|at| &own[at]) {
            // Otherwise the call fails, and all is forgotten.
            self.states.insert(key.id, key.state());
            lines.push(key.to_shared_line());
        }
        (!lines.is_empty()).then_some(lines)
    }

    /// Takes over an answer. Returns `false` if the store has lost keys, and all begins again.
    pub(super) fn take(&mut self, answer: Answer) -> bool {
        if answer.generation != self.generation {
            self.forget();
            (self.generation, self.number) = (answer.generation, answer.number);
            return false;
        }
        (self.number, self.seen) = (answer.number, answer.seen);
        for (id, line) in answer.records {
            match KeyRecord::parse_shared_line(&line) {
                Ok(key) if key.id.to_string() == id => {
                    self.is_complete &= self.states.get(&key.id) == Some(&key.state());
                    self.states.insert(key.id, key.state());
                    self.received.push(key);
                }
                _ => {
                    self.is_complete = false;
                    if let Ok(id) = id.parse() {
                        self.states.remove(&id);
                    }
                    if !line.is_empty() {
                        self.unreadable.push(id);
                    }
                }
            }
        }
        true
    }

    /// Sends own records again whose ids have other keys in the store. Returns the ids.
    pub(super) fn repair(&mut self, mut others: Vec<KeyId>, now: Instant) -> Vec<KeyId> {
        self.repaired
            .retain(|_, at| now.duration_since(*at) < REPAIR_PAUSE);
        others.retain(|id| !self.repaired.contains_key(id));
        for id in &others {
            self.repaired.insert(*id, now);
            self.states.remove(id);
            self.is_complete = false;
        }
        others
    }
}
