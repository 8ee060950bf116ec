//! Tables: reads those that payloads need, and writes the dumps of those that changed.

use super::dumps_writer::DumpsWriter;
use super::live_payload::LiveInput;
use super::options::PublishError;
use super::options::{EventSink, PublishEvent};
use super::packed_day::PackedDay;
use super::plan::Plan;
use super::whole_files::{DayText, WholeFile};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{
    Catalogue, Cell, DatasetReader, DayRow, FileKind, Island, LiveStep, Profile, StepFile,
};
use crate::sync::{cores, in_order};

/// The tables of a dataset in a publish.
pub(super) struct Tables<'a> {
    pub(super) dataset: &'a DatasetReader<'a>,
    pub(super) plan: &'a Plan,
    pub(super) dumps: &'a DumpsWriter<'a>,
    pub(super) notify: EventSink<'a>,
}

/// The input of payloads: the islands and creators, the days, and the live steps.
pub(super) type PayloadInput = (Catalogue, Vec<(UtcDay, PackedDay)>, LiveInput);

impl Tables<'_> {
    /// Reads the tables for payloads, and writes their dumps.
    pub(super) fn read(mut self) -> Result<PayloadInput, PublishError> {
        if let Some(notice) = self.dataset.notice()? {
            self.dumps.write_notice(notice)?;
        }
        let (catalogue, days) = if self.plan.kept_history.is_some() {
            (self.dataset.islands_only()?, Vec::new())
        } else {
            let catalogue = self.catalogue()?;
            let days = self.days(&catalogue)?;
            (catalogue, days)
        };
        let live = self.live(&catalogue)?;
        self.dataset.find_unread_entries()?;
        self.plan.repeat_warnings(self.dataset);
        self.dataset.finish_checks()?;
        Ok((catalogue, days, live))
    }

    fn catalogue(&self) -> Result<Catalogue, PublishError> {
        let (islands, creators) = (DatasetReader::ISLANDS, DatasetReader::CREATORS);
        let catalogue = self.dataset.catalogue()?;
        let rows = catalogue.islands.iter().map(Island::cells);
        self.dumps.write(islands, FileKind::Islands, &rows)?;
        if self.dataset.stamp(creators)?.is_some() {
            let rows = catalogue.profiles.iter().map(Profile::cells);
            self.dumps.write(creators, FileKind::Creators, &rows)?;
        }
        Ok(catalogue)
    }

    /// Reads all days, and writes the dumps of many days.
    fn days(&mut self, catalogue: &Catalogue) -> Result<Vec<(UtcDay, PackedDay)>, PublishError> {
        let (dataset, dumps) = (self.dataset, self.dumps);
        let days = &dataset.days;
        let mut whole = WholeFile::create_all(dumps, days)?;
        let read = |at: usize| {
            let files = &days[at];
            let rows = dataset.day(catalogue, files)?;
            for (kind, name) in &files.files {
                let is_daily = *kind == FileKind::Daily;
                let of_kind = rows.iter().filter(|row| row.is_daily == is_daily);
                let code = |row: &DayRow| catalogue.islands[row.island as usize].code;
                dumps.write(name, *kind, &of_kind.map(|row| row.cells(code(row))))?;
            }
            let text = DayText::render(catalogue, (files.day, &rows));
            let text = text.expect("writing to memory does not fail");
            Ok((PackedDay::new(&rows, catalogue.islands.len()), text))
        };
        let mut packed_days = Vec::with_capacity(days.len());
        let deliver = |(packed, text)| {
            let day = days[packed_days.len()].day;
            packed_days.push((day, packed));
            let mut files = whole.iter_mut();
            files.try_for_each(|file| file.append(day, &text))
        };
        read_all("reading days", days.len(), read, deliver, self.notify)?;
        whole.into_iter().try_for_each(WholeFile::finish)?;
        Ok(packed_days)
    }

    /// Reads the latest live step and those that are not kept, and the platform totals.
    fn live(&mut self, catalogue: &Catalogue) -> Result<LiveInput, PublishError> {
        let (dataset, plan, dumps) = (self.dataset, self.plan, self.dumps);
        let steps = &dataset.steps;
        let kept = |step: &StepFile| plan.kept_players(&step.name);
        let is_read = |at: &usize| at + 1 == steps.len() || kept(&steps[*at]).is_none();
        let places: Vec<usize> = (0..steps.len()).filter(is_read).collect();
        // Those of the steps that are read follow.
        let totals = steps
            .iter()
            .map(|step| (step.time, kept(step).unwrap_or_default()));
        let mut totals: Vec<(UnixSeconds, u128)> = totals.collect();
        let read = |at: usize| {
            let step = &steps[places[at]];
            let read = dataset.step(catalogue, step)?;
            let rows = read.players.iter().map(|(island, players)| {
                let code = catalogue.islands[*island as usize].code;
                [Cell::Code(code), Cell::Count(Some(*players))]
            });
            dumps.write(&step.name, FileKind::Live, &rows)?;
            Ok((places[at], read))
        };
        let mut latest = None;
        let deliver = |(place, step): (usize, LiveStep)| {
            totals[place].1 = step.total();
            latest = Some(step);
            Ok(())
        };
        let what = "reading live steps";
        read_all(what, places.len(), read, deliver, self.notify)?;
        let platform = dataset.platform()?;
        if let Some(points) = &platform {
            let rows = points.iter();
            let rows = rows.map(|(time, players)| [Cell::Time(*time), Cell::Count(Some(*players))]);
            dumps.write(DatasetReader::PLATFORM, FileKind::Platform, &rows)?;
        }
        Ok(LiveInput {
            latest,
            totals,
            platform,
        })
    }
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
            notify(PublishEvent::Progress {
                what,
                done: at + 1,
                all: count,
            });
            Ok(())
        },
    )
}
