//! Tables: reads those that changed or are rendered again, and links or writes their dumps.

use super::changes::Changes;
use super::dumps_writer::DumpsWriter;
use super::live_payload::LiveInput;
use super::options::PublishError;
use super::options::{EventSink, PublishEvent};
use super::packed_day::PackedDay;
use super::whole_files::{DayParts, WholeFiles};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{Catalogue, Cell, DatasetReader, DayFiles, DayRow, FileKind, Island, Profile};
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

    /// Reads the days: all of them, or those to dump if the history payload is kept. Writes the
    /// dumps of many days if one of them changed.
    pub(super) fn days(
        &mut self,
        catalogue: &Catalogue,
    ) -> Result<Vec<(UtcDay, PackedDay)>, PublishError> {
        let days = &self.dataset.days;
        let keep = |files: &DayFiles| {
            let is_same = self.changes.is_same_day(files);
            self.dumps.keep(is_same, files.names())
        };
        let kept: Vec<bool> = days.iter().map(keep).collect();
        let (dataset, dumps) = (self.dataset, &*self.dumps);
        // A history that is kept has the same days.
        let is_rendered = self.changes.kept_history.is_none();
        let is_whole_kept = !is_rendered && !kept.contains(&false) && dumps.keep_whole();
        let mut whole = if is_whole_kept {
            None
        } else {
            Some(WholeFiles::create(dumps, days)?)
        };
        let has_whole = whole.is_some();
        let read = |at: usize| {
            let files = &days[at];
            if kept[at] && !is_rendered && !has_whole {
                return Ok((files.day, None, None));
            }
            let day = dataset.day(catalogue, files)?;
            if !kept[at] {
                dump_day(dumps, catalogue, files, &day)?;
            }
            let render = || {
                let parts = DayParts::render(catalogue, (files.day, &day));
                parts.expect("writing to memory does not fail")
            };
            let parts = has_whole.then(render);
            let packed = is_rendered.then(|| PackedDay::new(&day, catalogue.islands.len()));
            Ok((files.day, packed, parts))
        };
        let mut packed_days = Vec::with_capacity(days.len());
        let deliver = |(day, packed, parts): (UtcDay, Option<PackedDay>, Option<DayParts>)| {
            packed_days.extend(packed.map(|packed| (day, packed)));
            match (&mut whole, parts) {
                (Some(whole), Some(parts)) => whole.append(day, &parts, dumps),
                _ => Ok(()),
            }
        };
        read_all("reading days", days.len(), read, deliver, self.notify)?;
        whole.map_or(Ok(()), |whole| whole.finish(dumps))?;
        Ok(packed_days)
    }

    /// Reads the latest live step and the changed ones, or all of them if islands.csv changed, and
    /// the platform totals.
    pub(super) fn live(&mut self, catalogue: &Catalogue) -> Result<LiveInput, PublishError> {
        let steps = &self.dataset.steps;
        let kept: Vec<bool> = steps.iter().map(|step| self.keep(&step.name)).collect();
        let islands_changed = !self.changes.is_same(DatasetReader::ISLANDS);
        let (dataset, changes, dumps) = (self.dataset, self.changes, &*self.dumps);
        let read = |at: usize| {
            let (step, is_latest) = (&steps[at], at + 1 == steps.len());
            let must_read = islands_changed || !kept[at] || is_latest;
            if let Some(total) = changes.players(&step.name).filter(|_| !must_read) {
                return Ok((step.time, total, None));
            }
            let read = dataset.step(catalogue, step)?;
            if !kept[at] {
                let rows = read.players.iter().map(|(island, players)| {
                    let code = catalogue.islands[*island as usize].code;
                    [Cell::Code(code), Cell::Count(Some(*players))]
                });
                dumps.write(&step.name, FileKind::Live, &rows)?;
            }
            Ok((step.time, read.total(), is_latest.then_some(read)))
        };
        let (mut totals, mut latest) = (Vec::with_capacity(steps.len()), None);
        let deliver = |(time, total, step)| {
            totals.push((time, total));
            latest = step;
            Ok(())
        };
        read_all(
            "reading live steps",
            steps.len(),
            read,
            deliver,
            self.notify,
        )?;
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

/// Reads `count` items in parallel, delivers them in order, and reports progress under the name
/// `what`.
fn read_all<T: Send>(
    what: &'static str,
    count: usize,
    read: impl Fn(usize) -> Result<T, PublishError> + Sync,
    mut deliver: impl FnMut(T) -> Result<(), PublishError>,
    notify: EventSink<'_>,
) -> Result<(), PublishError> {
    in_order(
        (cores() * THREADS_PER_CORE, count),
        || (),
        |(), at| read(at),
        |at, item| {
            deliver(item?)?;
            notify(PublishEvent::Progress {
                what,
                done: at + 1,
                all: count,
            });
            Ok(())
        },
    )
}

fn dump_day(
    dumps: &DumpsWriter,
    catalogue: &Catalogue,
    files: &DayFiles,
    rows: &[DayRow],
) -> Result<(), PublishError> {
    let code = |row: &DayRow| catalogue.islands[row.island as usize].code;
    for (kind, name) in &files.files {
        let is_daily = *kind == FileKind::Daily;
        let rows = rows.iter().filter(|row| row.is_daily == is_daily);
        dumps.write(name, *kind, &rows.map(|row| row.cells(code(row))))?;
    }
    Ok(())
}
