//! [`KeyView`]: the keys that the store is known to have, compared with those of this server. It decides
//! what is exchanged, and knows nothing of connections.

use std::collections::HashMap;
use std::sync::Arc;

use crate::calendar::UnixSeconds;
use crate::keys::{KeyId, KeyRecord, KeyRecords};

/// Most records in one call, in each direction.
pub(super) const PAGE: usize = 256;

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
    /// The store is known to have as many of the own records.
    compared: usize,
}

impl KeyView {
    /// Forgets all that is known of the store. Records that were received from it stay valid.
    pub(super) fn forget(&mut self) {
        *self = KeyView {
            received: std::mem::take(&mut self.received),
            own: Arc::clone(&self.own),
            ..KeyView::default()
        };
    }

    pub(super) fn set_own(&mut self, own: Arc<KeyRecords>) {
        if !Arc::ptr_eq(&self.own, &own) {
            self.own = own;
            self.compared = 0;
        }
    }

    /// Returns the arguments of the next call; `None` if no further call is needed. Records that the store
    /// has are received first, so that only those are sent which it lacks.
    pub(super) fn next_call(&mut self) -> Option<Vec<String>> {
        if self.generation.is_empty() || self.seen < self.number {
            return Some(Vec::new());
        }
        let mut lines = std::mem::take(&mut self.unreadable);
        let mut sent = 0;
        for key in &self.own.as_slice()[self.compared..] {
            if sent == PAGE {
                break;
            }
            self.compared += 1;
            let known = self.states.get(&key.id);
            if known.is_none_or(|known| *known < key.state()) {
                // Otherwise the call fails, and all is forgotten.
                self.states.insert(key.id, key.state());
                lines.push(key.to_shared_line());
                sent += 1;
            }
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
                    if self.states.insert(key.id, key.state()) != Some(key.state()) {
                        self.compared = 0;
                    }
                    self.received.push(key);
                }
                _ => {
                    self.compared = 0;
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

    /// Sends own records again whose ids have other keys in the store.
    pub(super) fn repair(&mut self, others: &[KeyId]) {
        for id in others {
            self.states.remove(id);
        }
        self.compared = 0;
    }
}
