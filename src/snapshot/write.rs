//! Writing a payload file, front to back, to anything that takes bytes.

use std::io::{self, Write};

use super::body::Packed;
use super::file::{ENTRY_BYTES, MAGIC, Section, TRAILER_BYTES, contents_checksum};
use super::inflate::deflated;
use super::views::BodyRef;

/// A payload file being written: all bodies first, then all sections.
#[derive(Debug)]
pub struct SnapshotWriter<W> {
    out: W,
    at: u64,
    sections_start: Option<u64>,
    table: Vec<u8>,
}

/// What a finished payload file measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its length.
    pub bytes: u64,
    /// The checksum of its table of contents, which identifies it.
    pub checksum: u32,
}

impl<W: Write> SnapshotWriter<W> {
    /// Begins a file.
    pub fn new(mut out: W) -> io::Result<SnapshotWriter<W>> {
        out.write_all(&MAGIC)?;
        Ok(SnapshotWriter {
            out,
            at: MAGIC.len() as u64,
            sections_start: None,
            table: Vec::new(),
        })
    }

    /// Writes a body: its gzip form, or the identity form where it has none.
    pub fn body(&mut self, packed: &Packed) -> io::Result<BodyRef> {
        assert!(
            self.sections_start.is_none(),
            "bodies are written before sections"
        );
        let offset = self.at;
        if packed.gzip.is_empty() {
            self.write(&packed.plain)?;
        } else {
            deflated(&packed.gzip).ok_or_else(|| {
                let problem = "the gzip form of an answer has a header that is not read back";
                io::Error::new(io::ErrorKind::InvalidInput, problem)
            })?;
            self.write(&packed.gzip)?;
        }
        Ok(BodyRef {
            offset,
            plain_bytes: length_of(&packed.plain)?,
            gzip_bytes: length_of(&packed.gzip)?,
            plain_crc: crc32fast::hash(&packed.plain),
            gzip_crc: crc32fast::hash(&packed.gzip),
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
        let bytes: Vec<u8> = bodies.iter().flat_map(|body| body.to_bytes()).collect();
        self.section(section, &bytes)
    }

    /// Ends the file and gives back what it was written to.
    pub fn finish(mut self) -> io::Result<(W, Written)> {
        let start = self.sections_start.unwrap_or(self.at);
        let table = std::mem::take(&mut self.table);
        let contents = self.at;
        self.write(&table)?;
        let count =
            u32::try_from(table.len() / ENTRY_BYTES).expect("there are a few dozen sections");
        let mut trailer = Vec::with_capacity(TRAILER_BYTES);
        trailer.extend(start.to_le_bytes());
        trailer.extend(contents.to_le_bytes());
        trailer.extend(count.to_le_bytes());
        let checksum = contents_checksum(&table, &trailer);
        trailer.extend(checksum.to_le_bytes());
        trailer.extend(MAGIC);
        self.write(&trailer)?;
        self.out.flush()?;
        Ok((
            self.out,
            Written {
                bytes: self.at,
                checksum,
            },
        ))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

fn length_of(body: &[u8]) -> io::Result<u32> {
    u32::try_from(body.len()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::FileTooLarge,
            "a single answer is longer than 4 GiB",
        )
    })
}
