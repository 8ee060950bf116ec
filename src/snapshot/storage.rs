//! The bytes of a payload, in memory or in a file, and the reading of its resident part: all of it at
//! open, with its checksum.
//!
//! The start of a server waits for it, so memory comes in huge pages: most of the time is spent on
//! getting memory, and a page of 2 MiB costs a tenth of 512 small ones. One thread reads: with two,
//! which share the kernel's lock of the address space, a start took 2.9 times the CPU time.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::{Advice, MmapMut};
use zlib_rs::crc32::crc32;

use super::error::SnapshotError;

const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Bytes that are read and verified at a time: what fits in the cache of a core.
const CHUNK_BYTES: usize = 256 * 1024;

/// The bytes of a payload.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In memory: the embedded sample.
    Memory(Bytes),
    /// In a file, whose bodies are read when they are requested, and its path, for messages. Shared with bodies that
    /// are being sent, so that they do not keep the rest of the snapshot in memory.
    File(Arc<(File, PathBuf)>),
}

impl Storage {
    pub(crate) fn len(&self) -> io::Result<u64> {
        match self {
            Storage::Memory(bytes) => Ok(bytes.len() as u64),
            Storage::File(file) => file.0.metadata().map(|found| found.len()),
        }
    }

    pub(crate) fn read(&self, offset: u64, length: usize) -> io::Result<Bytes> {
        let mut buffer = vec![0; length];
        self.read_into(offset, &mut buffer)?;
        Ok(buffer.into())
    }

    pub(crate) fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Storage::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                bytes.get(start..).unwrap_or_default().read_exact(buffer)
            }
            Storage::File(file) => file.0.read_exact_at(buffer, offset),
        }
    }

    /// Adds the path of the file to the message of an error.
    pub(super) fn name(&self, error: SnapshotError) -> SnapshotError {
        match self {
            Storage::Memory(_) => error,
            Storage::File(file) => error.in_file(&file.1),
        }
    }
}

#[derive(Debug)]
pub(crate) struct StoredPart {
    pub(crate) storage: Storage,
    pub(crate) offset: u64,
    pub(crate) left: u64,
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

/// Reads `length` bytes from `offset` on. Returns them and their checksum.
pub(crate) fn read_resident(
    storage: &Storage,
    offset: u64,
    length: usize,
) -> io::Result<(Bytes, u32)> {
    let is_large = length >= HUGE_PAGE_BYTES;
    // Whole huge pages, since only then does it begin where they do. A length of 0 cannot be mapped.
    let mut memory = MmapMut::map_anon(if is_large {
        length.next_multiple_of(HUGE_PAGE_BYTES)
    } else {
        length.max(1)
    })?;
    // Best effort: a system without huge pages uses small ones. Rows are read in random order, and
    // with small pages each read costs as much again for the page table.
    if is_large {
        let _ = memory.advise(Advice::HugePage);
    }
    let (mut checksum, mut offset) = (0, offset);
    for chunk in memory[..length].chunks_mut(CHUNK_BYTES) {
        storage.read_into(offset, chunk)?;
        // While it is in the cache of the core.
        checksum = crc32(checksum, chunk);
        offset += chunk.len() as u64;
    }
    let bytes = Bytes::from_owner(memory.make_read_only()?);
    Ok((bytes.slice(..length), checksum))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an unnamed file of these bytes.
    fn file(bytes: &[u8]) -> File {
        use std::io::Write as _;
        let name = format!("im-resident-{}-{}", std::process::id(), bytes.len());
        let path = std::env::temp_dir().join(name);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(path).unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn the_part_is_that_of_the_file_however_it_is_read() {
        for blocks in [0, 1, 5] {
            let bytes: Vec<u8> = (0..blocks * HUGE_PAGE_BYTES as u64 / 8 + 1000)
                .flat_map(u64::to_le_bytes)
                .collect();
            let storage = Storage::File(Arc::new((file(&bytes), PathBuf::new())));
            let length = bytes.len() - 13;
            let wanted = crc32(0, &bytes[13..]);
            let read = || read_resident(&storage, 13, length).unwrap();
            let in_memory = Storage::Memory(bytes.clone().into());
            let in_memory = read_resident(&in_memory, 13, length).unwrap();
            for (found, checksum) in [read(), in_memory] {
                assert!(found == bytes[13..], "{blocks} blocks");
                assert_eq!(checksum, wanted, "{blocks} blocks");
            }
            let cut = read_resident(&storage, 14, length);
            assert!(cut.is_err(), "one byte beyond the end");
            let none = read_resident(&storage, 13, 0).unwrap();
            assert_eq!(none, (Bytes::new(), 0));
        }
    }
}
