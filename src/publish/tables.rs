//! Tables: reads those that payloads need, and writes the dumps of those that changed.

use super::dumps_writer::DumpsWriter;
use super::live_payload::LiveInput;
use super::options::{EventSink, PublishError, PublishEvent};
use super::packed_day::PackedDay;
use crate::dataset::{Catalogue, Cell, DatasetReader, FileKind, Island, Profile, WHOLE_FILES};
use crate::sync::{cores, in_order};

/// The input of payloads.
pub(super) struct PayloadInput {
    pub(super) catalogue: Catalogue,
    /// Empty if the history is kept.
    pub(super) days: Vec<PackedDay>,
    pub(super) live: LiveInput,
}

/// Reads the tables for payloads, and writes their dumps.
pub(super) fn read(
    dataset: &DatasetReader<'_>,
    dumps: &DumpsWriter<'_>,
    notify: EventSink<'_>,
) -> Result<PayloadInput, PublishError> {
    let (catalogue, days) = if dumps.plan.kept_history.is_some() {
        (dataset.islands_only()?, Vec::new())
    } else {
        let catalogue = dataset.catalogue()?;
        let (text, file) = (&mut Vec::new(), (DatasetReader::ISLANDS, FileKind::Islands));
        dumps.write(text, file, catalogue.islands.iter().map(Island::cells))?;
        if dataset.stamp(DatasetReader::CREATORS)?.is_some() {
            let file = (DatasetReader::CREATORS, FileKind::Creators);
            dumps.write(text, file, catalogue.profiles.iter().map(Profile::cells))?;
        }
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
    })
}

/// Reads all days, and then writes the dumps of many days.
fn read_days(
    dataset: &DatasetReader<'_>,
    dumps: &DumpsWriter<'_>,
    catalogue: &Catalogue,
    notify: EventSink<'_>,
) -> Result<Vec<PackedDay>, PublishError> {
    let (days, codes) = (&dataset.days, &catalogue.codes);
    let read = |text: &mut Vec<u8>, at: usize| {
        let files = &days[at];
        let rows = dataset.day(catalogue, files)?;
        for (kind, name) in &files.files {
            let is_daily = *kind == FileKind::Daily;
            let of_kind = rows.iter().filter(|row| row.is_daily == is_daily);
            let rows = of_kind.map(|row| row.metrics.cells(codes[row.island as usize]));
            dumps.write(text, (name, *kind), rows)?;
        }
        Ok(PackedDay::new(files.day, &rows, codes.len()))
    };
    let mut packed = Vec::with_capacity(days.len());
    let keep = |day| packed.push(day);
    for_all("reading days", days.len(), read, keep, notify)?;
    let (what, files) = ("writing dumps of all days", WHOLE_FILES);
    let write = |text: &mut _, at: usize| dumps.write_days(text, codes, &packed, files[at]);
    for_all(what, files.len(), write, drop, notify)?;
    Ok(packed)
}

/// Reads the latest live step and those that are not kept, and the platform totals.
fn read_live(
    dataset: &DatasetReader<'_>,
    dumps: &DumpsWriter<'_>,
    catalogue: &Catalogue,
    notify: EventSink<'_>,
) -> Result<LiveInput, PublishError> {
    let steps = &dataset.steps;
    let read = |text: &mut Vec<u8>, at: usize| {
        let (step, name) = (steps[at], DatasetReader::step_name(steps[at]));
        let kept = dumps.plan.kept_players(&name);
        if let Some(players) = kept.filter(|_| at + 1 < steps.len()) {
            return Ok(((step, players), None));
        }
        let read = dataset.step(catalogue, step)?;
        let rows = read.players.iter().map(|(island, players)| {
            let code = catalogue.codes[*island as usize];
            [Cell::Code(code), Cell::Count(Some(*players))]
        });
        dumps.write(text, (&name, FileKind::Live), rows)?;
        Ok(((step, read.total()), Some(read)))
    };
    let mut live = LiveInput::default();
    let keep = |(total, step)| {
        live.totals.push(total);
        live.latest = step;
    };
    for_all("reading live steps", steps.len(), read, keep, notify)?;
    live.platform = dataset.platform()?;
    if let Some(points) = &live.platform {
        let rows = points.iter();
        let rows = rows.map(|(time, players)| [Cell::Time(*time), Cell::Count(Some(*players))]);
        let file = (DatasetReader::PLATFORM, FileKind::Platform);
        dumps.write(&mut Vec::new(), file, rows)?;
    }
    Ok(live)
}

/// Works on `count` items in parallel, keeps the results in order, and reports progress under the name `what`. Each
/// thread has a buffer, which it reuses.
fn for_all<T: Send>(
    what: &'static str,
    count: usize,
    work: impl Fn(&mut Vec<u8>, usize) -> Result<T, PublishError> + Sync,
    mut keep: impl FnMut(T),
    notify: EventSink<'_>,
) -> Result<(), PublishError> {
    in_order((cores(), count), Vec::new, work, |at, result| {
        keep(result?);
        let (done, all) = (at + 1, count);
        notify(PublishEvent::Progress { what, done, all });
        Ok(())
    })
}
