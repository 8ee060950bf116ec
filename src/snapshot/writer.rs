//! The writer of payload files, front to back.

use std::io::{self, Write};

use zerocopy::little_endian::U32;
use zerocopy::{Immutable, IntoBytes};
use zlib_rs::crc32::crc32;

use super::body::PackedBody;
use super::file::Identity;
use super::format::{BodyRecord, BodyRef, MAGIC, Section};
use crate::calendar::UnixSeconds;

/// A payload file being written: all bodies first, then all sections.
#[derive(Debug)]
pub struct SnapshotWriter<W> {
    out: W,
    at: u64,
    bodies: Vec<BodyRecord>,
    /// The length and id of each section.
    sections: Vec<(u64, Section)>,
    /// Of all that was written behind the bodies.
    checksum: u32,
}

impl<W: Write> SnapshotWriter<W> {
    pub fn new(mut out: W) -> io::Result<SnapshotWriter<W>> {
        out.write_all(&MAGIC)?;
        Ok(SnapshotWriter {
            out,
            at: MAGIC.len() as u64,
            bodies: Vec::new(),
            sections: Vec::new(),
            checksum: 0,
        })
    }

    /// Writes a body: its gzip form, or the identity form if there is none. An absent one is empty.
    pub fn body(&mut self, packed: &PackedBody) -> io::Result<()> {
        let stored = &packed.stored;
        let (gzip_bytes, gzip_crc) = if packed.is_gzip {
            (length(stored.len())?, crc32(0, stored))
        } else {
            (0, 0)
        };
        let body = BodyRef {
            offset: self.at,
            plain_bytes: length(packed.plain_bytes)?,
            gzip_bytes,
            plain_crc: packed.plain_crc,
            gzip_crc,
        };
        assert!(
            self.sections.is_empty(),
            "bodies are written before sections"
        );
        self.bodies.push(body.to_record());
        self.out.write_all(stored)?;
        self.at += stored.len() as u64;
        Ok(())
    }

    pub fn body_count(&self) -> usize {
        self.bodies.len()
    }

    pub fn array<T: IntoBytes + Immutable>(
        &mut self,
        section: Section,
        items: impl IntoIterator<Item: Into<T>>,
    ) -> io::Result<()> {
        let items: Vec<T> = items.into_iter().map(Into::into).collect();
        self.section(section, [items.as_bytes(), &[]])
    }

    /// Writes a section of lists. Returns their bounds.
    pub fn lists<T: IntoBytes + Immutable>(
        &mut self,
        section: Section,
        lists: impl Iterator<Item: AsRef<[T]>>,
    ) -> io::Result<Vec<U32>> {
        let (mut ends, mut items) = (vec![0], Vec::new());
        for list in lists {
            items.extend_from_slice(list.as_ref().as_bytes());
            ends.push(items.len());
        }
        let start = ends.len() * size_of::<U32>();
        let bound = |end: usize| u32::try_from((start + end) / size_of::<T>()).map(U32::new);
        let bounds: Result<Vec<U32>, _> = ends.into_iter().map(bound).collect();
        let problem = "the lists of a section are longer than 4 GiB";
        let bounds = bounds.map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, problem))?;
        self.section(section, [bounds.as_bytes(), &items])?;
        Ok(bounds)
    }

    fn section(&mut self, section: Section, parts: [&[u8]; 2]) -> io::Result<()> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        self.sections.push((bytes, section));
        parts.iter().try_for_each(|part| self.write(part))
    }

    /// Writes the section of the bodies and finishes the file. Returns its identity.
    pub fn finish(mut self, published: UnixSeconds) -> io::Result<Identity> {
        let bodies = std::mem::take(&mut self.bodies);
        self.array::<BodyRecord>(Section::Bodies, bodies)?;
        let start = self.at - self.sections.iter().map(|(bytes, _)| bytes).sum::<u64>();
        let count = u32::try_from(self.sections.len()).expect("there are a few dozen sections");
        for (bytes, section) in std::mem::take(&mut self.sections) {
            self.write(&bytes.to_le_bytes())?;
            self.write(&(section as u32).to_le_bytes())?;
        }
        self.write(&start.to_le_bytes())?;
        self.write(&published.0.to_le_bytes())?;
        self.write(&count.to_le_bytes())?;
        let checksum = self.checksum;
        self.write(&checksum.to_le_bytes())?;
        self.write(&MAGIC)?;
        self.out.flush()?;
        Ok(Identity {
            bytes: self.at,
            checksum,
            published,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.checksum = crc32(self.checksum, bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }
}

fn length(bytes: usize) -> io::Result<u32> {
    let problem = "a single response is longer than 4 GiB";
    u32::try_from(bytes).map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, problem))
}
