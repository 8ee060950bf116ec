//! Where a payload's bytes are, and how parts of them are read.

use std::fs::File;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use memmap2::{Advice, MmapMut};

use super::error::SnapshotError;
use super::pace::{PIECE_BYTES, give_way};

/// Where a payload's bytes are.
#[derive(Debug)]
pub enum Storage {
    /// In memory, as the compiled-in sample is.
    Memory(Bytes),
    /// In a file, whose bodies are read when they are asked for.
    File(File),
}

impl Storage {
    pub(crate) fn len(&self) -> Result<u64, SnapshotError> {
        Ok(match self {
            Storage::Memory(bytes) => bytes.len() as u64,
            Storage::File(file) => file.metadata()?.len(),
        })
    }

    /// Whether what is read is in memory already, so that a cache of it would only be a copy.
    pub(crate) fn in_memory(&self) -> bool {
        matches!(self, Storage::Memory(_))
    }

    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Bytes, SnapshotError> {
        match self {
            Storage::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let end = start.saturating_add(length);
                if end > bytes.len() {
                    return Err(SnapshotError::malformed(
                        "the file",
                        "a part lies beyond its end",
                    ));
                }
                Ok(bytes.slice(start..end))
            }
            Storage::File(file) => {
                let mut buffer = vec![0; length];
                file.read_exact_at(&mut buffer, offset)?;
                Ok(buffer.into())
            }
        }
    }

    /// Reads a part that stays in memory and is read all over, row by row: in huge pages where the
    /// system has them, since each row would otherwise cost a walk through the page tables too. They
    /// are asked for when all is read: to get one takes a millisecond or more at a stretch, which the
    /// system then spends in the background.
    pub(crate) fn read_resident(&self, offset: u64, length: usize) -> Result<Bytes, SnapshotError> {
        let Storage::File(file) = self else {
            return self.read(offset, length);
        };
        // Nothing can be mapped with length 0.
        let mut memory = MmapMut::map_anon(length.max(1))?;
        for (piece, offset) in memory[..length]
            .chunks_mut(PIECE_BYTES)
            .zip((offset..).step_by(PIECE_BYTES))
        {
            give_way(0);
            file.read_exact_at(piece, offset)?;
        }
        // Only a wish: a system without them leaves its usual pages.
        let _ = memory.advise(Advice::HugePage);
        Ok(Bytes::from_owner(memory.make_read_only()?).slice(..length))
    }
}
