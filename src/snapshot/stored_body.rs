//! Bodies as they are stored in a payload file: read and verified, whole or in pieces. The identity form is inflated
//! while it is read.
//!
//! The new islands of a catalogue's first day are all islands: 121 MB of JSON for 300,000 islands.
//! Such a long body is never whole in memory: it is sent in pieces. The last one is withheld if the checksum of all
//! of them is wrong.

use std::io::{ErrorKind, Read};

use bytes::Bytes;
use flate2::read::DeflateDecoder;
use zlib_rs::crc32::crc32;

use super::error::SnapshotError;
use super::format::BodyRef;
use super::storage::{Storage, StoredPart};

/// Bytes of a gzip header (RFC 1952) without its optional parts, of which the compressor writes none.
const HEADER_BYTES: u32 = 10;
/// Longer bodies are sent in pieces, and pages read only their start. To inflate as much takes a
/// millisecond, which is as long as one request may keep a worker from its other connections.
pub const SHORT_BYTES_MAX: u32 = 512 * 1024;
/// Bytes of the stored form that are inflated at a time.
const READ_BYTES: usize = 64 * 1024;

/// One form of a body of a payload file.
#[derive(Clone, Debug)]
pub struct StoredBody {
    pub(super) storage: Storage,
    pub(super) body: BodyRef,
    pub(super) gzip: bool,
}

impl StoredBody {
    pub fn bytes(&self) -> u64 {
        self.body.bytes(self.gzip).into()
    }

    pub fn reader(self) -> BodyReader {
        let (body, gzip) = (self.body, self.gzip);
        // The decoder verifies no header and no trailer: the checksum of what it writes is in the file too.
        let is_deflated = !gzip && body.has_gzip();
        let skipped = if is_deflated { HEADER_BYTES } else { 0 };
        let stored = StoredPart {
            offset: body.offset + u64::from(skipped),
            left: body.bytes(body.has_gzip()).saturating_sub(skipped).into(),
            storage: self.storage.clone(),
        };
        BodyReader {
            storage: self.storage,
            body,
            gzip,
            left: body.bytes(gzip).into(),
            source: if is_deflated {
                let left = usize::try_from(stored.left).unwrap_or(usize::MAX);
                let buffer = vec![0; left.min(READ_BYTES)];
                Box::new(DeflateDecoder::new_with_buf(stored, buffer))
            } else {
                Box::new(stored)
            },
            checksum: 0,
        }
    }

    pub(crate) fn read(self) -> Result<Bytes, SnapshotError> {
        let bytes = self.body.bytes(self.gzip) as usize;
        self.reader().fill(vec![0; bytes])
    }
}

/// A body that is being read, which waits for the disk.
pub struct BodyReader {
    storage: Storage,
    body: BodyRef,
    gzip: bool,
    source: Box<dyn Read + Send>,
    left: u64,
    /// Of the bytes read.
    checksum: u32,
}

impl BodyReader {
    /// Returns the number of bytes that are not read yet.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Fills a piece, which must not be longer than what is left. An error means that the body is damaged; the rest
    /// cannot be sent. It names the file.
    pub fn fill(&mut self, piece: Vec<u8>) -> Result<Bytes, SnapshotError> {
        let filled = self.fill_at_open(piece);
        filled.map_err(|error| self.storage.name(error))
    }

    /// Like [`fill`](Self::fill), for a file that is being opened: the code that opens it names it in errors.
    pub(super) fn fill_at_open(&mut self, mut piece: Vec<u8>) -> Result<Bytes, SnapshotError> {
        let place = self.body.place();
        match self.source.read_exact(&mut piece) {
            // By the decoder. A file that is too short for its bodies is an unexpected end.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                let problem = "its gzip form does not inflate to its length";
                return Err(SnapshotError::malformed(place, problem));
            }
            read => read.map_err(|error| {
                SnapshotError::malformed(&place, format!("it cannot be read: {error}"))
            })?,
        }
        self.checksum = crc32(self.checksum, &piece);
        self.left -= piece.len() as u64;
        if self.left == 0 {
            SnapshotError::expect_checksum(place, self.body.crc(self.gzip), self.checksum)?;
        }
        Ok(piece.into())
    }
}

#[cfg(test)]
#[path = "stored_body_tests.rs"]
mod tests;
