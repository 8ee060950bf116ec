//! One publish at work: tables read, dumps kept or written, payloads rendered.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::changes::Changes;
use super::directory::PAYLOAD;
use super::dumps::DumpsWriter;
use super::error::{PublishError, at};
use super::held::Held;
use super::live::Now;
use super::order::{Event, Options, Tell};
use super::packed::PackedDay;
use super::{history, live};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{Catalogue, Day, DayFiles, FileKind, LiveStep, RowReader, Source, StepFile};
use crate::durable::{Replacement, UNFINISHED};
use crate::snapshot::{Payload, Written};
use crate::sync::{cores, in_order};

/// Threads that read days and write dumps: more than cores, since half of them wait for the disk.
const THREADS_A_CORE: usize = 2;

/// A publish at work.
pub(super) struct Work<'a> {
    source: &'a Source<'a>,
    changes: &'a Changes,
    dumps: &'a DumpsWriter,
    options: &'a Options<'a>,
    tell: Tell<'a>,
    /// All players of each live step, by the name of its file.
    pub(super) totals: BTreeMap<String, u128>,
}

/// Which tables are the same as before, their dumps kept; `None` for one that the dataset lacks.
struct Kept {
    islands: bool,
    creators: Option<bool>,
    platform: Option<bool>,
    days: Vec<bool>,
    steps: Vec<bool>,
}

impl Kept {
    fn counts(&self) -> (usize, usize) {
        let single = [Some(self.islands), self.creators, self.platform];
        let all = || single.iter().flatten().chain(&self.days).chain(&self.steps);
        (all().filter(|kept| **kept).count(), all().count())
    }
}

/// The name of a table without its `.csv`.
fn stem(name: &str) -> String {
    name.strip_suffix(".csv").unwrap_or(name).to_owned()
}

