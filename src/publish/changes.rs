//! Change detection: what the dataset has in common with the inputs of the previous publish.
//!
//! `sources.json` lists the dataset files that a publish read. The rule is that of git's index:
//! size, mtime, ctime and inode identify a file if its ctime was at least [`RACY_SECONDS`] before
//! the publish that read it; a younger file may have been written to again within one tick of the
//! file system's clock. Otherwise size and checksum decide.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::PublishOptions;
use crate::calendar::UnixSeconds;
use crate::dataset::{DatasetReader, DayFiles, FileChecksum, FileStamp, LoadError};
use crate::durable;
use crate::regular_file::Directory;
use crate::snapshot::{Dumps, Manifest, PAYLOAD_VERSION, Payload};

/// Returns the version of the program and of the content of payload files. A list with another one is ignored, since
/// other versions may render or validate differently.
fn program() -> String {
    format!("{}, content {PAYLOAD_VERSION}", env!("CARGO_PKG_VERSION"))
}
/// Longest `sources.json` that is read. A list of 100,000 files has about 20 MB.
const BYTES_MAX: u64 = 1 << 30;
/// Twice the coarsest timestamp granularity of a file system (2 s on FAT).
const RACY_SECONDS: i64 = 4;

/// The dataset files that the published data was made from, as in `sources.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KnownSources {
    program: String,
    /// Checksum of the history payload that was rendered from the files.
    history: String,
    /// Name of the dump directory that was written from the files.
    dumps: String,
    /// Unix seconds at which the publish began to read.
    read_since: i64,
    files: BTreeMap<String, KnownFile>,
}

/// A dataset file as it was read.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct KnownFile {
    sum: FileChecksum,
    /// Total players, of a live step.
    players: Option<u128>,
}

impl KnownSources {
    /// File name in the published directory.
    pub(super) const FILE: &'static str = "sources.json";

    /// Reads the list of a published directory. An unreadable one counts as empty, so that
    /// everything is published again.
    fn read(directory: &Directory) -> KnownSources {
        let text = directory.read(KnownSources::FILE, BYTES_MAX);
        let sources: KnownSources =
            serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_default();
        if sources.program == program() {
            sources
        } else {
            KnownSources::default()
        }
    }

    /// Returns the names of the files in the list of a published directory, of any version of the program; none
    /// if it is unreadable.
    pub(super) fn names(directory: &Directory) -> Vec<String> {
        let text = directory.read(KnownSources::FILE, BYTES_MAX);
        let sources: Value = serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_default();
        let files = sources["files"].as_object().into_iter().flatten();
        files.map(|(name, _)| name.clone()).collect()
    }

    /// Writes the list to a directory, replacing an earlier one.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        durable::replace(&directory.join(KnownSources::FILE), &text)
    }

    /// Returns a file of the dataset if it is the same as `known`.
    fn unchanged(
        &self,
        known: &KnownFile,
        (name, stamp): (&str, FileStamp),
        dataset: &DatasetReader<'_>,
    ) -> Result<Option<KnownFile>, LoadError> {
        let racy_from = self.read_since.saturating_sub(RACY_SECONDS);
        let before = known.sum;
        if stamp == before.stamp && stamp.changed < racy_from.saturating_mul(1_000_000_000) {
            return Ok(Some(*known));
        }
        if stamp.bytes != before.stamp.bytes {
            return Ok(None);
        }
        let sum = dataset.sum(name)?;
        let same = sum
            .filter(|sum| (sum.stamp.bytes, sum.checksum) == (before.stamp.bytes, before.checksum));
        Ok(same.map(|sum| KnownFile { sum, ..*known }))
    }
}

/// Differences between the dataset and the previous publish.
#[derive(Default)]
pub(super) struct Changes {
    /// Inputs of the previous publish; empty if everything is published again.
    before: KnownSources,
    unchanged: BTreeMap<String, KnownFile>,
    /// History payload to keep; `None` if it is rendered again.
    pub(super) kept_history: Option<Payload>,
    /// Dumps whose files may be linked instead of written.
    pub(super) kept_dumps: Option<Dumps>,
    /// The rendered and the kept parts, with reasons.
    pub(super) summary: String,
}

