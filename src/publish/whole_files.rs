//! The files with the rows of many days, each one gzip member (RFC 1952): readers that stop after the first member
//! lose nothing.
//!
//! The days are compressed in parallel. The compressed form of a day ends at a whole byte and refers to no other
//! day, so that the forms of all days follow each other in one stream of DEFLATE. The checksum of the stream is
//! computed from those of the days.

use std::io::{self, Write};
use std::iter;

use crc32fast::Hasher;
use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::dumps_writer::{DumpsWriter, HashingWriter, Output};
use super::options::{PublishError, at};
use crate::calendar::UtcDay;
use crate::dataset::{
    Catalogue, Cell, DayFiles, DayRow, FileKind, WHOLE_FILES, WholeFile, write_csv_row,
};

/// gzip level, as for the other files of CSV.
const LEVEL: u32 = 2;
/// The fixed start of a gzip member: no name, no time, compressed fast, on an unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// The last block of a stream of DEFLATE, without content.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// Compressed rows, a part of a stream.
pub(super) struct Part {
    deflated: Vec<u8>,
    /// The checksum of the rows.
    checksum: Hasher,
    /// The length of the rows.
    bytes: usize,
}

impl Part {
    fn new(csv: &[u8]) -> io::Result<Part> {
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::new(LEVEL));
        deflate.write_all(csv)?;
        // Ends at a whole byte, and not with a last block.
        deflate.flush()?;
        let mut checksum = Hasher::new();
        checksum.update(csv);
        Ok(Part {
            deflated: std::mem::take(deflate.get_mut()),
            checksum,
            bytes: csv.len(),
        })
    }
}

/// The rows of a day: its daily rows, and its known peaks of both kinds, by code.
pub(super) struct DayParts {
    daily: Part,
    ccu: Part,
}

impl DayParts {
    pub(super) fn render(
        catalogue: &Catalogue,
        (date, rows): (UtcDay, &[DayRow]),
    ) -> io::Result<DayParts> {
        let text = date.to_string();
        let date_cell = || iter::once(Cell::Text(Some(&text)));
        let (mut daily, mut ccu) = (Vec::new(), Vec::new());
        for row in rows {
            let code = catalogue.islands[row.island as usize].code;
            if row.is_daily {
                write_csv_row(&mut daily, date_cell().chain(row.cells(code)))?;
            }
            if row.peak_ccu().is_some() {
                // The code and the peak.
                write_csv_row(&mut ccu, date_cell().chain(row.cells(code).take(2)))?;
            }
        }
        Ok(DayParts {
            daily: Part::new(&daily)?,
            ccu: Part::new(&ccu)?,
        })
    }
}

/// One of the files while it is written.
struct WholeFileWriter {
    file: WholeFile,
    /// The first day that it has; `None` for all days.
    since: Option<UtcDay>,
    /// Unbuffered, since a part is one write.
    out: HashingWriter<Output>,
    checksum: Hasher,
    /// The length of the rows, modulo 2^32 as gzip has it.
    bytes: u32,
}

impl WholeFileWriter {
    fn begin(
        file: WholeFile,
        since: Option<UtcDay>,
        out: HashingWriter<Output>,
    ) -> io::Result<WholeFileWriter> {
        let mut writer = WholeFileWriter {
            file,
            since,
            out,
            checksum: Hasher::new(),
            bytes: 0,
        };
        writer.out.write_all(&HEADER)?;
        let header = format!("date,{}\n", file.kind.columns().0.join(","));
        writer.append(&Part::new(header.as_bytes())?)?;
        Ok(writer)
    }

    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
    fn append(&mut self, part: &Part) -> io::Result<()> {
        self.checksum.combine(&part.checksum);
        self.bytes = self.bytes.wrapping_add(part.bytes as u32);
        self.out.write_all(&part.deflated)
    }

    fn end(mut self) -> io::Result<HashingWriter<Output>> {
        self.out.write_all(&LAST_BLOCK)?;
        self.out
            .write_all(&self.checksum.finalize().to_le_bytes())?;
        self.out.write_all(&self.bytes.to_le_bytes())?;
        Ok(self.out)
    }
}

/// All files while they are written, day by day.
pub(super) struct WholeFiles(Vec<WholeFileWriter>);

impl WholeFiles {
    pub(super) fn create(
        dumps: &DumpsWriter,
        days: &[DayFiles],
    ) -> Result<WholeFiles, PublishError> {
        let create = |file: WholeFile| {
            let of_kind =
                |files: &&DayFiles| files.files.iter().any(|(kind, _)| *kind == file.kind);
            let newest = file.newest.and_then(|count| count.checked_sub(1));
            let since = newest.and_then(|at| days.iter().filter(of_kind).rev().nth(at));
            let since = since.map(|files| files.day);
            let out = dumps.create(file.name);
            let begun = out.and_then(|out| WholeFileWriter::begin(file, since, out));
            begun.map_err(at(&dumps.path(file.name)))
        };
        let files: Result<_, _> = WHOLE_FILES.into_iter().map(create).collect();
        files.map(WholeFiles)
    }

    /// Appends the rows of the next day.
    pub(super) fn append(
        &mut self,
        day: UtcDay,
        parts: &DayParts,
        dumps: &DumpsWriter,
    ) -> Result<(), PublishError> {
        for writer in self.0.iter_mut().filter(|writer| writer.since <= Some(day)) {
            let part = match writer.file.kind {
                FileKind::Ccu => &parts.ccu,
                _ => &parts.daily,
            };
            let appended = writer.append(part);
            appended.map_err(at(&dumps.path(writer.file.name)))?;
        }
        Ok(())
    }

    pub(super) fn finish(self, dumps: &DumpsWriter) -> Result<(), PublishError> {
        for writer in self.0 {
            let name = writer.file.name;
            let ended = writer.end().and_then(|out| dumps.complete(name, out));
            ended.map_err(at(&dumps.path(name)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::bufread::GzDecoder;

    use super::*;

    #[test]
    fn parts_form_one_member_with_a_correct_checksum() {
        arbtest::arbtest(|u| {
            let out = HashingWriter::new(Output::Memory(Vec::new()));
            let mut file = WholeFileWriter::begin(WHOLE_FILES[2], None, out).unwrap();
            let mut want = "date,code,peakCCU\n".to_owned();
            for _ in 0..u.int_in_range(0..=5)? {
                let rows: Vec<String> = u
                    .arbitrary::<Vec<u16>>()?
                    .iter()
                    .map(u16::to_string)
                    .collect();
                let rows = rows.join("\n") + "\n";
                let rows = rows.repeat(*u.choose(&[0, 1, 2, 500])?);
                file.append(&Part::new(rows.as_bytes()).unwrap()).unwrap();
                want += &rows;
            }
            let (Output::Memory(gzip), ..) = file.end().unwrap().finish() else {
                unreachable!("written to memory");
            };
            // A reader of one member, which verifies checksum and length, reads everything.
            let mut reader = GzDecoder::new(&gzip[..]);
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, want);
            assert!(reader.into_inner().is_empty(), "nothing follows the member");
            Ok(())
        });
    }
}
