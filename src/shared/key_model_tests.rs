//! The store of keys as a plain model, with which the script in a real store agrees.

use std::collections::BTreeMap;

use super::key_exchange::{Answer, KeyView};
use crate::keys::KeyRecord;

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
        KeyRecord::parse_shared_line(line.as_bytes()).ok()
    }

    fn change(&mut self, id: &str, line: Option<String>) {
        self.records.remove(id);
        self.records.extend(line.map(|line| (id.to_owned(), line)));
        self.number += 1;
        self.changes.insert(id.to_owned(), self.number);
    }

    pub(super) fn put(&mut self, line: &str) {
        let record = KeyRecord::parse_shared_line(line.as_bytes()).unwrap();
        let id = record.id.to_string();
        let known = self.parsed(&id);
        if !known.is_some_and(|known| record.is_same_key(&known) && record.state() <= known.state())
        {
            self.change(&id, Some(line.to_owned()));
        }
    }

    /// Begins a generation if the numbers or the generation are lost, or older than what a server knows.
    fn begin_if_lost(&mut self, view: &KeyView, new: &str) {
        let is_older = self.generation == view.generation && self.number < view.seen;
        if self.generation.is_empty() || is_older {
            let records = std::mem::take(self).records;
            for (id, line) in records {
                if KeyRecord::parse_shared_line(line.as_bytes()).is_ok() {
                    self.change(&id, Some(line));
                } else {
                    self.records.insert(id, line);
                }
            }
            new.clone_into(&mut self.generation);
        }
    }

    /// The call of a server, with the name of a new generation.
    pub(super) fn call(
        &mut self,
        view: &KeyView,
        lines: &[String],
        is_added: bool,
        new: &str,
    ) -> Answer {
        self.begin_if_lost(view, new);
        let has_all = self.generation == view.generation && self.number == view.seen;
        if !is_added || has_all {
            for line in lines {
                match line.len() {
                    10 => self.change(line, None),
                    _ => self.put(line),
                }
            }
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
        let mut records = Vec::new();
        for (_, id) in changed {
            let line = self.records.get(&id).cloned().unwrap_or_default();
            let is_valid = self.parsed(&id).is_some();
            if !is_valid && !line.is_empty() {
                self.change(&id, None);
            }
            let line = if is_valid { line } else { String::new() };
            records.push((id, line.into_bytes()));
        }
        Answer {
            generation: self.generation.clone(),
            seen,
            is_added: is_added && has_all,
            records,
            secret: String::new(),
        }
    }
}
