//! [`KeyView`]: the store of keys as a server knows it, and the calls of its script.

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::{Arc, LazyLock};

use super::node::{NodeConnection, StoreScript};
use crate::calendar::UnixSeconds;
use crate::keys::{KeyId, KeyRecord, KeyRecords};

/// Most records in one call, in each direction.
pub(super) const PAGE: usize = 256;

/// The records; the numbers of their changes. The number in the names is the version of their format.
const KEYS: [&str; 2] = ["imq:2:keys", "imq:2:keys:changes"];
/// A store that is full of quotas takes keys too, which are few: a revocation must reach all servers. A script with flags
/// is also refused by a node that has become a replica, and does not answer with an old state.
const HEAD: &str = "#!lua flags=allow-oom\n";
static SCRIPT: LazyLock<StoreScript> =
    LazyLock::new(|| StoreScript::new(HEAD, include_str!("exchange_keys.lua")));

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) generation: String,
    /// Number up to which the changes are in `records`.
    pub(super) seen: u64,
    /// This server had all changes, so that the lines of the call were stored.
    pub(super) is_stored: bool,
    /// Ids and lines. A line is empty if the store has none.
    pub(super) records: Vec<(String, Vec<u8>)>,
    /// The secret of sign-up in hexadecimal; empty if the store has none.
    pub(super) secret: String,
}

/// The store as this server knows it. What is not known is compared again: the store may have lost keys while there
/// was no connection.
#[derive(Debug, Default)]
pub(super) struct KeyView {
    /// Another one means that the store may have lost keys. Empty before the first answer.
    pub(super) generation: String,
    /// All changes up to this number have been received.
    pub(super) seen: u64,
    /// The store may have more changes.
    has_more: bool,
    /// The states of the keys in the store.
    states: HashMap<KeyId, (UnixSeconds, Option<UnixSeconds>)>,
    /// Ids of records in the store that cannot be read.
    unreadable: BTreeSet<String>,
    own: Arc<KeyRecords>,
    /// The store has the first `compared` own records, or a call that is under way sends them.
    compared: usize,
}

impl KeyView {
    /// Returns the ids and lines of the next call: records that the store lacks, and empty lines in place of those that
    /// cannot be read, so that every server that knows the key sends it. All changes are received first.
    pub(super) fn next_lines(&mut self, own: Arc<KeyRecords>) -> Vec<(String, String)> {
        if !Arc::ptr_eq(&self.own, &own) {
            (self.own, self.compared) = (own, 0);
        }
        if self.has_more || self.generation.is_empty() {
            return Vec::new();
        }
        let unreadable = self.unreadable.iter().take(PAGE);
        let mut lines: Vec<_> = unreadable.map(|id| (id.clone(), String::new())).collect();
        for key in &self.own.as_slice()[self.compared..] {
            if lines.len() == PAGE {
                break;
            }
            self.compared += 1;
            let known = self.states.get(&key.id);
            if known.is_none_or(|known| *known < key.state()) {
                lines.push((key.id.to_string(), key.to_shared_line()));
            }
        }
        lines
    }

    /// Calls the script with ids and lines to be stored. The store gets the secret of sign-up if it had none.
    pub(super) async fn call(
        &self,
        node: &NodeConnection,
        secret: &str,
        lines: &[(String, String)],
    ) -> Result<Answer, String> {
        let random = getrandom::u64().expect("the system gives random numbers");
        let new_generation = format!("{random:016x}");
        let reply = node.run(&SCRIPT, KEYS.len(), |command| {
            command.arg(&KEYS).arg(&self.generation).arg(self.seen);
            command.arg(&new_generation).arg(secret).arg(PAGE);
            for (id, line) in lines {
                command.arg(id).arg(line);
            }
        });
        let (generation, secret, is_stored, seen, records) = reply.await?;
        Ok(Answer {
            generation,
            seen,
            is_stored,
            records,
            secret,
        })
    }

    /// Takes over an answer, and returns the records in it. Those of another generation are from the beginning, and are
    /// compared as with a new connection.
    pub(super) fn take(&mut self, answer: Answer) -> Vec<KeyRecord> {
        if self.generation != answer.generation {
            *self = KeyView {
                own: mem::take(&mut self.own),
                ..KeyView::default()
            };
        }
        (self.generation, self.seen) = (answer.generation, answer.seen);
        self.has_more = answer.records.len() == PAGE;
        if !answer.is_stored {
            self.compared = 0;
        }
        let mut received = Vec::new();
        for (id, line) in answer.records {
            self.unreadable.remove(&id);
            match KeyRecord::parse_line(&line) {
                Ok(key) if key.id.to_string() == id => {
                    self.states.insert(key.id, key.state());
                    received.push(key);
                }
                _ => {
                    self.repair(id.parse().ok());
                    if !line.is_empty() {
                        self.unreadable.insert(id);
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
