//! Where a payload's bytes are, and how parts of them are read.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use bytes::Bytes;

use super::error::SnapshotError;

/// Where a payload's bytes are.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In memory, as the compiled-in sample is.
    Memory(Bytes),
    /// In a file, whose bodies are read when they are requested. A body that is being sent shares it, so
    /// that it does not keep the rest of the snapshot in memory.
    File(Arc<File>),
}

impl Storage {
    pub(crate) fn len(&self) -> Result<u64, SnapshotError> {
        Ok(match self {
            Storage::Memory(bytes) => bytes.len() as u64,
            Storage::File(file) => file.metadata()?.len(),
        })
    }

    /// Returns `true` if the file that is `named` now is another one than this.
    pub(crate) fn is_superseded(&self, named: &File) -> bool {
        let Storage::File(file) = self else {
            return false;
        };
        let which = |found: Metadata| (found.dev(), found.ino());
        match (file.metadata(), named.metadata()) {
            (Ok(this), Ok(named)) => which(this) != which(named),
            _ => false,
        }
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
            Storage::File(_) => {
                let mut buffer = vec![0; length];
                self.read_into(offset, &mut buffer)?;
                Ok(buffer.into())
            }
        }
    }

    /// Fills a buffer with what is stored from `offset` on.
    pub(crate) fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SnapshotError> {
        match self {
            Storage::Memory(_) => buffer.copy_from_slice(&self.read(offset, buffer.len())?),
            Storage::File(file) => file.read_exact_at(buffer, offset)?,
        }
        Ok(())
    }
}
