//! Bodies as they are stored in a payload file: read, verified, and inflated to their identity form,
//! whole or in pieces.
//!
//! The new islands of a catalogue's first day are all islands: 121 MB of JSON for 300,000 islands.
//! Such a long body is never whole in memory: it is inflated in pieces, while they are sent. Its
//! stored form is verified before the first piece, so that damage is known before a status line is
//! written. The pieces are verified again as they are read: the last one is withheld if the checksum
//! of all of them is wrong.

use std::io::Read;

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::bufread;
use flate2::read::DeflateDecoder;

use super::error::SnapshotError;
use super::format::BodyRef;
use super::storage::{Storage, StoredPart};

/// A gzip header (RFC 1952) for deflate, without the optional parts.
const HEADER_START: [u8; 4] = [0x1f, 0x8b, 8, 0];
const HEADER_BYTES: usize = 10;
/// Checksum and length of the identity form, which a [`BodyRef`] contains too.
const TRAILER_BYTES: usize = 8;
/// Longer bodies are sent in pieces, and pages read only their start. To inflate as much takes a
/// millisecond, which is as long as one request may keep a worker from its other connections.
pub(crate) const SHORT_BYTES_MAX: u32 = 512 * 1024;
/// Bytes of the stored form that are read in one call.
const READ_BYTES: usize = 64 * 1024;
/// Bytes of the stored form that are verified in one step.
const VERIFY_STEP_BYTES: u64 = 1024 * 1024;

/// Reads the stored form of a body, gzip or plain, and verifies its checksum.
pub(crate) fn read_stored(storage: &Storage, body: BodyRef) -> Result<Bytes, SnapshotError> {
    let gzip = body.has_gzip();
    let stored = storage.read(body.offset, body.bytes(gzip) as usize);
    let stored = stored.map_err(|source| body.unreadable(&source))?;
    SnapshotError::expect_checksum(body.place(), body.crc(gzip), crc32fast::hash(&stored))?;
    Ok(stored)
}

/// Converts the stored form of a body to the identity form, and verifies its checksum.
pub(crate) fn to_plain(body: BodyRef, stored: Bytes) -> Result<Bytes, SnapshotError> {
    if !body.has_gzip() {
        return Ok(stored);
    }
    let plain = inflate(&stored, body.plain_bytes as usize).ok_or_else(|| {
        SnapshotError::malformed(body.place(), "its gzip form does not inflate to its length")
    })?;
    SnapshotError::expect_checksum(body.place(), body.plain_crc, crc32fast::hash(&plain))?;
    Ok(plain.into())
}

/// Returns `true` if a gzip form has the header that payload files have.
pub(crate) fn has_stored_header(gzip: &[u8]) -> bool {
    gzip.starts_with(&HEADER_START) && gzip.len() >= HEADER_BYTES + TRAILER_BYTES
}

/// Inflates a gzip form to exactly `plain_bytes`; `None` if it does not contain as much.
///
/// A third cheaper than `GzDecoder`: it writes to its destination without a buffer between, and the
/// caller verifies the checksum.
fn inflate(gzip: &[u8], plain_bytes: usize) -> Option<Vec<u8>> {
    if !has_stored_header(gzip) {
        return None;
    }
    let mut decoder = bufread::DeflateDecoder::new(&gzip[HEADER_BYTES..gzip.len() - TRAILER_BYTES]);
    let mut plain = vec![0; plain_bytes];
    decoder.read_exact(&mut plain).ok()?;
    // Fails if the end of the deflated part is missing.
    let more = decoder.read(&mut [0]).ok()?;
    (more == 0).then_some(plain)
}

#[derive(Clone, Debug)]
pub struct LongBody {
    pub(super) storage: Storage,
    pub(super) body: BodyRef,
    pub(super) gzip: bool,
}

impl LongBody {
    /// Returns the length of the form in bytes.
    pub fn bytes(&self) -> u64 {
        self.body.bytes(self.gzip).into()
    }

    /// Returns a reader, to be verified before it is read.
    pub fn reader(self) -> LongBodyReader {
        let mut stored = StoredPart {
            storage: self.storage.clone(),
            offset: self.body.offset,
            left: self.body.bytes(self.body.has_gzip()).into(),
        };
        let unverified = stored.clone();
        let source = if !self.gzip && self.body.has_gzip() {
            stored.offset += HEADER_BYTES as u64;
            stored.left = stored.left.saturating_sub(HEADER_BYTES as u64);
            Source::Deflated(DeflateDecoder::new_with_buf(stored, vec![0; READ_BYTES]))
        } else {
            Source::Stored(stored)
        };
        LongBodyReader {
            unverified,
            source,
            left: self.bytes(),
            checksum: Hasher::new(),
            body: self,
        }
    }

    /// Opens the body after verifying all of its stored form. That is cheap: 121 MB of JSON are stored as
    /// 17 MB.
    pub(crate) fn open(self) -> Result<LongBodyReader, SnapshotError> {
        let mut reader = self.reader();
        while !reader.verify_step()? {}
        Ok(reader)
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
    /// with it. Returns whether all of it is verified.
    pub fn verify_step(&mut self) -> Result<bool, SnapshotError> {
        let body = self.body.body;
        let mut buffer = vec![0; READ_BYTES];
        let end = self.unverified.left.saturating_sub(VERIFY_STEP_BYTES);
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
    /// been damaged since it was verified; the rest cannot be sent.
    pub fn fill(&mut self, mut piece: Vec<u8>) -> Result<Bytes, SnapshotError> {
        self.read(&mut piece)?;
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
mod tests {
    use super::*;
    use crate::snapshot::body::gzip;
    use crate::snapshot::format::EXPANSION_MAX;

    #[test]
    fn a_form_inflates_to_its_body_and_to_no_other_length() {
        arbtest::arbtest(|u| {
            let unit: Vec<u8> = u.arbitrary()?;
            let plain = unit.repeat(u.int_in_range(0..=20_000)?);
            let gzip = gzip(&plain);
            if gzip.len() >= plain.len() {
                return Ok(());
            }
            assert!(plain.len() as u64 <= gzip.len() as u64 * EXPANSION_MAX);
            assert_eq!(inflate(&gzip, plain.len() - 1), None);
            assert_eq!(inflate(&gzip, plain.len() + 1), None);
            assert_eq!(inflate(&gzip, plain.len()), Some(plain));
            Ok(())
        });
    }

    #[test]
    fn a_form_that_is_not_gzip_or_is_cut_short_is_rejected() {
        let plain = b"0123456789".repeat(100);
        let gzip = gzip(&plain);
        for length in 0..gzip.len() {
            // A cut trailer takes its eight bytes from the end of the deflated part.
            assert_eq!(inflate(&gzip[..length], plain.len()), None, "{length}");
        }
        for at in 0..4 {
            let mut other = gzip.clone();
            other[at] ^= 4;
            assert_eq!(inflate(&other, plain.len()), None, "byte {at}");
        }
    }
}

#[cfg(test)]
#[path = "long_body_tests.rs"]
mod long_body_tests;
