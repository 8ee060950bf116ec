//! Comparison of the dataset with the inputs of the previous publish: what must be rendered, and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::options::PublishOptions;
use super::sources::{SourceFile, Sources};
use crate::dataset::{DatasetReader, DayFiles, LoadError};
use crate::regular_file::Directory;
use crate::snapshot::{Dumps, Manifest, Payload};

/// Differences between the dataset and the previous publish.
pub(super) struct Changes {
    /// Inputs of the previous publish; empty if everything is published again.
    before: Sources,
    /// Unchanged files by name.
    pub(super) unchanged: BTreeMap<String, SourceFile>,
    /// History payload to keep; `None` if it is rendered again.
    pub(super) kept_history: Option<Payload>,
    /// Dumps whose files may be linked instead of written.
    pub(super) kept_dumps: Option<Dumps>,
    /// Reason why the history is rendered or kept.
    history_reason: String,
    live_reason: String,
}

/// Changed files of the history payload and of the live payload, each with its kind of change.
#[derive(Default)]
struct ChangedFiles {
    history: Vec<String>,
    live: Vec<String>,
}

impl Changes {
    /// Compares all files.
    pub(super) fn find(
        source: &DatasetReader<'_>,
        before: &Manifest,
        options: &PublishOptions<'_>,
    ) -> Result<Changes, LoadError> {
        let published = Directory::open(options.directory).ok();
        let sources = published.as_ref().map(Sources::read).unwrap_or_default();
        let history = before.history.as_ref();
        let is_sound = |history: &Payload| {
            published
                .as_ref()
                .is_some_and(|in_it| history.is_sound(in_it))
        };
        let all = full_publish_reason(&sources, history, is_sound, options);
        let dumps = before.dumps.as_ref();
        let kept_dumps = dumps
            .filter(|dumps| all.is_none() && dumps.directory == sources.dumps)
            .cloned();
        let sources = if all.is_some() {
            Sources::default()
        } else {
            sources
        };
        let (unchanged, differing) = compare(source, &sources)?;
        let (kept_history, history_reason) = match (all, history) {
            (None, Some(history)) if differing.history.is_empty() => {
                let reason = format!("kept from {}, no input changed", history.generated_at);
                (Some(history.clone()), reason)
            }
            (None, _) => (
                None,
                format!("rendered, {}", summarized(&differing.history)),
            ),
            (Some(reason), _) => (None, format!("rendered, {reason}")),
        };
        let live_reason = if all.is_some() || differing.live.is_empty() {
            "rendered, as always".to_owned()
        } else {
            format!("rendered, {}", summarized(&differing.live))
        };
        Ok(Changes {
            before: sources,
            unchanged,
            kept_history,
            kept_dumps,
            history_reason,
            live_reason,
        })
    }

    /// Returns whether both files of a day are the same, or are missing, as before.
    pub(super) fn is_same_day(&self, files: &DayFiles) -> bool {
        let was_there = |folder: &str| self.before.has(&format!("{folder}/{}.csv", files.day));
        files.names().all(|name| self.unchanged.contains_key(name))
            && files.daily.is_some() == was_there("daily")
            && files.ccu.is_some() == was_there("ccu")
    }

    /// Returns the summary line: what was rendered and kept, and why.
    pub(super) fn line(&self, kept: usize, all: usize) -> String {
        format!(
            "history: {}; live: {}; dumps: {kept} of {all} tables kept",
            self.history_reason, self.live_reason
        )
    }
}

/// Returns the reason why nothing of the previous publish can be kept, if there is one.
fn full_publish_reason(
    sources: &Sources,
    history: Option<&Payload>,
    is_sound: impl FnOnce(&Payload) -> bool,
    options: &PublishOptions<'_>,
) -> Option<&'static str> {
    let Some(history) = history else {
        return Some("nothing was published before");
    };
    if options.force {
        Some("--force was given")
    } else if options.full {
        Some("--full was given")
    } else if sources.history != history.checksum {
        Some("the inputs of the previous publish are unknown")
    } else if !is_sound(history) {
        Some("the published file is missing or damaged")
    } else {
        None
    }
}

fn compare(
    source: &DatasetReader<'_>,
    before: &Sources,
) -> Result<(BTreeMap<String, SourceFile>, ChangedFiles), LoadError> {
    let fixed = [
        DatasetReader::ISLANDS,
        DatasetReader::CREATORS,
        DatasetReader::PLATFORM,
    ];
    let mut names: Vec<&str> = Vec::new();
    for name in fixed {
        if source.stamp(name)?.is_some() {
            names.push(name);
        }
    }
    names.extend(source.days().iter().flat_map(DayFiles::names));
    names.extend(source.steps().iter().map(|step| step.name.as_str()));
    names.sort_unstable();
    let mut unchanged = BTreeMap::new();
    let mut differing = ChangedFiles::default();
    for name in &names {
        match before.unchanged(name, source)? {
            Some(same) => {
                unchanged.insert((*name).to_owned(), same);
            }
            None if before.has(name) => differing.push(name, "changed"),
            None => differing.push(name, "is new"),
        }
    }
    let is_gone = |name: &&str| names.binary_search(name).is_err();
    for name in before.names().filter(is_gone) {
        differing.push(name, "was removed");
    }
    Ok((unchanged, differing))
}

impl ChangedFiles {
    fn push(&mut self, name: &str, how: &str) {
        let is_live = name == DatasetReader::PLATFORM || Path::new(name).starts_with("live");
        let part = if is_live {
            &mut self.live
        } else {
            &mut self.history
        };
        part.push(format!("{name} {how}"));
    }
}

/// Returns the first change and the number of the others.
fn summarized(differing: &[String]) -> String {
    let mut text = differing.first().cloned().unwrap_or_default();
    if differing.len() > 1 {
        let _ = write!(text, " and {} more", differing.len() - 1);
    }
    text
}
