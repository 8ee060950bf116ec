//! [`Plan`]: what a publish keeps of the previous one, decided once before anything is read.

use std::collections::{BTreeMap, BTreeSet};

use super::live_payload::LiveInput;
use super::options::PublishOptions;
use super::previous::Previous;
use super::sources::{Source, Sources};
use crate::dataset::{DatasetReader, Faults, LoadError, WHOLE_FILES};
use crate::snapshot::{Manifest, Payload};

/// The default is that of a first publish.
#[derive(Default)]
pub(super) struct Plan {
    /// History payload to keep; `None` if it is rendered again.
    pub(super) kept_history: Option<Payload>,
    /// The files that are the same as before, whose dumps are kept; those of a day only together.
    unchanged: BTreeMap<String, Source>,
    /// The rendered and the kept parts, with reasons.
    pub(super) summary: String,
}

impl Plan {
    pub(super) fn new(
        dataset: &DatasetReader<'_>,
        previous: &Previous,
        options: &PublishOptions<'_>,
    ) -> Result<Plan, LoadError> {
        let reason = previous.full_publish_reason(options);
        let nothing = BTreeMap::new();
        let known = match reason {
            None => &previous.sources.files,
            Some(_) => &nothing,
        };
        let mut plan = Plan::default();
        let (mut history, mut live, mut files) = (Vec::new(), Vec::new(), 0);
        let names = known.keys().map(String::as_str).chain(dataset.names());
        for name in names.collect::<BTreeSet<&str>>() {
            let (known, found) = (known.get(name), dataset.stamp(name)?);
            files += usize::from(found.is_some());
            let difference = match (known, found) {
                (None, None) => continue,
                (None, Some(_)) => "is new",
                (Some(_), None) => "was removed",
                (Some(source), Some(_)) if source.stamp == found => {
                    plan.unchanged.insert(name.to_owned(), source.clone());
                    continue;
                }
                (Some(_), Some(_)) => "changed",
            };
            let is_live = name == DatasetReader::PLATFORM || name.starts_with("live/");
            let differences = if is_live { &mut live } else { &mut history };
            differences.push((name, difference));
        }
        // A file in daily/ decides which rows of its day in ccu/ count.
        for (name, _) in &history {
            let day = name.rsplit('/').next().unwrap_or_default();
            for folder in ["daily", "ccu"] {
                plan.unchanged.remove(&format!("{folder}/{day}"));
            }
        }
        if reason.is_none() && history.is_empty() {
            plan.kept_history.clone_from(&previous.manifest.history);
        }
        let history = match (reason, &plan.kept_history) {
            (_, Some(kept)) => format!("kept from {}, no input changed", kept.generated_at),
            (Some(reason), None) => format!("rendered, {reason}"),
            (None, None) => format!("rendered, {}", summarized(&history)),
        };
        let (live, unchanged) = (summarized(&live), plan.unchanged.len());
        plan.summary = format!(
            "history: {history}; live: rendered, {live}; dumps: {unchanged} of {files} tables kept"
        );
        Ok(plan)
    }

    /// Returns whether the dumps of a file are kept.
    pub(super) fn keeps(&self, name: &str) -> bool {
        self.unchanged.contains_key(name)
    }

    /// Returns whether a dump of the previous publish is kept.
    pub(super) fn keeps_dump(&self, dump: &str) -> bool {
        if WHOLE_FILES.iter().any(|(file, ..)| *file == dump) {
            return self.kept_history.is_some();
        }
        let (stem, _) = dump.split_once('.').unwrap_or((dump, ""));
        self.keeps(&format!("{stem}.csv"))
    }

    /// Records the warnings of kept files that were not read.
    pub(super) fn repeat_warnings(&self, dataset: &DatasetReader<'_>) {
        let read = dataset.stamps();
        let kept = self.unchanged.iter();
        for (_, source) in kept.filter(|(name, _)| !read.contains_key(*name)) {
            let warnings = source.warnings.iter().cloned();
            warnings.for_each(|warning| dataset.repeat_warning(warning));
        }
    }

    /// Returns the total players of a live step that need not be read: neither it nor the islands have changed.
    pub(super) fn kept_players(&self, step: &str) -> Option<u128> {
        let source = self.unchanged.get(step)?;
        source
            .players
            .filter(|_| self.keeps(DatasetReader::ISLANDS))
    }

    /// Returns the list of all files that were read and of those that are kept, for the next publish.
    pub(super) fn into_sources(
        self,
        dataset: &DatasetReader<'_>,
        published: Manifest,
        (live, warnings): (&LiveInput, &Faults),
    ) -> Sources {
        let mut files = self.unchanged;
        for (name, stamp) in dataset.stamps() {
            // A file that has changed since it was compared keeps its old stamp: some of what is published has its old
            // content.
            files.entry(name).or_insert_with_key(|name| Source {
                stamp,
                players: None,
                warnings: warnings.of(name).to_vec(),
            });
        }
        for (step, (_, players)) in dataset.steps.iter().zip(&live.totals) {
            if let Some(file) = files.get_mut(&step.name) {
                file.players = Some(*players);
            }
        }
        let program = Sources::program();
        Sources {
            program,
            published,
            files,
        }
    }
}

/// Returns the first difference and the number of the others.
fn summarized(differences: &[(&str, &str)]) -> String {
    let Some(((name, difference), others)) = differences.split_first() else {
        return "as always".to_owned();
    };
    match others.len() {
        0 => format!("{name} {difference}"),
        more => format!("{name} {difference} and {more} more"),
    }
}
