//! The bytes of a payload, in memory or in a file, and the reading of its resident part: all of it at
//! open, with its checksum.
//!
//! The start of a server waits for it, so all cores share the work, and memory comes in huge pages:
//! most of the time is spent on getting memory, and a page of 2 MiB costs a tenth of 512 small
//! ones. In the background one core does it, in small pages (see `throttle`): getting a huge one
//! may take a millisecond.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use bytes::Bytes;
use crc32fast::Hasher;
use memmap2::{Advice, MmapMut};

use super::throttle::{chunk_bytes, in_background, parallelism, work_in_background, yield_point};
use crate::sync::{Mutex, in_order, lock};

/// The size of a huge page. The thread that touches a page first waits until it is zeroed, so each
/// page is filled by one thread.
const BLOCK_BYTES: usize = 2 << 20;

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
        let mut buffer = vec![0; length];
        self.read_into(offset, &mut buffer)?;
        Ok(buffer.into())
    }

    /// Fills a buffer from `offset` on.
    pub(crate) fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Storage::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                bytes.get(start..).unwrap_or_default().read_exact(buffer)
            }
            Storage::File(file) => file.read_exact_at(buffer, offset),
        }
    }
}

/// A part of a payload as a stream.
#[derive(Clone, Debug)]
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
    // Less is worth neither a huge page nor a second thread.
    let is_large = length >= BLOCK_BYTES;
    // Whole blocks, since only then do they begin where huge pages do. A length of 0 cannot be
    // mapped.
    let mut memory = MmapMut::map_anon(if is_large {
        length.next_multiple_of(BLOCK_BYTES)
    } else {
        length.max(1)
    })?;
    // Best effort: a system without huge pages uses small ones. Rows are read in random order, and
    // with small pages each read costs as much again for the page table.
    let advise_huge = |memory: &MmapMut| drop(memory.advise(Advice::HugePage));
    let is_background = in_background();
    if is_large && !is_background {
        advise_huge(&memory);
    }
    // Each block is locked by the one thread that reads it.
    let blocks = memory[..length].chunks_mut(BLOCK_BYTES).map(Mutex::new);
    let blocks: Vec<Mutex<&mut [u8]>> = blocks.collect();
    let threads = if is_large { parallelism() } else { 1 };
    let begin = || {
        if is_background {
            work_in_background();
        }
    };
    let read = |(): &mut (), at: usize| -> io::Result<Hasher> {
        let (mut block, mut hasher) = (lock(&blocks[at]), Hasher::new());
        let mut offset = offset + (at * BLOCK_BYTES) as u64;
        for chunk in block.chunks_mut(chunk_bytes()) {
            yield_point(0);
            storage.read_into(offset, chunk)?;
            // While it is in the cache of the core.
            hasher.update(chunk);
            offset += chunk.len() as u64;
        }
        Ok(hasher)
    };
    let mut checksum = Hasher::new();
    in_order((threads, blocks.len()), begin, read, |_, hasher| {
        hasher.map(|hasher| checksum.combine(&hasher))
    })?;
    drop(blocks);
    if is_large {
        advise_huge(&memory);
    }
    let bytes = Bytes::from_owner(memory.make_read_only()?);
    Ok((bytes.slice(..length), checksum.finalize()))
}

#[cfg(test)]
mod tests {
    use std::thread;

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
            let bytes: Vec<u8> = (0..blocks * BLOCK_BYTES as u64 / 8 + 1000)
                .flat_map(u64::to_le_bytes)
                .collect();
            let storage = Storage::File(Arc::new(file(&bytes)));
            let length = bytes.len() - 13;
            let wanted = crc32fast::hash(&bytes[13..]);
            let read = || read_resident(&storage, 13, length).unwrap();
            let in_background = thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    work_in_background();
                    read()
                });
                reader.join().unwrap()
            });
            let in_memory = Storage::Memory(bytes.clone().into());
            let in_memory = read_resident(&in_memory, 13, length).unwrap();
            for (found, checksum) in [read(), in_background, in_memory] {
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
