//! Tables: reads those that payloads need, and writes the dumps of those that changed.

use super::dumps_writer::DumpsWriter;
use super::live_payload::LiveInput;
use super::options::{EventSink, PublishError, PublishEvent};
use super::packed_day::PackedDay;
use super::whole_files::{DayText, WholeFile};
use crate::dataset::{Catalogue, Cell, DatasetReader, DayRow, FileKind, Island, Profile};
use crate::sync::{cores, in_order};

/// The input of payloads, and of the index of the dumps.
pub(super) struct PayloadInput {
    pub(super) catalogue: Catalogue,
    /// Empty if the history is kept.
    pub(super) days: Vec<PackedDay>,
    pub(super) live: LiveInput,
    /// The dataset's own notice.
    pub(super) notice: Option<String>,
}

/// Reads the tables for payloads, and writes their dumps.
pub(super) fn read(
    dataset: &DatasetReader<'_>,
    dumps: &DumpsWriter<'_>,
    notify: EventSink<'_>,
) -> Result<PayloadInput, PublishError> {
    let notice = dataset.notice()?;
    if let Some(notice) = &notice {
        dumps.write_notice(notice)?;
    }
    let (catalogue, days) = if dumps.plan.kept_history.is_some() {
        (dataset.islands_only()?, Vec::new())
    } else {
        let catalogue = read_catalogue(dataset, dumps)?;
        let days = read_days(dataset, dumps, &catalogue, notify)?;
        (catalogue, days)
    };
    let live = read_live(dataset, dumps, &catalogue, notify)?;
    dataset.find_unread_entries()?;
    dumps.plan.repeat_warnings(dataset);
    dataset.finish_checks()?;
    Ok(PayloadInput {
        catalogue,
        days,
        live,
        notice,
    })
}

fn read_catalogue(
    dataset: &DatasetReader<'_>,
    dumps: &DumpsWriter<'_>,
) -> Result<Catalogue, PublishError> {
    let (islands, creators) = (DatasetReader::ISLANDS, DatasetReader::CREATORS);
    let catalogue = dataset.catalogue()?;
    let rows = catalogue.islands.iter().map(Island::cells);
    dumps.write(islands, FileKind::Islands, rows)?;
    if dataset.stamp(creators)?.is_some() {
        let rows = catalogue.profiles.iter().map(Profile::cells);
        dumps.write(creators, FileKind::Creators, rows)?;
    }
    Ok(catalogue)
}

/// Reads all days, and writes the dumps of many days.
fn read_days(
    dataset: &DatasetReader<'_>,
    dumps: &DumpsWriter<'_>,
    catalogue: &Catalogue,
    notify: EventSink<'_>,
) -> Result<Vec<PackedDay>, PublishError> {
    let (days, islands) = (&dataset.days, &catalogue.islands);
    let mut whole = WholeFile::create_all(dumps, days)?;
    let read = |at: usize| {
        let files = &days[at];
        let rows = dataset.day(catalogue, files)?;
        for (kind, name) in &files.files {
            let is_daily = *kind == FileKind::Daily;
            let of_kind = rows.iter().filter(|row| row.is_daily == is_daily);
            let code = |row: &DayRow| islands[row.island as usize].code;
            dumps.write(name, *kind, of_kind.map(|row| row.cells(code(row))))?;
        }
        let text = DayText::new(catalogue, files.day, &rows);
        Ok((PackedDay::new(files.day, &rows, islands.len()), text))
    };
    let mut packed_days = Vec::with_capacity(days.len());
    let deliver = |(packed, text): (PackedDay, DayText)| {
        let mut files = whole.iter_mut();
        files.try_for_each(|file| file.append(packed.day, &text))?;
        packed_days.push(packed);
        Ok(())
    };
    read_all("reading days", days.len(), read, deliver, notify)?;
    whole.into_iter().try_for_each(WholeFile::finish)?;
    Ok(packed_days)
}

/// Reads the latest live step and those that are not kept, and the platform totals.
fn read_live(
    dataset: &DatasetReader<'_>,
    dumps: &DumpsWriter<'_>,
    catalogue: &Catalogue,
    notify: EventSink<'_>,
) -> Result<LiveInput, PublishError> {
    let steps = &dataset.steps;
    let read = |at: usize| {
        let step = &steps[at];
        let kept = dumps.plan.kept_players(&step.name);
        if let Some(players) = kept.filter(|_| at + 1 < steps.len()) {
            return Ok(((step.time, players), None));
        }
        let read = dataset.step(catalogue, step)?;
        let rows = read.players.iter().map(|(island, players)| {
            let code = catalogue.islands[*island as usize].code;
            [Cell::Code(code), Cell::Count(Some(*players))]
        });
        dumps.write(&step.name, FileKind::Live, rows)?;
        Ok(((step.time, read.total()), Some(read)))
    };
    let mut live = LiveInput::default();
    let deliver = |(total, step)| {
        live.totals.push(total);
        live.latest = step;
        Ok(())
    };
    read_all("reading live steps", steps.len(), read, deliver, notify)?;
    live.platform = dataset.platform()?;
    if let Some(points) = &live.platform {
        let rows = points.iter();
        let rows = rows.map(|(time, players)| [Cell::Time(*time), Cell::Count(Some(*players))]);
        dumps.write(DatasetReader::PLATFORM, FileKind::Platform, rows)?;
    }
    Ok(live)
}

/// Reads `count` items in parallel, delivers them in order, and reports progress under the name `what`. With two threads
/// per core, half as much again waits in memory for the thread that compresses it, and nothing is faster.
fn read_all<T: Send>(
    what: &'static str,
    count: usize,
    read: impl Fn(usize) -> Result<T, PublishError> + Sync,
    mut deliver: impl FnMut(T) -> Result<(), PublishError>,
    notify: EventSink<'_>,
) -> Result<(), PublishError> {
    in_order(
        (cores(), count),
        || (),
        |(), at| read(at),
        |at, item| {
            deliver(item?)?;
            let (done, all) = (at + 1, count);
            notify(PublishEvent::Progress { what, done, all });
            Ok(())
        },
    )
}