impl<'a> Work<'a> {
    pub(super) fn new(
        source: &'a Source<'a>,
        changes: &'a Changes,
        dumps: &'a DumpsWriter,
        options: &'a Options<'a>,
        tell: Tell<'a>,
    ) -> Work<'a> {
        Work {
            source,
            changes,
            dumps,
            options,
            tell,
            totals: BTreeMap::new(),
        }
    }

    /// Makes what has changed: the history payload, the live payload, the dumps' files. Tells the
    /// payloads and how many islands there are.
    pub(super) fn publish(&mut self) -> Result<(Payload, Payload, usize), PublishError> {
        let kept = self.keep()?;
        let (count, all) = kept.counts();
        (self.tell)(Event::Decided(&self.changes.line(count, all)));
        let kept_history = self.changes.kept_history.clone();
        let catalogue = if kept_history.is_some() && kept.creators != Some(false) {
            self.source.islands_alone()?
        } else {
            self.source.catalogue()?
        };
        self.dump_catalogue(&catalogue, &kept)?;
        let days = self.days(&catalogue, &kept)?;
        let now = self.now(&catalogue, &kept)?;
        self.source.sound()?;
        let history = match kept_history {
            Some(history) => history,
            None => self.history(&Held::new(&catalogue, days))?,
        };
        let published = self.options.published;
        let live = payload(self.options.directory, "live", published, |out| {
            live::write(&catalogue.islands, &now, published, out)
        })?;
        Ok((history, live, catalogue.islands.len()))
    }

    /// Keeps the dumps of tables that are the same as before.
    fn keep(&self) -> Result<Kept, PublishError> {
        let same = |name: &str| self.changes.unchanged(name).is_some();
        let keep = |name: &str| same(name) && self.dumps.keep(&[stem(name)]);
        let day = |files: &DayFiles| {
            let stems: Vec<String> = files.names().map(stem).collect();
            self.changes.is_same_day(files) && self.dumps.keep(&stems)
        };
        let optional = |name: &str| -> Result<Option<bool>, PublishError> {
            Ok(self.source.stamp(name)?.map(|_| keep(name)))
        };
        Ok(Kept {
            islands: keep(Source::ISLANDS),
            creators: optional(Source::CREATORS)?,
            platform: optional(Source::PLATFORM)?,
            days: self.source.days().iter().map(day).collect(),
            steps: self
                .source
                .steps()
                .iter()
                .map(|step| keep(&step.name))
                .collect(),
        })
    }

    fn dump_catalogue(&self, catalogue: &Catalogue, kept: &Kept) -> Result<(), PublishError> {
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

    /// Reads the days that are asked for, and dumps those that are not kept. Without a history to
    /// render, only what is dumped is read.
    fn days(
        &mut self,
        catalogue: &Catalogue,
        kept: &Kept,
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
        let work = |reader: &mut RowReader<'_>, at: usize| {
            let (files, kept) = asked[at];
            let day = reader.day(files)?;
            if !kept {
                dump_day(dumps, catalogue, files, &day)?;
            }
            Ok(PackedDay::new(&day, catalogue.islands.len()))
        };
        in_order(
            (cores() * THREADS_A_CORE, asked.len()),
            || RowReader::new(source, catalogue),
            work,
            |at, day: Result<PackedDay, PublishError>| {
                packed.push((asked[at].0.day, day?));
                (self.tell)(Event::Progress {
                    what: "reading days",
                    done: at + 1,
                    all: asked.len(),
                });
                Ok::<(), PublishError>(())
            },
        )?;
        Ok(packed)
    }

    /// Reads the newest live step, and those that have changed; dumps what is not kept.
    fn now(&mut self, catalogue: &Catalogue, kept: &Kept) -> Result<Now, PublishError> {
        let source = self.source;
        let steps = source.steps();
        let mut newest = None;
        let mut totals = Vec::with_capacity(steps.len());
        let mut reader = RowReader::new(source, catalogue);
        for (at, (file, kept)) in steps.iter().zip(&kept.steps).enumerate() {
            let known = self
                .changes
                .unchanged(&file.name)
                .and_then(|same| same.players);
            let is_newest = at + 1 == steps.len();
            let total = if let Some(total) = known.filter(|_| *kept && !is_newest) {
                total
            } else {
                let step = reader.step(file)?;
                if !kept {
                    self.dump_step(catalogue, file, &step)?;
                }
                let total = step.total();
                newest = is_newest.then_some(step);
                total
            };
            totals.push((file.time, total));
            self.totals.insert(file.name.clone(), total);
        }
        let platform = source.platform()?;
        if let Some(points) = platform.as_ref().filter(|_| kept.platform == Some(false)) {
            self.dumps.write("platform", FileKind::Platform, |file| {
                points
                    .iter()
                    .try_for_each(|(time, players)| file.point(*time, *players))
            })?;
        }
        Ok(Now::new(newest, platform, totals))
    }

    fn dump_step(
        &self,
        catalogue: &Catalogue,
        file: &StepFile,
        step: &LiveStep,
    ) -> Result<(), PublishError> {
        self.dumps.write(&stem(&file.name), FileKind::Live, |file| {
            step.players.iter().try_for_each(|(island, players)| {
                file.players(catalogue.islands[*island as usize].code, *players)
            })
        })
    }

    fn history(&mut self, held: &Held<'_>) -> Result<Payload, PublishError> {
        let (published, directory) = (self.options.published, self.options.directory);
        let tell = &mut self.tell;
        payload(directory, "history", published, |out| {
            history::write(held, published, out, &mut |done, all| {
                tell(Event::Progress {
                    what: "rendering bodies",
                    done,
                    all,
                });
            })
        })
    }
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

/// Writes a payload file beside the others; tells what a manifest says of it.
fn payload(
    directory: &Path,
    kind: &str,
    published: UnixSeconds,
    write: impl FnOnce(Replacement) -> io::Result<(Replacement, Written)>,
) -> Result<Payload, PublishError> {
    let unfinished = directory.join(format!("{kind}{UNFINISHED}"));
    let begun = Replacement::begin(directory, kind).map_err(at(&unfinished))?;
    let (file, written) = write(begun).map_err(at(&unfinished))?;
    let checksum = format!("{:08x}", written.checksum);
    let name = format!("{kind}-{}-{checksum}{PAYLOAD}", published.compact());
    let path = directory.join(&name);
    file.finish(&path).map_err(at(&path))?;
    Ok(Payload {
        file: name,
        bytes: written.bytes,
        checksum,
        generated_at: published.to_string(),
    })
}
