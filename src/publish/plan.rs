//! [`Plan`]: what a publish keeps of the previous one, decided once before anything is read.

use std::collections::BTreeSet;
use std::io;

use super::live_payload::LiveInput;
use super::options::PublishOptions;
use super::previous::{Previous, Sources};
use crate::dataset::{DatasetReader, Faults, LoadError, WHOLE_FILES};
use crate::snapshot::{Manifest, Payload};

/// The default is that of a first publish.
#[derive(Default)]
pub(super) struct Plan {
    /// History payload to keep; `None` if it is rendered again.
    pub(super) kept_history: Option<Payload>,
    /// The sources of the previous publish; `files` only has those that have not changed, whose dumps are kept. If one
    /// file of a day has changed, neither of them is kept.
    known: Sources,
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
        let mut known = match reason {
            None => previous.sources.clone(),
            Some(_) => Sources::default(),
        };
        let (mut changed, mut count) = (Vec::new(), 0);
        let names = known.files.keys().cloned();
        let names: BTreeSet<String> = names.chain(dataset.names()).collect();
        for name in names {
            let found = dataset.stamp(&name)?;
            count += usize::from(found.is_some());
            if known.files.get(&name).copied() != found.map(Some) {
                changed.push(name);
            }
        }
        for name in &changed {
            known.files.remove(name);
            // A file in daily/ decides which rows of its day in ccu/ count.
            let (_, day) = name.split_once('/').unwrap_or_default();
            for folder in ["daily", "ccu"] {
                known.files.remove(&format!("{folder}/{day}"));
            }
        }
        let is_live = |name: &str| name == DatasetReader::PLATFORM || name.starts_with("live/");
        let input = changed.iter().find(|name| !is_live(name));
        let reason = reason.map(str::to_owned);
        let reason = reason.or_else(|| Some(format!("{} differs", input?)));
        let kept_history = previous.manifest.history.clone();
        let kept_history = kept_history.filter(|_| reason.is_none());
        let history = match (&kept_history, reason) {
            (Some(kept), _) => format!("kept from {}, no input changed", kept.generated_at),
            (None, reason) => format!("rendered, {}", reason.unwrap_or_default()),
        };
        let kept = known.files.len();
        Ok(Plan {
            kept_history,
            known,
            summary: format!(
                "history: {history}; live: rendered; dumps: {kept} of {count} tables kept"
            ),
        })
    }

    /// Returns whether the dumps of a file are kept.
    pub(super) fn keeps(&self, name: &str) -> bool {
        self.known.files.contains_key(name)
    }

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
        for warning in &self.known.warnings {
            if self.keeps(&warning.file) && !read.contains_key(&warning.file) {
                dataset.repeat_warning(warning.clone());
            }
        }
    }

    /// Returns the total players of a live step that need not be read: neither it nor the islands have changed.
    pub(super) fn kept_players(&self, step: &str) -> Option<u128> {
        let players = self.known.players.get(step).copied();
        players.filter(|_| self.keeps(step) && self.keeps(DatasetReader::ISLANDS))
    }

    /// Fails if a file whose dumps are kept was replaced between its comparison and its reading: the rendered bodies would
    /// have its new content, and its dumps the old one.
    pub(super) fn expect_unreplaced(&self, dataset: &DatasetReader<'_>) -> Result<(), LoadError> {
        for name in dataset.stamps().keys() {
            let kept = self.known.files.get(name);
            if kept.is_some() && kept != Some(&dataset.stamp(name)?) {
                let problem = format!("{name} was replaced during the publish; publish again");
                return Err(LoadError::Io(io::Error::other(problem)));
            }
        }
        Ok(())
    }

    /// Returns the list of all files that were read and of those that are kept, for the next publish.
    pub(super) fn into_sources(
        self,
        dataset: &DatasetReader<'_>,
        published: Manifest,
        (live, warnings): (&LiveInput, &Faults),
    ) -> Sources {
        let read = dataset.stamps().into_iter();
        let names = dataset.steps.iter().copied().map(DatasetReader::step_name);
        Sources {
            program: Sources::program(),
            published,
            files: read.chain(self.known.files).collect(),
            players: names.zip(live.totals.iter().map(|total| total.1)).collect(),
            warnings: warnings.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use crate::calendar::UnixSeconds;
    use crate::dataset::Files;
    use crate::durable;
    use crate::publish::{PublishEvent, PublishOptions, publish};

    #[test]
    fn a_kept_file_that_is_replaced_before_it_is_read_fails_the_publish() {
        const LIVE: &str = "live/1795262400.csv";
        let root = std::env::temp_dir().join(format!("im-replaced-{}", std::process::id()));
        let [dataset, directory] = ["dataset", "published"].map(|name| root.join(name));
        let write = |name: &str, text: &str| {
            let path = dataset.join(name);
            durable::create_directory(path.parent().unwrap()).unwrap();
            durable::replace(&path, text.as_bytes()).unwrap();
        };
        let publish_at = |seconds: i64, during: &dyn Fn()| {
            let options = PublishOptions {
                directory: &directory,
                published: Some(UnixSeconds(1_795_262_700 + seconds)),
                force: false,
                full: false,
                strict: false,
                credit: "",
            };
            // A stamp identifies the content of a file that was not written to shortly before.
            sleep(Duration::from_millis(100));
            let notify = &mut |event: PublishEvent<'_>| {
                if matches!(event, PublishEvent::Progress { .. }) {
                    during();
                }
            };
            let published = publish(&Files::Directory(dataset.clone()), &options, notify);
            published.map(drop).map_err(|error| error.to_string())
        };
        write(
            "islands.csv",
            "code,title,creator,createdIn,tags\n0000-0000-0001,A,,,\n",
        );
        write("ccu/2026-11-20.csv", "code,peakCCU\n0000-0000-0001,1\n");
        write(LIVE, "code,players\n0000-0000-0001,1\n");
        assert_eq!(publish_at(0, &|| ()), Ok(()));
        // Its days are read before the live step.
        write("ccu/2026-11-20.csv", "code,peakCCU\n0000-0000-0001,2\n");
        let replace = || write(LIVE, "code,players\n0000-0000-0001,2\n");
        let problem = format!("{LIVE} was replaced during the publish; publish again");
        assert_eq!(publish_at(1, &replace), Err(problem));
        assert_eq!(publish_at(2, &|| ()), Ok(()));
        std::fs::remove_dir_all(root).unwrap();
    }
}
