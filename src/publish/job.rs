//! One publish: reads tables, links or writes dumps, renders payloads.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::changes::Changes;
use super::directory::{HISTORY_PREFIX, LIVE_PREFIX, PAYLOAD_SUFFIX};
use super::dumps_writer::DumpsWriter;
use super::error::{PublishError, at};
use super::history_input::HistoryInput;
use super::live_payload::LiveInput;
use super::options::{EventSink, PublishEvent, PublishOptions};
use super::packed_day::PackedDay;
use super::{history_payload, live_payload};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{Catalogue, DatasetReader, Day, DayFiles, FileKind, LiveStep, StepFile};
use crate::durable::{AtomicFile, TEMP_SUFFIX};
use crate::snapshot::{Payload, Written};
use crate::sync::{cores, in_order};

/// Threads per core that read days and write dumps. More than one, since half of them wait for the disk.
const THREADS_PER_CORE: usize = 2;

/// State of a publish.
pub(super) struct PublishJob<'a> {
    source: &'a DatasetReader<'a>,
    changes: &'a Changes,
    dumps: &'a DumpsWriter,
    options: &'a PublishOptions<'a>,
    notify: EventSink<'a>,
    /// Total players of each live step, by file name.
    pub(super) totals: BTreeMap<String, u128>,
}

/// Output of a publish, not yet in the manifest.
pub(super) struct JobOutput {
    pub(super) history: Payload,
    pub(super) live: Payload,
    /// Number of islands in the dataset.
    pub(super) islands: usize,
    /// Summary line: what was rendered and kept, and why.
    pub(super) summary: String,
}

/// Tables whose dumps are kept; `None` for a table that the dataset does not have.
struct KeptTables {
    islands: bool,
    creators: Option<bool>,
    platform: Option<bool>,
    days: Vec<bool>,
    steps: Vec<bool>,
}

impl KeptTables {
    fn counts(&self) -> (usize, usize) {
        let single = [Some(self.islands), self.creators, self.platform];
        let all = || single.iter().flatten().chain(&self.days).chain(&self.steps);
        (all().filter(|kept| **kept).count(), all().count())
    }
}

/// Returns the name of a table without `.csv`.
fn stem(name: &str) -> String {
    name.strip_suffix(".csv").unwrap_or(name).to_owned()
}

