//! [`Plan`]: what a publish keeps of the previous one, decided once before anything is read.
//!
//! The rule is that of git's index: size, mtime, ctime and inode identify a file unless it was written to shortly
//! before it was read. Then, and if one of them has changed but not the size, a file is the same if its bytes are
//! those of its dump, as those of a collector are, or have the checksum that they had.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::live_payload::LiveInput;
use super::options::PublishOptions;
use super::previous::Previous;
use super::sources::{Source, Sources};
use crate::calendar::UnixSeconds;
use crate::dataset::{DatasetReader, Faults, FileStamp, LoadError, WHOLE_FILES};
use crate::snapshot::{HashingWriter, Manifest, Payload};

/// Names of files, each with its difference from the previous publish.
type Differences = Vec<(String, &'static str)>;

/// The default is that of a first publish.
#[derive(Default)]
pub(super) struct Plan {
    /// Unix seconds at which the files were compared, before they are read.
    read_since: i64,
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
        let mut plan = Plan {
            read_since: UnixSeconds::now().0,
            ..Plan::default()
        };
        let (differences, files) = plan.compare(dataset, (previous, known))?;
        let (live, history): (Vec<_>, Vec<_>) =
            differences.iter().partition(|(name, _)| is_live(name));
        let is_kept = reason.is_none() && history.is_empty();
        let kept = previous.manifest.history.as_ref().filter(|_| is_kept);
        let history = match (reason, kept) {
            (Some(reason), _) => format!("rendered, {reason}"),
            (None, Some(kept)) => format!("kept from {}, no input changed", kept.generated_at),
            (None, None) => format!("rendered, {}", summarized(&history)),
        };
        let live = match reason {
            None => summarized(&live),
            Some(_) => "as always".to_owned(),
        };
        let unchanged = plan.unchanged.len();
        plan.summary = format!(
            "history: {history}; live: rendered, {live}; dumps: {unchanged} of {files} tables kept"
        );
        plan.kept_history = kept.cloned();
        Ok(plan)
    }

    /// Finds the files that are the same as known ones. Returns the names of the others, each with its difference, and
    /// the number of files.
    fn compare(
        &mut self,
        dataset: &DatasetReader<'_>,
        (previous, known): (&Previous, &BTreeMap<String, Source>),
    ) -> Result<(Differences, usize), LoadError> {
        let mut names: BTreeSet<&str> = known.keys().map(String::as_str).collect();
        names.extend(dataset.names());
        let (mut differences, mut files) = (Vec::new(), 0);
        for name in names {
            let found = dataset.stamp(name)?;
            files += usize::from(found.is_some());
            let difference = match (known.get(name), found) {
                (None, None) => continue,
                (None, Some(_)) => "is new",
                (Some(_), None) => "was removed",
                (Some(source), Some(stamp)) => {
                    if let Some(stamp) = same_stamp(previous, (name, source), stamp, dataset)? {
                        let source = Source {
                            stamp,
                            ..source.clone()
                        };
                        self.unchanged.insert(name.to_owned(), source);
                        continue;
                    }
                    "changed"
                }
            };
            differences.push((name.to_owned(), difference));
        }
        // A file in daily/ decides which rows of its day in ccu/ count.
        for (name, _) in &differences {
            let day = name.rsplit('/').next().unwrap_or_default();
            for folder in ["daily", "ccu"] {
                self.unchanged.remove(&format!("{folder}/{day}"));
            }
        }
        Ok((differences, files))
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
        let unread = self
            .unchanged
            .iter()
            .filter(|(name, _)| !read.contains_key(*name));
        for warning in unread.flat_map(|(_, source)| &source.warnings) {
            dataset.repeat_warning(warning.clone());
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
        let mut sources = Sources {
            program: Sources::program(),
            published,
            read_since: self.read_since,
            files: self.unchanged,
        };
        for (name, stamp) in dataset.stamps() {
            let known = sources.files.remove(&name);
            if known.is_some_and(|file| file.stamp != stamp) {
                // It was written to between comparing and reading, so some of what is published has
                // its old content. Left out of the list, it counts as new in the next publish.
                continue;
            }
            // One that cannot be read counts as changed in the next publish.
            let is_racy = !sources.is_reliable(stamp);
            let content = is_racy.then(|| content_of(dataset, &name).ok()?).flatten();
            let content = content.filter(|(_, read)| *read == stamp);
            let source = Source {
                stamp,
                players: None,
                warnings: warnings.of(&name).to_vec(),
                sha256: content.map(|(sha256, _)| sha256),
            };
            sources.files.insert(name, source);
        }
        for (step, (_, players)) in dataset.steps.iter().zip(&live.totals) {
            if let Some(file) = sources.files.get_mut(&step.name) {
                file.players = Some(*players);
            }
        }
        sources
    }
}

/// Returns whether a file is an input of the live payload only.
fn is_live(name: &str) -> bool {
    name == DatasetReader::PLATFORM || name.starts_with("live/")
}

/// Returns the stamp of a file if it is the same as in the previous publish.
fn same_stamp(
    previous: &Previous,
    (name, known): (&str, &Source),
    stamp: FileStamp,
    dataset: &DatasetReader<'_>,
) -> Result<Option<FileStamp>, LoadError> {
    if stamp == known.stamp && previous.sources.is_reliable(stamp) {
        return Ok(Some(stamp));
    }
    let dump = previous.dumps.as_ref().and_then(|dumps| dumps.find(name));
    let dump = dump.filter(|dump| dump.file.bytes == stamp.bytes);
    let before = known.sha256.as_deref();
    let before = before.filter(|_| known.stamp.bytes == stamp.bytes);
    let same = [before, dump.map(|dump| &*dump.file.sha256)];
    if same == [None, None] {
        return Ok(None);
    }
    let content = content_of(dataset, name)?;
    let content = content.filter(|(sha256, _)| same.contains(&Some(sha256)));
    Ok(content.map(|(_, stamp)| stamp))
}

/// Returns the SHA-256 of a file, and its stamp from before it was read; `None` if it does not exist.
fn content_of(
    dataset: &DatasetReader<'_>,
    name: &str,
) -> Result<Option<(String, FileStamp)>, LoadError> {
    let mut hashing = HashingWriter::new(io::sink());
    let stamp = dataset.copy(name, &mut hashing)?;
    let (_, _, sha256) = hashing.finish();
    Ok(stamp.map(|stamp| (sha256, stamp)))
}

/// Returns the first difference and the number of the others.
fn summarized(differences: &[&(String, &str)]) -> String {
    let Some(((name, difference), others)) = differences.split_first() else {
        return "as always".to_owned();
    };
    match others.len() {
        0 => format!("{name} {difference}"),
        more => format!("{name} {difference} and {more} more"),
    }
}
