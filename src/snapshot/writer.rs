//! The writer of payload files, front to back.

use std::io::{self, Write};

use super::body::EncodedPair;
use super::format::{BodyRef, ENTRY_BYTES, MAGIC, Section, contents_checksum};
use super::stored_body::has_stored_header;

/// A payload file being written: all bodies first, then all sections.
#[derive(Debug)]
pub struct SnapshotWriter<W> {
    out: W,
    at: u64,
    sections_start: Option<u64>,
    table: Vec<u8>,
}

/// The length and checksum of a finished payload file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its length.
    pub bytes: u64,
    /// The checksum of its table of contents, which identifies it.
    pub checksum: u32,
}

impl<W: Write> SnapshotWriter<W> {
    /// Starts a file.
    pub fn new(mut out: W) -> io::Result<SnapshotWriter<W>> {
        out.write_all(&MAGIC)?;
        Ok(SnapshotWriter {
            out,
            at: MAGIC.len() as u64,
            sections_start: None,
            table: Vec::new(),
        })
    }

    /// Writes a body: its gzip form, or the identity form if there is none.
    pub fn body(&mut self, pair: &EncodedPair) -> io::Result<BodyRef> {
        assert!(
            self.sections_start.is_none(),
            "bodies are written before sections"
        );
        let offset = self.at;
        if pair.gzip.is_empty() {
            self.write(&pair.plain)?;
        } else if has_stored_header(&pair.gzip) {
            self.write(&pair.gzip)?;
        } else {
            let problem = "the gzip form of a response has a header that readers reject";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        Ok(BodyRef {
            offset,
            plain_bytes: length_of(&pair.plain)?,
            gzip_bytes: length_of(&pair.gzip)?,
            plain_crc: crc32fast::hash(&pair.plain),
            gzip_crc: crc32fast::hash(&pair.gzip),
        })
    }

    /// Writes a section.
    pub fn section(&mut self, section: Section, bytes: &[u8]) -> io::Result<()> {
        self.sections_start.get_or_insert(self.at);
        let offset = self.at;
        self.write(bytes)?;
        self.table.extend((section as u32).to_le_bytes());
        self.table.extend(crc32fast::hash(bytes).to_le_bytes());
        self.table.extend(offset.to_le_bytes());
        self.table.extend((bytes.len() as u64).to_le_bytes());
        Ok(())
    }

    /// Writes a section of `u32`.
    pub fn ints(&mut self, section: Section, ints: &[u32]) -> io::Result<()> {
        let bytes: Vec<u8> = ints.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.section(section, &bytes)
    }

    /// Writes a section of `u64`.
    pub fn longs(&mut self, section: Section, longs: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = longs.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.section(section, &bytes)
    }

    /// Writes a section of body records.
    pub fn bodies(&mut self, section: Section, bodies: &[BodyRef]) -> io::Result<()> {
        let bytes: Vec<u8> = bodies.iter().flat_map(|body| body.to_record()).collect();
        self.section(section, &bytes)
    }

    /// Finishes the file and returns the underlying writer.
    pub fn finish(mut self) -> io::Result<(W, Written)> {
        let start = self.sections_start.unwrap_or(self.at);
        let table = std::mem::take(&mut self.table);
        let contents = self.at;
        self.write(&table)?;
        let count =
            u32::try_from(table.len() / ENTRY_BYTES).expect("there are a few dozen sections");
        let trailer = [
            &start.to_le_bytes()[..],
            &contents.to_le_bytes(),
            &count.to_le_bytes(),
        ];
        let trailer = trailer.concat();
        let checksum = contents_checksum(&table, &trailer);
        self.write(&trailer)?;
        self.write(&checksum.to_le_bytes())?;
        self.write(&MAGIC)?;
        self.out.flush()?;
        let bytes = self.at;
        Ok((self.out, Written { bytes, checksum }))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

fn length_of(body: &[u8]) -> io::Result<u32> {
    let problem = "a single response is longer than 4 GiB";
    let too_long = |_| io::Error::new(io::ErrorKind::FileTooLarge, problem);
    u32::try_from(body.len()).map_err(too_long)
}