impl<'a> PublishJob<'a> {
    pub(super) fn new(
        source: &'a DatasetReader<'a>,
        changes: &'a Changes,
        dumps: &'a DumpsWriter,
        options: &'a PublishOptions<'a>,
        notify: EventSink<'a>,
    ) -> PublishJob<'a> {
        PublishJob {
            source,
            changes,
            dumps,
            options,
            notify,
            totals: BTreeMap::new(),
        }
    }

    /// Renders the changed payloads and writes the changed dumps.
    pub(super) fn run(&mut self) -> Result<JobOutput, PublishError> {
        let kept = self.keep()?;
        let kept_history = self.changes.kept_history.clone();
        let catalogue = if kept_history.is_some() && kept.creators != Some(false) {
            self.source.islands_only()?
        } else {
            self.source.catalogue()?
        };
        self.dump_catalogue(&catalogue, &kept)?;
        let days = self.days(&catalogue, &kept)?;
        let now = self.now(&catalogue, &kept)?;
        self.source.finish_checks()?;
        let history = match kept_history {
            Some(history) => history,
            None => self.history(&HistoryInput::new(&catalogue, days))?,
        };
        let published = self.options.published;
        let live = payload(self.options.directory, LIVE_PREFIX, published, |out| {
            live_payload::write(&catalogue.islands, &now, published, out)
        })?;
        let (count, all) = kept.counts();
        Ok(JobOutput {
            history,
            live,
            islands: catalogue.islands.len(),
            summary: self.changes.line(count, all),
        })
    }

    /// Links the dumps of unchanged tables.
    fn keep(&self) -> Result<KeptTables, PublishError> {
        let same = |name: &str| self.changes.unchanged.contains_key(name);
        let keep = |name: &str| same(name) && self.dumps.keep(&[stem(name)]);
        let day = |files: &DayFiles| {
            let stems: Vec<String> = files.names().map(stem).collect();
            self.changes.is_same_day(files) && self.dumps.keep(&stems)
        };
        let optional = |name: &str| -> Result<Option<bool>, PublishError> {
            Ok(self.source.stamp(name)?.map(|_| keep(name)))
        };
        Ok(KeptTables {
            islands: keep(DatasetReader::ISLANDS),
            creators: optional(DatasetReader::CREATORS)?,
            platform: optional(DatasetReader::PLATFORM)?,
            days: self.source.days().iter().map(day).collect(),
            steps: self
                .source
                .steps()
                .iter()
                .map(|step| keep(&step.name))
                .collect(),
        })
    }

    fn dump_catalogue(&self, catalogue: &Catalogue, kept: &KeptTables) -> Result<(), PublishError> {
        if !kept.islands {
            self.dumps.write("islands", FileKind::Islands, |file| {
                catalogue
                    .islands
                    .iter()
                    .try_for_each(|island| file.island(island))
            })?;
        }
        if kept.creators == Some(false) {
            self.dumps.write("creators", FileKind::Creators, |file| {
                catalogue
                    .profiles
                    .iter()
                    .try_for_each(|profile| file.profile(profile))
            })?;
        }
        Ok(())
    }

    /// Reads days and writes the dumps that are not kept. If the history payload is kept, only the days
    /// to dump are read.
    fn days(
        &mut self,
        catalogue: &Catalogue,
        kept: &KeptTables,
    ) -> Result<Vec<(UtcDay, PackedDay)>, PublishError> {
        let (source, dumps) = (self.source, self.dumps);
        let renders = self.changes.kept_history.is_none();
        let asked: Vec<(&DayFiles, bool)> = source
            .days()
            .iter()
            .zip(kept.days.iter().copied())
            .filter(|(_, kept)| renders || !kept)
            .collect();
        let mut packed = Vec::with_capacity(asked.len());
        let work = |(): &mut (), at: usize| {
            let (files, kept) = asked[at];
            let day = source.day(catalogue, files)?;
            if !kept {
                dump_day(dumps, catalogue, files, &day)?;
            }
            Ok(PackedDay::new(&day, catalogue.islands.len()))
        };
        in_order(
            (cores() * THREADS_PER_CORE, asked.len()),
            || (),
            work,
            |at, day: Result<PackedDay, PublishError>| {
                packed.push((asked[at].0.day, day?));
                (self.notify)(PublishEvent::Progress {
                    what: "reading days",
                    done: at + 1,
                    all: asked.len(),
                });
                Ok::<(), PublishError>(())
            },
        )?;
        Ok(packed)
    }

    /// Reads the latest live step and the changed ones, or all of them if islands.csv changed, and
    /// writes the dumps that are not kept.
    fn now(&mut self, catalogue: &Catalogue, kept: &KeptTables) -> Result<LiveInput, PublishError> {
        let source = self.source;
        let steps = source.steps();
        let same_islands = self.changes.unchanged.contains_key(DatasetReader::ISLANDS);
        let known = |at: usize| {
            let same = self.changes.unchanged.get(&steps[at].name)?;
            let may_be_kept = same_islands && kept.steps[at] && at + 1 < steps.len();
            same.players.filter(|_| may_be_kept)
        };
        let known: Vec<Option<u128>> = (0..steps.len()).map(known).collect();
        let asked: Vec<usize> = (0..steps.len()).filter(|at| known[*at].is_none()).collect();
        let (dumps, mut newest, mut totals) = (self.dumps, None, known);
        let work = |(): &mut (), at: usize| {
            let file = &steps[asked[at]];
            let step = source.step(catalogue, file)?;
            if !kept.steps[asked[at]] {
                dump_step(dumps, catalogue, file, &step)?;
            }
            Ok(step)
        };
        in_order(
            (cores() * THREADS_PER_CORE, asked.len()),
            || (),
            work,
            |at, step: Result<LiveStep, PublishError>| {
                let step = step?;
                totals[asked[at]] = Some(step.total());
                newest = (asked[at] + 1 == steps.len()).then_some(step);
                (self.notify)(PublishEvent::Progress {
                    what: "reading live steps",
                    done: at + 1,
                    all: asked.len(),
                });
                Ok::<(), PublishError>(())
            },
        )?;
        let totals = steps.iter().zip(totals.into_iter().flatten());
        let totals: Vec<(&StepFile, u128)> = totals.collect();
        let named = totals
            .iter()
            .map(|(file, total)| (file.name.clone(), *total));
        self.totals = named.collect();
        let platform = source.platform()?;
        if let Some(points) = platform.as_ref().filter(|_| kept.platform == Some(false)) {
            self.dumps.write("platform", FileKind::Platform, |file| {
                let mut points = points.iter();
                points.try_for_each(|(time, players)| file.point(*time, *players))
            })?;
        }
        let sums = totals.iter().map(|(file, total)| (file.time, *total));
        Ok(LiveInput::new(newest, platform, sums.collect()))
    }

    fn history(&mut self, input: &HistoryInput<'_>) -> Result<Payload, PublishError> {
        let (published, directory) = (self.options.published, self.options.directory);
        let notify = &mut self.notify;
        payload(directory, HISTORY_PREFIX, published, |out| {
            history_payload::write(input, published, out, &mut |done, all| {
                notify(PublishEvent::Progress {
                    what: "rendering bodies",
                    done,
                    all,
                });
            })
        })
    }
}

