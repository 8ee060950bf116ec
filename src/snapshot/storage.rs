//! The bytes of a payload, in memory or in a file.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use bytes::Bytes;

/// The bytes of a payload.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In memory: the embedded sample.
    Memory(Bytes),
    /// In a file, whose bodies are read when they are requested. Shared with bodies that are being
    /// sent, so that they do not keep the rest of the snapshot in memory.
    File(Arc<File>),
}

impl Storage {
    pub(crate) fn len(&self) -> io::Result<u64> {
        match self {
            Storage::Memory(bytes) => Ok(bytes.len() as u64),
            Storage::File(file) => file.metadata().map(|found| found.len()),
        }
    }

    /// Returns `true` if `named` is another file than this one.
    pub(crate) fn is_superseded(&self, named: &File) -> bool {
        let Storage::File(file) = self else {
            return false;
        };
        let inode = |found: Metadata| (found.dev(), found.ino());
        match (file.metadata(), named.metadata()) {
            (Ok(this), Ok(named)) => inode(this) != inode(named),
            _ => false,
        }
    }

    pub(crate) fn read(&self, offset: u64, length: usize) -> io::Result<Bytes> {
        match self {
            Storage::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let end = start.saturating_add(length);
                let is_inside = end <= bytes.len();
                is_inside
                    .then(|| bytes.slice(start..end))
                    .ok_or(ErrorKind::UnexpectedEof.into())
            }
            Storage::File(file) => {
                let mut buffer = vec![0; length];
                file.read_exact_at(&mut buffer, offset)?;
                Ok(buffer.into())
            }
        }
    }

    /// Fills a buffer from `offset` on.
    pub(crate) fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Storage::Memory(_) => buffer.copy_from_slice(&self.read(offset, buffer.len())?),
            Storage::File(file) => file.read_exact_at(buffer, offset)?,
        }
        Ok(())
    }
}
