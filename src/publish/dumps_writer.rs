//! Writer of the dumps: each file is renamed to its SHA-256 when it is complete, and the index, written last, gives
//! the files their public names.
//!
//! Files that the plan keeps are only named again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::mem;
use std::path::PathBuf;

use bytes::Bytes;
use rustix::fs::{Advice, fadvise};
use zlib_rs::Strategy;

use super::options::{PublishError, in_file};
use super::packed_day::PackedDay;
use super::plan::Plan;
use super::render;
use crate::calendar::UnixSeconds;
use crate::dataset::{Cell, DatasetReader, DayRow, FileKind, write_csv, write_csv_row};
use crate::durable::{self, TEMP_SUFFIX};
use crate::model::IslandCode;
use crate::snapshot::{
    Compressor, DumpFile, DumpIndex, Dumps, GzipSettings, HashingWriter, media_type,
};
use crate::sync::{Mutex, lock};

/// For CSV with words or times. A higher level takes twice the time for 5 % fewer bytes.
const WORDS: GzipSettings = (2, 15, Strategy::Default);
/// For CSV with codes and numbers. A search for repetitions takes twice the time, for as many bytes.
const NUMBERS: GzipSettings = (2, 15, Strategy::HuffmanOnly);
/// For CSV with dates. Only rows shortly before repeat; a larger window also finds chance repetitions of digits, and the
/// output is 6 to 11 % longer.
const DATES: GzipSettings = (2, 11, Strategy::Default);
/// For JSON, whose repeated member names compress well at any level.
const JSON: GzipSettings = (1, 15, Strategy::Default);
/// Longer files leave the page cache when they are on disk.
const UNCACHED_BYTES_MIN: u64 = 1 << 20;
/// Notice of a dataset that has none of its own (SPEC section 1).
const NOTICE: &str = "The underlying metrics are facts from a third-party public ecosystem interface. \
    This compilation is not affiliated with that third party.";

pub(super) struct DumpsWriter<'a> {
    /// The folder of the published directory; `None` if the dumps are written to memory.
    folder: Option<PathBuf>,
    published: UnixSeconds,
    pub(super) plan: &'a Plan,
    /// Dumps of the previous publish, unless they are missing or damaged.
    before: Option<&'a Dumps>,
    /// The complete files by name, each with its content if it is in memory.
    files: Mutex<BTreeMap<String, (DumpFile, Bytes)>>,
}

