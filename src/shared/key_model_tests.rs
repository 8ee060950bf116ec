//! The store of keys as a plain model, with which the script in a real store agrees.

use std::collections::BTreeMap;

use super::key_view::{Answer, KeyView};
use crate::keys::KeyRecord;

/// Longer ones are not read.
const LINE_BYTES_MAX: usize = 1024;

/// The store: the plainest form of what the script does.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) generation: String,
    pub(super) number: u64,
    /// Lines by id, and the numbers of the last changes.
    pub(super) records: BTreeMap<String, String>,
    pub(super) changes: BTreeMap<String, u64>,
}

impl Model {
    pub(super) fn parsed(&self, id: &str) -> Option<KeyRecord> {
        let line = self.records.get(id)?;
        KeyRecord::parse_line(line.as_bytes()).ok()
    }

    fn change(&mut self, id: &str, line: &str) {
        self.records.insert(id.to_owned(), line.to_owned());
        self.records.retain(|_, line| !line.is_empty());
        self.number += 1;
        self.changes.insert(id.to_owned(), self.number);
    }

    /// Begins a generation if the numbers or the generation are lost, or older than what a server knows.
    fn begin_if_lost(&mut self, view: &KeyView, new: &str) {
        let is_older = self.generation == view.generation && self.number < view.seen;
        if self.generation.is_empty() || is_older {
            for (id, line) in std::mem::take(self).records {
                self.change(&id, &line);
            }
            new.clone_into(&mut self.generation);
        }
    }

    /// The call of a server, with the name of a new generation.
    pub(super) fn call(&mut self, view: &KeyView, lines: &[(String, String)], new: &str) -> Answer {
        self.begin_if_lost(view, new);
        let is_stored = self.generation == view.generation && self.number == view.seen;
        for (id, line) in lines.iter().filter(|_| is_stored) {
            self.change(id, line);
        }
        let mut changed: Vec<(u64, String)> = self
            .changes
            .iter()
            .map(|it| (*it.1, it.0.clone()))
            .collect();
        let is_same = self.generation == view.generation;
        let from = if is_same { view.seen } else { 0 };
        changed.retain(|(number, _)| *number > from);
        changed.sort();
        let seen = changed.last().map_or(from, |(number, _)| *number);
        let records = changed.into_iter().map(|(_, id)| {
            let line = match self.records.get(&id) {
                Some(line) if line.len() > LINE_BYTES_MAX => "-",
                line => line.map_or("", String::as_str),
            };
            (id, line.as_bytes().to_vec())
        });
        Answer {
            generation: self.generation.clone(),
            seen,
            is_stored,
            records: records.collect(),
            secret: String::new(),
        }
    }
}