impl Changes {
    pub(super) fn find(
        dataset: &DatasetReader<'_>,
        (published, manifest): (&Directory, &Manifest),
        options: &PublishOptions<'_>,
    ) -> Result<Changes, LoadError> {
        let mut before = KnownSources::read(published);
        let reason = full_publish_reason(&before, manifest, published, options);
        if reason.is_some() {
            before = KnownSources::default();
        }
        let mut names: BTreeSet<&str> = before.files.keys().map(String::as_str).collect();
        names.extend([
            DatasetReader::ISLANDS,
            DatasetReader::CREATORS,
            DatasetReader::PLATFORM,
        ]);
        names.extend(dataset.days.iter().flat_map(DayFiles::names));
        names.extend(dataset.steps.iter().map(|step| step.name.as_str()));
        let mut unchanged = BTreeMap::new();
        let (mut history, mut live) = (Vec::new(), Vec::new());
        for name in names {
            let found = dataset.stamp(name)?;
            let difference = match (before.files.get(name), found) {
                (None, None) => continue,
                (None, Some(_)) => "is new",
                (Some(_), None) => "was removed",
                (Some(known), Some(stamp)) => {
                    if let Some(same) = before.unchanged(known, (name, stamp), dataset)? {
                        unchanged.insert(name.to_owned(), same);
                        continue;
                    }
                    "changed"
                }
            };
            let is_live = name == DatasetReader::PLATFORM || name.starts_with("live/");
            let differing = if is_live { &mut live } else { &mut history };
            differing.push(format!("{name} {difference}"));
        }
        let is_incremental = reason.is_none();
        let kept_history = manifest
            .history
            .clone()
            .filter(|_| is_incremental && history.is_empty());
        let history = match (reason, &kept_history) {
            (Some(reason), _) => format!("rendered, {reason}"),
            (None, Some(kept)) => format!("kept from {}, no input changed", kept.generated_at),
            (None, None) => format!("rendered, {}", summarized(&history)),
        };
        let live = if is_incremental && !live.is_empty() {
            summarized(&live)
        } else {
            "as always".to_owned()
        };
        let dumps = manifest.dumps.clone();
        let kept_dumps = dumps.filter(|dumps| is_incremental && dumps.directory == before.dumps);
        Ok(Changes {
            before,
            unchanged,
            kept_history,
            kept_dumps,
            summary: format!("history: {history}; live: rendered, {live}"),
        })
    }

    /// Returns whether a file is the same as before.
    pub(super) fn is_same(&self, name: &str) -> bool {
        self.unchanged.contains_key(name)
    }

    /// Returns whether both files of a day are the same, or are missing, as before.
    pub(super) fn is_same_day(&self, files: &DayFiles) -> bool {
        let day = files.day;
        let before = [format!("daily/{day}.csv"), format!("ccu/{day}.csv")];
        let before = before
            .iter()
            .filter(|name| self.before.files.contains_key(*name));
        before.eq(files.names()) && files.names().all(|name| self.is_same(name))
    }

    /// Returns the total players of a live step that is the same as before.
    pub(super) fn players(&self, step: &str) -> Option<u128> {
        self.unchanged.get(step)?.players
    }

    /// Returns the list of all files that were read and of those that are the same as before, for
    /// the next publish. `totals` are the total players of the live steps.
    pub(super) fn into_sources(
        self,
        dataset: &DatasetReader<'_>,
        (history, dumps): (&Payload, &Dumps),
        read_since: UnixSeconds,
        totals: &[(UnixSeconds, u128)],
    ) -> KnownSources {
        let mut files = self.unchanged;
        for (name, sum) in dataset.sums() {
            let compared = files.get(&name).map(|file| file.sum.checksum);
            if compared.is_some_and(|compared| compared != sum.checksum) {
                // It was written to between comparing and reading, so some of what is published has
                // its old content. Left out of the list, it counts as new in the next publish.
                files.remove(&name);
            } else {
                files.insert(name, KnownFile { sum, players: None });
            }
        }
        for (step, (_, players)) in dataset.steps.iter().zip(totals) {
            if let Some(file) = files.get_mut(&step.name) {
                file.players = Some(*players);
            }
        }
        KnownSources {
            program: program(),
            history: history.checksum.clone(),
            dumps: dumps.directory.clone(),
            read_since: read_since.0,
            files,
        }
    }
}

/// Returns the reason why nothing of the previous publish can be kept, if there is one.
fn full_publish_reason(
    sources: &KnownSources,
    manifest: &Manifest,
    published: &Directory,
    options: &PublishOptions<'_>,
) -> Option<&'static str> {
    let Some(history) = &manifest.history else {
        return Some("nothing was published before");
    };
    if options.force {
        Some("--force was given")
    } else if options.full {
        Some("--full was given")
    } else if sources.history != history.checksum {
        Some("the inputs of the previous publish are unknown")
    } else if !history.is_sound(published) {
        Some("the published file is missing or damaged")
    } else {
        None
    }
}

/// Returns the first difference and the number of the others.
fn summarized(differing: &[String]) -> String {
    let first = differing.first().map_or("", String::as_str);
    match differing.len() {
        0 | 1 => first.to_owned(),
        count => format!("{first} and {} more", count - 1),
    }
}