impl<'a> DumpsWriter<'a> {
    /// Creates a writer to a folder, or to memory; `before` are the dumps of the previous publish.
    pub(super) fn new(
        folder: Option<PathBuf>,
        (plan, before): (&'a Plan, Option<&'a Dumps>),
        published: UnixSeconds,
    ) -> DumpsWriter<'a> {
        let kept = before.into_iter().flat_map(Dumps::files);
        let kept = kept.filter(|dump| plan.keeps_dump(&dump.file.file));
        let kept = kept.map(|dump| (dump.file.file.clone(), (dump.file.clone(), Bytes::new())));
        DumpsWriter {
            folder,
            published,
            plan,
            before,
            files: Mutex::new(kept.collect()),
        }
    }

    /// Writes a file with `write`, and completes it: syncs and renames it, or keeps its content, and adds it to the
    /// index.
    fn write_file(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), PublishError> {
        let folder = self.folder.clone().unwrap_or_default();
        let unfinished = folder.join(name.replace('/', "-") + TEMP_SUFFIX);
        let mut content = Vec::new();
        let write_file = || {
            let create = |_| File::create(&unfinished);
            let mut file = self.folder.as_ref().map(create).transpose()?;
            // Unbuffered, since writes are large.
            let mut out = HashingWriter::new(match &mut file {
                Some(file) => file as &mut dyn Write,
                None => &mut content,
            });
            write(&mut out)?;
            let (bytes, sha256) = out.finish();
            if let Some(file) = file {
                file.sync_all()?;
                // Few are read soon, and a publish writes gigabytes: in the page cache they would displace what the server
                // reads.
                if bytes > UNCACHED_BYTES_MIN {
                    let _ = fadvise(&file, 0, None, Advice::DontNeed);
                }
                fs::rename(&unfinished, folder.join(&sha256))?;
            }
            Ok::<_, io::Error>((bytes, sha256))
        };
        let (bytes, sha256) = write_file().map_err(in_file(&unfinished))?;
        let file = DumpFile {
            file: name.to_owned(),
            modified: self.modified(name, &sha256),
            media_type: media_type(name),
            bytes,
            sha256,
        };
        lock(&self.files).insert(name.to_owned(), (file, content.into()));
        Ok(())
    }

    /// Writes the four dumps of a dataset file, unless they are kept: its rows as CSV, then as JSON. `text` is a buffer,
    /// which is reused since fresh memory costs as much time as the rows.
    pub(super) fn write<'c>(
        &self,
        text: &mut Vec<u8>,
        (name, kind): (&str, FileKind),
        rows: impl Iterator<Item: IntoIterator<Item = Cell<'c>>> + Clone,
    ) -> Result<(), PublishError> {
        if self.plan.keeps(name) {
            return Ok(());
        }
        text.clear();
        write_csv(text, kind, rows.clone()).expect("writing to memory does not fail");
        let gzip = match kind {
            FileKind::Islands | FileKind::Creators | FileKind::Platform => WORDS,
            FileKind::Daily | FileKind::Ccu | FileKind::Live => NUMBERS,
        };
        self.write_pair(name, gzip, text)?;
        // An array of objects, one per line.
        text.clear();
        let (mut separator, mut end) = ("[\n", "[]\n");
        for row in rows {
            text.extend_from_slice(separator.as_bytes());
            render::dump_row(text, kind, row);
            (separator, end) = (",\n", "\n]\n");
        }
        text.extend_from_slice(end.as_bytes());
        let stem = name.strip_suffix(".csv").unwrap_or(name);
        self.write_pair(&format!("{stem}.json"), JSON, text)
    }

    /// Writes a file and its gzip form, which is one member: readers that stop after the first one lose nothing.
    fn write_pair(&self, name: &str, gzip: GzipSettings, text: &[u8]) -> Result<(), PublishError> {
        self.write_file(name, |out| out.write_all(text))?;
        self.write_file(&format!("{name}.gz"), |out| {
            Compressor::new(gzip).member(out, |write| write(text))
        })
    }

    /// Writes one of the files with the rows of many days, from those of all days. Each is written anew by each
    /// publish that renders the history, by one encoder. Parts that end with a full flush could be compressed in
    /// parallel, and be copied to the next publish; `benches/README.md` has the measurements that decided against them.
    pub(super) fn write_days(
        &self,
        text: &mut Vec<u8>,
        codes: &[IslandCode],
        days: &[PackedDay],
        (name, kind, newest): (&str, FileKind, Option<usize>),
    ) -> Result<(), PublishError> {
        let first = newest.and_then(|count| days.iter().nth_back(count - 1));
        let since = first.map(|packed| packed.day);
        let columns = kind.columns().0;
        // The daily rows; or the known peaks of both kinds.
        let is_in = |row: &DayRow| match kind {
            FileKind::Daily => row.is_daily,
            _ => row.peak_ccu().is_some(),
        };
        let write_days = |write: &mut dyn FnMut(&[u8]) -> io::Result<()>| {
            write(format!("date,{}\n", columns.join(",")).as_bytes())?;
            for packed in days.iter().filter(|packed| Some(packed.day) >= since) {
                text.clear();
                let date = format!("{},", packed.day);
                for row in packed.rows().filter(is_in) {
                    text.extend_from_slice(date.as_bytes());
                    let code = codes[row.island as usize];
                    write_csv_row(text, row.metrics.cells(code).take(columns.len()))?;
                }
                write(text)?;
            }
            Ok(())
        };
        self.write_file(name, |out| Compressor::new(DATES).member(out, write_days))
    }

    /// Returns the time of the last change of a file's bytes. Unchanged bytes keep their time even
    /// if their source was rewritten. Changed bytes always get a later time, whatever the publish
    /// timestamp is.
    fn modified(&self, file: &str, sha256: &str) -> String {
        let before = self.before.and_then(|before| before.find(file));
        if let Some(same) = before.filter(|before| before.file.sha256 == sha256) {
            return same.file.modified.clone();
        }
        let later = before.map(|before| UnixSeconds(before.modified.0 + 1));
        let later = later.filter(|later| later.has_text());
        let modified = later.map_or(self.published, |later| later.max(self.published));
        modified.to_string()
    }

    /// Writes the dataset's own notice, if it has one, and makes the names of the files durable. Returns their index,
    /// and the contents of those in memory.
    pub(super) fn finish(
        self,
        (credit, notice): (&str, Option<&str>),
    ) -> Result<(DumpIndex, BTreeMap<String, Bytes>), PublishError> {
        if let Some(notice) = notice {
            self.write_file(DatasetReader::NOTICE, |out| writeln!(out, "{notice}"))?;
        }
        if let Some(folder) = &self.folder {
            durable::sync_directory(folder).map_err(in_file(folder))?;
        }
        let files = mem::take(&mut *lock(&self.files)).into_iter();
        let files = files.map(|(name, (file, content))| (file, (name, content)));
        let (files, contents) = files.unzip();
        let index = DumpIndex {
            generated_at: self.published.to_string(),
            license: "CC-BY-4.0".to_owned(),
            license_url: "https://creativecommons.org/licenses/by/4.0/".to_owned(),
            credit: credit.to_owned(),
            notice: notice.unwrap_or(NOTICE).to_owned(),
            files,
        };
        Ok((index, contents))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::bufread::GzDecoder;

    use super::*;
    use crate::calendar::UtcDay;
    use crate::dataset::{Metrics, WHOLE_FILES};

    /// Returns the rows of a day, of numbers that compress badly, and their lines in the files of daily rows and of
    /// peaks.
    fn rows(state: &mut u64, day: UtcDay, codes: &[IslandCode]) -> (Vec<DayRow>, [String; 2]) {
        let (mut rows, mut lines) = (Vec::new(), [String::new(), String::new()]);
        for (island, code) in (0..).zip(codes) {
            let counts = [33, 49, 40].map(|bits| {
                *state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                *state >> bits
            });
            let [peak, players, minutes] = counts;
            let is_daily = peak % 3 > 0;
            let metrics = if is_daily {
                lines[0].extend([format!(
                    "{day},{code},{peak},{players},{minutes},,,,0.25,,\n"
                )]);
                let counts = [Some(peak), Some(players), Some(minutes), None, None, None];
                Metrics::new(counts, [Some(0.25), None, None])
            } else {
                Metrics::of_peak(Some(peak))
            };
            lines[1].extend([format!("{day},{code},{peak}\n")]);
            rows.push(DayRow {
                island,
                is_daily,
                metrics,
            });
        }
        (rows, lines)
    }

    #[test]
    fn each_file_is_one_whole_member_however_long_the_days_are() {
        let codes = (0..30_000).map(|number| IslandCode::from_number(number).unwrap());
        let codes: Vec<IslandCode> = codes.collect();
        let (mut state, mut packed, mut lines) = (1, Vec::new(), Vec::new());
        for (day, count) in (1..=40)
            .map(UtcDay)
            .zip([0, 1, 20, 30_000].into_iter().cycle())
        {
            let (rows, of_day) = rows(&mut state, day, &codes[..count]);
            packed.push(PackedDay::new(day, &rows, codes.len()));
            lines.push(of_day);
        }
        let plan = Plan::default();
        let dumps = DumpsWriter::new(None, (&plan, None), UnixSeconds(0));
        for file in WHOLE_FILES {
            let text = &mut Vec::new();
            let written = dumps.write_days(text, &codes, &packed, file);
            written.unwrap();
        }
        let (_, contents) = dumps.finish(("", None)).unwrap();
        for ((name, kind, _), since) in WHOLE_FILES.into_iter().zip([0, 10, 0]) {
            let mut want = format!("date,{}\n", kind.columns().0.join(","));
            for of_day in &lines[since..] {
                want += &of_day[usize::from(kind == FileKind::Ccu)];
            }
            // A reader of one member, which verifies its checksum and length, reads everything.
            let mut reader = GzDecoder::new(&contents[name][..]);
            let mut found = String::new();
            reader.read_to_string(&mut found).unwrap();
            assert!(found == want, "{name}");
            assert!(
                reader.into_inner().is_empty(),
                "something follows the member"
            );
        }
    }
}
