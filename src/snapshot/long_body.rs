//! Long bodies: read from the payload file and inflated in pieces, while they are sent.
//!
//! The new islands of a catalogue's first day are all islands: 121 MB of JSON for 300,000 islands.
//! Such a body is never whole in memory. Its stored form is verified before the first piece, so
//! that damage is known before a status line is written. The pieces are verified again as they are
//! read: the last one is withheld if the checksum of all of them is wrong.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::read::DeflateDecoder;

use super::corruption_log::CorruptionLog;
use super::error::SnapshotError;
use super::format::BodyRef;
use super::storage::Storage;
use super::stored_body::deflated_range;

/// Bodies of this length are sent in pieces. To inflate as much takes a millisecond, which is as
/// long as one request may keep a worker from its other connections.
pub(crate) const LONG_BYTES_MIN: u32 = 512 * 1024 + 1;
/// Bytes of the stored form that are read in one call.
const READ_BYTES: usize = 64 * 1024;
/// Bytes of the stored form that are verified in one step.
const STEP_BYTES: u64 = 1024 * 1024;

/// One form of a long body.
#[derive(Clone, Debug)]
pub struct LongBody {
    pub(super) storage: Storage,
    pub(super) body: BodyRef,
    pub(super) gzip: bool,
    pub(super) corruption: Arc<CorruptionLog>,
}

impl LongBody {
    /// Returns the length of the form in bytes.
    pub fn bytes(&self) -> u64 {
        self.body.bytes(self.gzip).into()
    }

    /// Returns a reader, to be verified before it is read.
    pub fn reader(self) -> LongBodyReader {
        let stored = self.stored();
        let source = if !self.gzip && self.body.has_gzip() {
            let deflated = deflated_range(stored.left);
            let part = StoredPart {
                offset: stored.offset + deflated.start,
                left: deflated.end.saturating_sub(deflated.start),
                ..stored.clone()
            };
            Source::Deflated(DeflateDecoder::new_with_buf(part, vec![0; READ_BYTES]))
        } else {
            Source::Stored(stored.clone())
        };
        LongBodyReader {
            unverified: stored,
            source,
            left: self.bytes(),
            checksum: Hasher::new(),
            body: self,
        }
    }

    /// Opens the body after verifying all of its stored form: 121 MB of JSON are 17 MB.
    pub(crate) fn open(self) -> Result<LongBodyReader, SnapshotError> {
        let mut reader = self.reader();
        while !reader.verify_step()? {}
        Ok(reader)
    }

    fn stored(&self) -> StoredPart {
        StoredPart {
            storage: self.storage.clone(),
            offset: self.body.offset,
            left: self.body.bytes(self.body.has_gzip()).into(),
        }
    }
}

/// A part of a payload file, as a stream.
#[derive(Clone, Debug)]
struct StoredPart {
    storage: Storage,
    offset: u64,
    left: u64,
}

impl Read for StoredPart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        self.storage.read_into(self.offset, &mut buffer[..bytes])?;
        self.offset += bytes as u64;
        self.left -= bytes as u64;
        Ok(bytes)
    }
}

#[derive(Debug)]
enum Source {
    Stored(StoredPart),
    Deflated(DeflateDecoder<StoredPart>),
}

/// A long body that is being verified, then read. Both wait for the disk.
#[derive(Debug)]
pub struct LongBodyReader {
    body: LongBody,
    /// The rest of the stored form that is not verified yet.
    unverified: StoredPart,
    source: Source,
    left: u64,
    /// Of the bytes verified or, after that, read.
    checksum: Hasher,
}

impl LongBodyReader {
    /// Verifies some of the stored form: 100 µs of work, so that readers of other bodies take turns
    /// with it. Returns whether all of it is verified; damage is counted.
    pub fn verify_step(&mut self) -> Result<bool, SnapshotError> {
        let step = self.verify();
        step.inspect_err(|error| self.body.corruption.record(error))
    }

    fn verify(&mut self) -> Result<bool, SnapshotError> {
        let body = self.body.body;
        let mut buffer = vec![0; READ_BYTES];
        let end = self.unverified.left.saturating_sub(STEP_BYTES);
        while self.unverified.left > end {
            let read = self.unverified.read(&mut buffer);
            let read = read.map_err(|source| body.unreadable(&source))?;
            self.checksum.update(&buffer[..read]);
        }
        if end > 0 {
            return Ok(false);
        }
        self.verify_checksum(body.crc(body.has_gzip()))?;
        Ok(true)
    }

    /// Compares the checksum of what was read with the written one, and starts another.
    fn verify_checksum(&mut self, written: u32) -> Result<(), SnapshotError> {
        let found = std::mem::take(&mut self.checksum).finalize();
        SnapshotError::expect_checksum(self.body.body.place(), written, found)
    }

    /// Returns the number of bytes that are not read yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Fills a piece, which must not be longer than what is left. An error means that the body has
    /// been damaged since it was verified; it is counted, and the rest cannot be sent.
    pub fn fill(&mut self, mut piece: Vec<u8>) -> Result<Bytes, SnapshotError> {
        let filled = self.read(&mut piece);
        filled.inspect_err(|error| self.body.corruption.record(error))?;
        Ok(piece.into())
    }

    fn read(&mut self, piece: &mut [u8]) -> Result<(), SnapshotError> {
        let read = match &mut self.source {
            Source::Stored(stored) => stored.read_exact(piece),
            Source::Deflated(decoder) => decoder.read_exact(piece),
        };
        read.map_err(|source| self.body.body.unreadable(&source))?;
        self.checksum.update(piece);
        self.left -= piece.len() as u64;
        if self.left > 0 {
            return Ok(());
        }
        self.verify_checksum(self.body.body.crc(self.body.gzip))
    }
}

#[cfg(test)]
#[path = "long_body_tests.rs"]
mod tests;