fn dump_step(
    dumps: &DumpsWriter,
    catalogue: &Catalogue,
    file: &StepFile,
    step: &LiveStep,
) -> Result<(), PublishError> {
    dumps.write(&stem(&file.name), FileKind::Live, |file| {
        step.players.iter().try_for_each(|(island, players)| {
            file.players(catalogue.islands[*island as usize].code, *players)
        })
    })
}

fn dump_day(
    dumps: &DumpsWriter,
    catalogue: &Catalogue,
    files: &DayFiles,
    day: &Day,
) -> Result<(), PublishError> {
    let code = |island: u32| catalogue.islands[island as usize].code;
    if let Some(name) = &files.daily {
        dumps.write(&stem(name), FileKind::Daily, |file| {
            let mut rows = day.daily.iter();
            rows.try_for_each(|row| file.day(code(row.island), &row.metrics))
        })?;
    }
    if let Some(name) = &files.ccu {
        dumps.write(&stem(name), FileKind::Ccu, |file| {
            let mut rows = day.ccu.iter();
            rows.try_for_each(|row| file.peak(code(row.island), row.peak_ccu))
        })?;
    }
    Ok(())
}

/// Writes a payload file. Returns its entry for the manifest.
fn payload(
    directory: &Path,
    kind: &str,
    published: UnixSeconds,
    write: impl FnOnce(AtomicFile) -> io::Result<(AtomicFile, Written)>,
) -> Result<Payload, PublishError> {
    let unfinished = directory.join(format!("{kind}{TEMP_SUFFIX}"));
    let begun = AtomicFile::create(directory, kind).map_err(at(&unfinished))?;
    let (file, written) = write(begun).map_err(at(&unfinished))?;
    let checksum = format!("{:08x}", written.checksum);
    let name = format!("{kind}-{}-{checksum}{PAYLOAD_SUFFIX}", published.compact());
    let path = directory.join(&name);
    file.commit(&path).map_err(at(&path))?;
    Ok(Payload {
        file: name,
        bytes: written.bytes,
        checksum,
        generated_at: published.to_string(),
    })
}
