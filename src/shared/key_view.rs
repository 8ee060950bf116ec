//! [`KeyView`]: the keys that the store is known to have, compared with those of this server. It decides
//! what is exchanged, and calls the script that does it.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, LazyLock};

use super::node::{NodeConnection, StoreScript};
use crate::calendar::UnixSeconds;
use crate::keys::{KeyId, KeyRecord, KeyRecords};

/// Most records in one call, in each direction.
pub(super) const PAGE: usize = 256;

/// The records; the numbers of their changes; the active free keys of each address. The number in the names is
/// the version of their format.
const KEYS: [&str; 3] = ["imq:2:keys", "imq:2:keys:changes", "imq:2:keys:free"];
static SCRIPT: LazyLock<StoreScript> =
    LazyLock::new(|| StoreScript::new(include_str!("exchange_keys.lua")));

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) generation: String,
    /// Number up to which the changes are in `records`.
    pub(super) seen: u64,
    /// A key was not added, since its address has the most active ones.
    pub(super) is_refused: bool,
    /// Ids and lines. A line is empty if the store has no valid one.
    pub(super) records: Vec<(String, Vec<u8>)>,
}

/// The store as this server knows it. What is not known is compared again: the store may have lost keys while there
/// was no connection.
#[derive(Debug, Default)]
pub(super) struct KeyView {
    /// Another one means that the store has lost keys. Empty before the first answer.
    pub(super) generation: String,
    /// All changes up to this number have been received.
    pub(super) seen: u64,
    /// The store may have more changes.
    has_more: bool,
    /// The states of the keys in the store.
    states: HashMap<KeyId, (UnixSeconds, Option<UnixSeconds>)>,
    /// Ids of records that cannot be read.
    unreadable: Vec<String>,
    own: Arc<KeyRecords>,
    /// The store is known to have as many of the own records.
    compared: usize,
}

impl KeyView {
    /// Returns the lines of the next call: records that the store lacks. Those that it has are received first, so that
    /// only these are sent.
    pub(super) fn next_lines(&mut self, own: Arc<KeyRecords>) -> Vec<String> {
        if !Arc::ptr_eq(&self.own, &own) {
            (self.own, self.compared) = (own, 0);
        }
        if self.has_more || self.generation.is_empty() {
            return Vec::new();
        }
        let mut lines = mem::take(&mut self.unreadable);
        let most = lines.len() + PAGE;
        for key in &self.own.as_slice()[self.compared..] {
            if lines.len() == most {
                break;
            }
            self.compared += 1;
            let known = self.states.get(&key.id);
            if known.is_none_or(|known| *known < key.state()) {
                // If the call fails, all is forgotten.
                self.states.insert(key.id, key.state());
                lines.push(key.to_shared_line());
            }
        }
        lines
    }

    /// Calls the script with records to be stored; with `free_max`, the most active free keys of an address, one that
    /// is to be added below it. Returns the answer, and the secret of sign-up in the store: `secret` if it had none.
    pub(super) async fn call(
        &self,
        node: &NodeConnection,
        secret: &str,
        free_max: &str,
        lines: &[String],
    ) -> Result<(Answer, String), String> {
        let random = getrandom::u64().expect("the system gives random numbers");
        let new_generation = format!("{random:016x}");
        let reply = node.run(&SCRIPT, KEYS.len(), |command| {
            command.arg(&KEYS).arg(&self.generation).arg(self.seen);
            command.arg(&new_generation).arg(secret).arg(free_max);
            command.arg(PAGE).arg(lines);
        });
        let (generation, secret, is_refused, seen, records) = reply.await?;
        let answer = Answer {
            generation,
            seen,
            is_refused,
            records,
        };
        Ok((answer, secret))
    }

    /// Takes over an answer, and returns the records in it. After the first answer, one of another generation must not
    /// be taken over: all begins again with another view.
    pub(super) fn take(&mut self, answer: Answer) -> Vec<KeyRecord> {
        (self.generation, self.seen) = (answer.generation, answer.seen);
        self.has_more = answer.records.len() == PAGE;
        let mut received = Vec::new();
        for (id, line) in answer.records {
            match KeyRecord::parse_shared_line(&line) {
                Ok(key) if key.id.to_string() == id => {
                    if self.states.insert(key.id, key.state()) != Some(key.state()) {
                        self.compared = 0;
                    }
                    received.push(key);
                }
                _ => {
                    self.repair(id.parse().ok());
                    if !line.is_empty() {
                        self.unreadable.push(id);
                    }
                }
            }
        }
        received
    }

    /// Returns `true` if the store may have or lack records that were not in a call.
    pub(super) fn is_incomplete(&self) -> bool {
        self.has_more || self.compared < self.own.as_slice().len() || !self.unreadable.is_empty()
    }

    /// Sends own records with these ids again: the store has none, or those of other keys.
    pub(super) fn repair(&mut self, ids: impl IntoIterator<Item = KeyId>) {
        for id in ids {
            self.states.remove(&id);
        }
        self.compared = 0;
    }
}

#[cfg(test)]
#[path = "key_script_tests.rs"]
mod tests;
