//! Reading the part of a payload that stays in memory: all of it at open, checksums included.
//!
//! Who starts a server waits for this, so all cores share it, and memory comes in huge pages: most of
//! the time goes into getting memory, and a page of 2 MiB is had for a tenth of what 512 small ones
//! cost. Behind the back of requests one core does it gently, in small pages (see `pace`): to get
//! a huge one may take a millisecond at a stretch.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::thread;

use bytes::Bytes;
use crc32fast::Hasher;
use memmap2::{Advice, MmapMut};

use super::error::SnapshotError;
use super::pace::{checksum, give_way, hands, in_background, piece_bytes};
use super::storage::Storage;
use crate::sync::{Mutex, lock};

/// A huge page. Who touches one first waits until it is zeroed: two threads in one would both.
const BLOCK_BYTES: usize = 2 << 20;

/// Reads parts that follow each other from `offset` on. All their bytes, and each one's checksum.
pub(crate) fn read_resident(
    storage: &Storage,
    offset: u64,
    lengths: &[usize],
) -> Result<(Bytes, Vec<u32>), SnapshotError> {
    let length = lengths.iter().sum();
    match storage {
        Storage::Memory(_) => {
            let bytes = storage.read(offset, length)?;
            let mut rest = &bytes[..];
            let checksums = lengths.iter().map(|length| {
                let (part, after) = rest.split_at(*length);
                rest = after;
                checksum(part)
            });
            let checksums = checksums.collect();
            Ok((bytes, checksums))
        }
        Storage::File(file) => {
            // Less is neither worth a huge page nor a second thread.
            let is_large = length >= BLOCK_BYTES;
            let mut hashers = vec![Hasher::new(); lengths.len()];
            let mut memory = MmapMut::map_anon(room(length))?;
            // Only a wish: a system without huge pages leaves its usual ones. Rows are read all
            // over, and a walk through the tables of small pages would cost each read as much again.
            let ask_for_huge = |memory: &MmapMut| drop(memory.advise(Advice::HugePage));
            if is_large && !in_background() {
                ask_for_huge(&memory);
            }
            let mut tasks = tasks(&mut memory, offset, lengths);
            share(file, &mut tasks, if is_large { hands() } else { 1 })?;
            for task in tasks {
                hashers[task.part].combine(&task.hasher);
            }
            if is_large {
                ask_for_huge(&memory);
            }
            let checksums = hashers.into_iter().map(Hasher::finalize).collect();
            let bytes = Bytes::from_owner(memory.make_read_only()?);
            Ok((bytes.slice(..length), checksums))
        }
    }
}

/// How much memory to map: whole blocks, since only then do they begin where huge pages do.
fn room(length: usize) -> usize {
    if length < BLOCK_BYTES {
        // Nothing can be mapped with length 0.
        length.max(1)
    } else {
        length.next_multiple_of(BLOCK_BYTES)
    }
}

/// A piece of a part, no longer than a block.
struct Task<'a> {
    part: usize,
    offset: u64,
    bytes: &'a mut [u8],
    hasher: Hasher,
}

impl Task<'_> {
    fn run(&mut self, file: &File) -> io::Result<()> {
        let mut offset = self.offset;
        for piece in self.bytes.chunks_mut(piece_bytes()) {
            give_way(0);
            file.read_exact_at(piece, offset)?;
            // While the core's cache has it.
            self.hasher.update(piece);
            offset += piece.len() as u64;
        }
        Ok(())
    }
}

fn tasks<'a>(mut memory: &'a mut [u8], offset: u64, lengths: &[usize]) -> Vec<Task<'a>> {
    let (mut at, mut tasks) = (0, Vec::new());
    for (part, length) in lengths.iter().enumerate() {
        let end = at + length;
        while at < end {
            let step = (end - at).min(BLOCK_BYTES - at % BLOCK_BYTES);
            let (bytes, rest) = memory.split_at_mut(step);
            memory = rest;
            tasks.push(Task {
                part,
                offset: offset + at as u64,
                bytes,
                hasher: Hasher::new(),
            });
            at += step;
        }
    }
    tasks
}

/// Has that many threads, this one among them, do all tasks.
fn share(file: &File, tasks: &mut [Task<'_>], hands: usize) -> io::Result<()> {
    let tasks = Mutex::new(tasks.iter_mut());
    let work = || -> io::Result<()> {
        loop {
            let task = lock(&tasks).next();
            let Some(task) = task else { return Ok(()) };
            task.run(file)?;
        }
    };
    thread::scope(|scope| {
        let helpers: Vec<_> = (1..hands).map(|_| scope.spawn(work)).collect();
        let mut outcome = work();
        for helper in helpers {
            let theirs = helper.join();
            let theirs = theirs.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(theirs);
        }
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::work_in_background;

    /// A file of bytes that say where they stand, unnamed.
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
    fn parts_are_what_the_file_holds_however_they_are_read() {
        for blocks in [0, 1, 5] {
            let bytes: Vec<u8> = (0..blocks * BLOCK_BYTES as u64 / 8 + 1000)
                .flat_map(u64::to_le_bytes)
                .collect();
            let storage = Storage::File(std::sync::Arc::new(file(&bytes)));
            let all = bytes.len() - 13;
            let lengths = [0, 1, all / 3, 0, 4095, all - all / 3 - 4096, 0];
            let wanted: Vec<u32> = lengths
                .iter()
                .scan(13, |at, length| {
                    *at += length;
                    Some(crc32fast::hash(&bytes[*at - length..*at]))
                })
                .collect();
            let read = || read_resident(&storage, 13, &lengths).unwrap();
            let gently = thread::scope(|scope| {
                let gently = scope.spawn(|| {
                    work_in_background();
                    read()
                });
                gently.join().unwrap()
            });
            let in_memory = Storage::Memory(bytes.clone().into());
            let in_memory = read_resident(&in_memory, 13, &lengths).unwrap();
            for (found, checksums) in [read(), gently, in_memory] {
                assert!(found == bytes[13..], "{blocks} blocks");
                assert_eq!(checksums, wanted, "{blocks} blocks");
            }
            let cut = read_resident(&storage, 14, &lengths);
            assert!(cut.is_err(), "one byte beyond the end");
        }
    }
}
