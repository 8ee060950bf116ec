//! Tables: reads those that changed or are rendered again, and links or writes their dumps.

use super::changes::Changes;
use super::dumps_writer::DumpsWriter;
use super::error::PublishError;
use super::live_payload::LiveInput;
use super::options::{EventSink, PublishEvent};
use super::packed_day::PackedDay;
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{Catalogue, Cell, DatasetReader, Day, DayFiles, FileKind, Island, Profile};
use crate::sync::{cores, in_order};

/// Threads per core that read days and write dumps. More than one, since half of them wait for the
/// disk.
const THREADS_PER_CORE: usize = 2;

/// The tables of a dataset in a publish.
pub(super) struct Tables<'a> {
    pub(super) dataset: &'a DatasetReader<'a>,
    pub(super) changes: &'a Changes,
    pub(super) dumps: &'a mut DumpsWriter,
    pub(super) notify: EventSink<'a>,
}

impl Tables<'_> {
    /// Reads islands.csv, and creators.csv if it is rendered or dumped.
    pub(super) fn catalogue(&mut self) -> Result<Catalogue, PublishError> {
        let islands_kept = self.keep(DatasetReader::ISLANDS);
        let has_creators = self.dataset.stamp(DatasetReader::CREATORS)?.is_some();
        let dump_creators = has_creators && !self.keep(DatasetReader::CREATORS);
        let catalogue = if self.changes.kept_history.is_some() && !dump_creators {
            self.dataset.islands_only()?
        } else {
            self.dataset.catalogue()?
        };
        if !islands_kept {
            let rows = catalogue.islands.iter().map(Island::cells);
            self.dumps
                .write(DatasetReader::ISLANDS, FileKind::Islands, &rows)?;
        }
        if dump_creators {
            let rows = catalogue.profiles.iter().map(Profile::cells);
            self.dumps
                .write(DatasetReader::CREATORS, FileKind::Creators, &rows)?;
        }
        Ok(catalogue)
    }

    /// Reads the days: all of them, or those to dump if the history payload is kept.
    pub(super) fn days(
        &mut self,
        catalogue: &Catalogue,
    ) -> Result<Vec<(UtcDay, PackedDay)>, PublishError> {
        let mut wanted = Vec::new();
        for files in self.dataset.days() {
            let is_kept = self
                .dumps
                .keep(self.changes.is_same_day(files), files.names());
            if !is_kept || self.changes.kept_history.is_none() {
                wanted.push((files, is_kept));
            }
        }
        let (dataset, dumps) = (self.dataset, &*self.dumps);
        let read = |at: usize| {
            let (files, is_kept) = wanted[at];
            let day = dataset.day(catalogue, files)?;
            if !is_kept {
                dump_day(dumps, catalogue, files, &day)?;
            }
            Ok((files.day, PackedDay::new(&day, catalogue.islands.len())))
        };
        read_all("reading days", wanted.len(), read, self.notify)
    }

    /// Reads the latest live step and the changed ones, or all of them if islands.csv changed, and
    /// the platform totals.
    pub(super) fn live(&mut self, catalogue: &Catalogue) -> Result<LiveInput, PublishError> {
        let steps = self.dataset.steps();
        let islands_changed = !self.changes.is_same(DatasetReader::ISLANDS);
        let (mut totals, mut wanted) = (Vec::new(), Vec::new());
        for (at, step) in steps.iter().enumerate() {
            let is_kept = self.keep(&step.name);
            let must_read = islands_changed || !is_kept || at + 1 == steps.len();
            let total = self.changes.players(&step.name).filter(|_| !must_read);
            if total.is_none() {
                wanted.push((at, is_kept));
            }
            totals.push((step.time, total.unwrap_or(0)));
        }
        let (dataset, dumps) = (self.dataset, &*self.dumps);
        let read = |number: usize| {
            let (at, is_kept) = wanted[number];
            let step = dataset.step(catalogue, &steps[at])?;
            if !is_kept {
                let rows = step.players.iter().map(|(island, players)| {
                    let code = catalogue.islands[*island as usize].code;
                    [Cell::Code(code), Cell::Count(Some(*players))]
                });
                dumps.write(&steps[at].name, FileKind::Live, &rows)?;
            }
            Ok((
                at,
                step.total(),
                Some(step).filter(|_| at + 1 == steps.len()),
            ))
        };
        let read = read_all("reading live steps", wanted.len(), read, self.notify)?;
        let mut latest = None;
        for (at, total, step) in read {
            totals[at].1 = total;
            latest = step;
        }
        Ok(LiveInput {
            latest,
            totals,
            platform: self.platform()?,
        })
    }

    fn platform(&mut self) -> Result<Option<Vec<(UnixSeconds, u64)>>, PublishError> {
        let name = DatasetReader::PLATFORM;
        let points = self.dataset.platform()?;
        if let Some(points) = points.as_ref().filter(|_| !self.keep(name)) {
            let rows = points.iter();
            let rows = rows.map(|(time, players)| [Cell::Time(*time), Cell::Count(Some(*players))]);
            self.dumps.write(name, FileKind::Platform, &rows)?;
        }
        Ok(points)
    }

    /// Links the dumps of a table of one file. Returns false if they must be written.
    fn keep(&mut self, name: &str) -> bool {
        self.dumps
            .keep(self.changes.is_same(name), std::iter::once(name))
    }
}

/// Reads `count` items in parallel, and reports progress under the name `what`.
fn read_all<T: Send>(
    what: &'static str,
    count: usize,
    read: impl Fn(usize) -> Result<T, PublishError> + Sync,
    notify: EventSink<'_>,
) -> Result<Vec<T>, PublishError> {
    let mut all = Vec::with_capacity(count);
    in_order(
        (cores() * THREADS_PER_CORE, count),
        || (),
        |(), at| read(at),
        |_, item| {
            all.push(item?);
            let done = all.len();
            notify(PublishEvent::Progress {
                what,
                done,
                all: count,
            });
            Ok::<(), PublishError>(())
        },
    )?;
    Ok(all)
}

fn dump_day(
    dumps: &DumpsWriter,
    catalogue: &Catalogue,
    files: &DayFiles,
    day: &Day,
) -> Result<(), PublishError> {
    let code = |island: u32| catalogue.islands[island as usize].code;
    if let Some(name) = &files.daily {
        let rows = day.daily.iter();
        let rows = rows.map(|row| row.metrics.cells(code(row.island)));
        dumps.write(name, FileKind::Daily, &rows)?;
    }
    if let Some(name) = &files.ccu {
        let rows = day.ccu.iter();
        let rows = rows.map(|row| [Cell::Code(code(row.island)), Cell::Count(row.peak_ccu)]);
        dumps.write(name, FileKind::Ccu, &rows)?;
    }
    Ok(())
}
