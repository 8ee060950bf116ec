//! The files with the rows of many days, written anew by each publish that renders the history.
//!
//! The rows of the days are formatted in parallel, and compressed by one encoder for each file, on the thread that
//! delivers the days. Parts that end with a full flush could be compressed in parallel, and be copied to the next
//! publish; `benches/README.md` has the measurements that decided against them.

use std::io::{self, Write as _};
use std::iter;

use super::dumps_writer::{CSV_LEVEL, DumpsWriter, GzipFile};
use super::options::{PublishError, in_file};
use crate::calendar::UtcDay;
use crate::dataset::{Catalogue, Cell, DayFiles, DayRow, FileKind, WHOLE_FILES, write_csv_row};

/// CSV of a day: its daily rows, and its known peaks of both kinds, by code.
pub(super) struct DayText([Vec<u8>; 2]);

impl DayText {
    pub(super) fn new(catalogue: &Catalogue, day: UtcDay, rows: &[DayRow]) -> DayText {
        const IN_MEMORY: &str = "writing to memory does not fail";
        let date = day.to_string();
        // Texts that grow leave memory in pieces. Most rows have these lengths.
        let daily_rows = rows.iter().filter(|row| row.is_daily).count();
        let mut text = [daily_rows * 72, rows.len() * 36].map(Vec::with_capacity);
        let [daily, ccu] = &mut text;
        for row in rows {
            let code = catalogue.islands[row.island as usize].code;
            let cells = || iter::once(Cell::Text(Some(&date))).chain(row.cells(code));
            if row.is_daily {
                write_csv_row(daily, cells()).expect(IN_MEMORY);
            }
            if row.peak_ccu().is_some() {
                // The date, the code and the peak.
                write_csv_row(ccu, cells().take(3)).expect(IN_MEMORY);
            }
        }
        DayText(text)
    }

    fn rows(&self, kind: FileKind) -> &[u8] {
        &self.0[usize::from(kind == FileKind::Ccu)]
    }
}

/// A file of many days that is being written.
pub(super) struct WholeFile<'a> {
    dumps: &'a DumpsWriter<'a>,
    name: &'static str,
    kind: FileKind,
    /// The first day that it has; `None` for all days.
    since: Option<UtcDay>,
    gzip: GzipFile,
}

impl<'a> WholeFile<'a> {
    /// Creates all files of many days.
    pub(super) fn create_all(
        dumps: &'a DumpsWriter<'_>,
        days: &[DayFiles],
    ) -> Result<Vec<WholeFile<'a>>, PublishError> {
        let create = |(name, kind, newest): (&'static str, FileKind, Option<usize>)| {
            let is_of_kind =
                |files: &&DayFiles| files.files.iter().any(|(other, _)| *other == kind);
            let mut of_kind = days.iter().filter(is_of_kind);
            let first = newest.and_then(|count| of_kind.nth_back(count - 1));
            let mut gzip = dumps.create_gzip(name, CSV_LEVEL)?;
            writeln!(gzip, "date,{}", kind.columns().0.join(","))?;
            Ok(WholeFile {
                dumps,
                name,
                kind,
                since: first.map(|files| files.day),
                gzip,
            })
        };
        let create =
            |file| create(file).map_err(|error: io::Error| in_file(&dumps.path(file.0))(error));
        WHOLE_FILES.into_iter().map(create).collect()
    }

    /// Appends the rows of the next day.
    pub(super) fn append(&mut self, day: UtcDay, text: &DayText) -> Result<(), PublishError> {
        if self.since > Some(day) {
            return Ok(());
        }
        let appended = self.gzip.write_all(text.rows(self.kind));
        appended.map_err(in_file(&self.dumps.path(self.name)))
    }

    pub(super) fn finish(self) -> Result<(), PublishError> {
        let finished = self.gzip.finish();
        let finished = finished.and_then(|written| self.dumps.complete(self.name, written));
        finished.map_err(in_file(&self.dumps.path(self.name)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::bufread::GzDecoder;

    use super::*;
    use crate::calendar::UnixSeconds;
    use crate::publish::plan::Plan;
    use crate::snapshot::DumpContent;

    /// Rows of numbers that compress badly.
    fn rows(state: &mut u64, count: usize) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..count {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            writeln!(text, "{},{}", *state >> 33, *state >> 49).unwrap();
        }
        text
    }

    #[test]
    fn each_file_is_one_whole_member_however_long_the_days_are() {
        let plan = Plan::default();
        let dumps = DumpsWriter::new(None, (&plan, None), UnixSeconds(0));
        let days: Vec<DayFiles> = (1..=40)
            .map(|day| {
                let files = vec![(FileKind::Daily, format!("daily/{day}.csv"))];
                let day = UtcDay(day);
                DayFiles { day, files }
            })
            .collect();
        let mut whole = WholeFile::create_all(&dumps, &days).unwrap();
        let (mut state, mut texts) = (1, Vec::new());
        for (day, count) in days.iter().zip([0, 1, 20, 30_000].into_iter().cycle()) {
            let (daily, ccu) = (rows(&mut state, count), rows(&mut state, count / 2));
            let text = DayText([daily, ccu]);
            let mut files = whole.iter_mut();
            files
                .try_for_each(|file| file.append(day.day, &text))
                .unwrap();
            texts.push(text);
        }
        whole.into_iter().try_for_each(WholeFile::finish).unwrap();
        let dumps = dumps.into_memory(("", None)).unwrap();
        for ((name, kind, _), since) in WHOLE_FILES.into_iter().zip([0, 10, 0]) {
            let DumpContent::Memory(gzip) = &dumps.find(name).unwrap().content else {
                unreachable!("written to memory");
            };
            let mut want = format!("date,{}\n", kind.columns().0.join(",")).into_bytes();
            for text in &texts[since..] {
                want.extend(text.rows(kind));
            }
            // A reader of one member, which verifies its checksum and length, reads everything.
            let mut reader = GzDecoder::new(&gzip[..]);
            let mut found = Vec::new();
            reader.read_to_end(&mut found).unwrap();
            assert!(found == want, "{name}");
            assert!(
                reader.into_inner().is_empty(),
                "something follows the member"
            );
        }
    }
}
