//! Long bodies: read from the payload file and inflated in pieces, while they are sent.
//!
//! A catalogue's first day lists every island: 121 MB of JSON for 300,000 islands. A body like that is
//! never held whole. Its stored form is verified before the first piece, so damage is known before a
//! status line is written. The pieces are verified again as they pass: the last one is withheld if the
//! checksum of all of them is wrong.

use std::sync::Arc;

use bytes::Bytes;
use crc32fast::Hasher;

use super::damage::Damage;
use super::error::SnapshotError;
use super::file::expect_checksum;
use super::inflate::{Inflater, deflated_range};
use super::storage::Storage;
use super::views::BodyRef;

/// Longer bodies are sent in pieces. To inflate this much takes a millisecond, which is as long as one
/// request may keep a worker from its other connections.
pub(crate) const LONG_BYTES_MIN: u32 = 512 * 1024 + 1;
/// Bytes of the stored form that are read at once.
const READ_BYTES: usize = 64 * 1024;
/// Bytes of the stored form that are verified in one step.
const VERIFIED_BYTES: u64 = 1024 * 1024;

/// One form of a long body, not opened yet.
#[derive(Clone, Debug)]
pub struct LongBody {
    pub(super) storage: Storage,
    pub(super) body: BodyRef,
    pub(super) gzip: bool,
    pub(super) damage: Arc<Damage>,
}

/// A long body whose stored form is being verified.
#[derive(Debug)]
pub struct LongBodyVerifier {
    body: LongBody,
    /// Bytes that are verified.
    at: u64,
    checksum: Hasher,
}

/// A long body that is being read. Reading waits for the disk.
#[derive(Debug)]
pub struct LongBodyReader {
    body: LongBody,
    /// The next byte to read, counted from the beginning of the stored form.
    at: u64,
    /// The bytes read from the file and not inflated yet: `input[used..]`.
    input: Vec<u8>,
    used: usize,
    /// `None` where the stored form is the one that is sent.
    inflater: Option<Inflater>,
    left: u64,
    checksum: Hasher,
}

impl LongBody {
    /// The length of the form in bytes.
    pub fn bytes(&self) -> u64 {
        if self.gzip {
            self.body.gzip_bytes.into()
        } else {
            self.body.plain_bytes.into()
        }
    }

    /// Begins to verify the stored form.
    pub fn verify(self) -> LongBodyVerifier {
        LongBodyVerifier {
            body: self,
            at: 0,
            checksum: Hasher::new(),
        }
    }

    /// Opens the body after verifying all of its stored form: 121 MB of JSON are 17 MB.
    pub fn open(self) -> Result<LongBodyReader, SnapshotError> {
        let mut verifier = self.verify();
        while !verifier.step()? {}
        Ok(verifier.into_reader())
    }

    fn reader(self) -> LongBodyReader {
        let inflates = !self.gzip && self.body.has_gzip();
        LongBodyReader {
            at: if inflates { deflated_range(0).start } else { 0 },
            input: Vec::new(),
            used: 0,
            inflater: inflates.then(Inflater::new),
            left: self.bytes(),
            checksum: Hasher::new(),
            body: self,
        }
    }

    /// Fills the buffer, or as much of it as there is before `end`, from byte `at` of the stored form.
    fn read_stored<'a>(
        &self,
        buffer: &'a mut [u8],
        at: u64,
        end: u64,
    ) -> Result<&'a [u8], SnapshotError> {
        let bytes = usize::try_from(end - at).map_or(buffer.len(), |left| left.min(buffer.len()));
        let part = &mut buffer[..bytes];
        let read = self.storage.read_into(self.body.offset + at, part);
        read.map_err(|error| error.of(self.body.place()))?;
        Ok(part)
    }
}

impl LongBodyVerifier {
    /// Verifies some of the stored form: a tenth of a millisecond's work, so that readers of other bodies take
    /// turns with it. Waits for the disk. Returns whether all of it is verified; damage is counted.
    pub fn step(&mut self) -> Result<bool, SnapshotError> {
        let stepped = self.read();
        stepped.inspect_err(|error| self.body.damage.note(error))
    }

    fn read(&mut self) -> Result<bool, SnapshotError> {
        let (length, written) = self.body.body.stored();
        let (length, mut buffer) = (u64::from(length), vec![0; READ_BYTES]);
        let end = length.min(self.at + VERIFIED_BYTES);
        while self.at < end {
            let part = self.body.read_stored(&mut buffer, self.at, end)?;
            self.checksum.update(part);
            self.at += part.len() as u64;
        }
        if self.at < length {
            return Ok(false);
        }
        let found = self.checksum.clone().finalize();
        expect_checksum(self.body.body.place(), written, found).map(|()| true)
    }

    /// The reader of a body that is verified.
    pub fn into_reader(self) -> LongBodyReader {
        self.body.reader()
    }
}

impl LongBodyReader {
    /// Bytes that are not read yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Fills a piece, which must not be longer than what is left. An error means that the body has been
    /// damaged since it was opened; it is counted, and what is left cannot be sent.
    pub fn fill(&mut self, mut piece: Vec<u8>) -> Result<Bytes, SnapshotError> {
        let filled = self.read(&mut piece);
        filled.inspect_err(|error| self.body.damage.note(error))?;
        Ok(piece.into())
    }

    fn read(&mut self, piece: &mut [u8]) -> Result<(), SnapshotError> {
        if self.inflater.is_some() {
            self.inflate(piece)?;
        } else {
            let end = self.body.bytes();
            self.at += self.body.read_stored(piece, self.at, end)?.len() as u64;
        }
        self.checksum.update(piece);
        self.left -= piece.len() as u64;
        if self.left > 0 {
            return Ok(());
        }
        let (body, gzip) = (self.body.body, self.body.gzip);
        let written = if gzip { body.gzip_crc } else { body.plain_crc };
        expect_checksum(body.place(), written, self.checksum.clone().finalize())
    }

    fn inflate(&mut self, piece: &mut [u8]) -> Result<(), SnapshotError> {
        let end = deflated_range(self.body.body.gzip_bytes.into()).end;
        let inflater = self.inflater.as_mut().expect("the caller has looked");
        let mut filled = 0;
        while filled < piece.len() {
            if self.used == self.input.len() {
                self.input.resize(READ_BYTES, 0);
                let read = self.body.read_stored(&mut self.input, self.at, end)?.len();
                self.input.truncate(read);
                self.at += read as u64;
                self.used = 0;
            }
            let (used, written) = inflater.step(&self.input[self.used..], &mut piece[filled..]);
            self.used += used;
            filled += written;
            if (used, written) == (0, 0) {
                return Err(SnapshotError::malformed(
                    self.body.body.place(),
                    "its gzip form holds no body of the length written",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "long_body_tests.rs"]
mod tests;
