//! [`CounterSlab`]: the words of a counter table in mapped memory, of a file or private to the process. A
//! count in a mapped file is in the page cache as soon as it is stored, so a killed process loses none.
//! The only place in the program with `unsafe` code.
#![expect(
    unsafe_code,
    reason = "a slice of atomics over mapped memory requires it"
)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::slice;

use memmap2::{Advice, MmapOptions, MmapRaw};

use crate::sync::{AtomicU64, Ordering};

/// Words in a cache line.
pub(crate) const LINE: usize = 64 / 8;
/// Words in a page of the smallest size that systems use.
const PAGE: usize = 4096 / 8;

/// A fixed number of counters shared by threads, aligned to a cache line.
#[derive(Debug)]
pub(crate) struct CounterSlab(Memory);

#[derive(Debug)]
enum Memory {
    /// Of a file, shared with every process that maps it, or anonymous.
    Mapped {
        map: MmapRaw,
        len: usize,
        /// Kept open for its shared lock, and for its header.
        file: Option<File>,
    },
    /// On the heap, where no memory can be mapped, as in a loom model.
    Heap(Box<[AtomicU64]>),
}

impl CounterSlab {
    /// Maps `len` words from byte `offset` of a file opened for reading and writing. The offset has to
    /// be a multiple of 8, and the file long enough.
    pub(crate) fn of_file(file: File, offset: u64, len: usize) -> io::Result<CounterSlab> {
        if cfg!(island_metrics_loom) {
            // The atomics of a loom model are larger than 8 bytes.
            return Err(io::ErrorKind::Unsupported.into());
        }
        let bytes = len * size_of::<AtomicU64>();
        let short = file.metadata()?.len() < offset + bytes as u64;
        if short || !offset.is_multiple_of(align_of::<AtomicU64>() as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let map = MmapOptions::new()
            .offset(offset)
            .len(bytes)
            .map_raw(&file)?;
        Ok(CounterSlab(Memory::Mapped {
            map,
            len,
            file: Some(file),
        }))
    }

    /// Allocates counters of zero and touches every page, so that memory use does not grow later.
    pub(crate) fn zeroed(len: usize) -> CounterSlab {
        let words = CounterSlab::anonymous(len).unwrap_or_else(|_| {
            CounterSlab(Memory::Heap((0..len).map(|_| AtomicU64::new(0)).collect()))
        });
        for word in words.iter().step_by(PAGE) {
            word.store(0, Ordering::Relaxed);
        }
        words
    }

    /// Maps `len` words of zero without a file. Requests huge pages: they are allocated faster, and
    /// because requests hit random words, small pages would cost a page-table walk for most of them.
    fn anonymous(len: usize) -> io::Result<CounterSlab> {
        if cfg!(island_metrics_loom) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let bytes = len * size_of::<AtomicU64>();
        let map = MmapOptions::new().len(bytes).map_anon()?;
        // Only a hint.
        let _ = map.advise(Advice::HugePage);
        Ok(CounterSlab(Memory::Mapped {
            map: map.into(),
            len,
            file: None,
        }))
    }

    pub(crate) fn file(&self) -> Option<&File> {
        match &self.0 {
            Memory::Mapped { file, .. } => file.as_ref(),
            Memory::Heap(_) => None,
        }
    }

    /// Sets the counters to zero for which `keep` returns `false`, given their index and bits. Returns
    /// their number.
    pub(crate) fn retain(&self, mut keep: impl FnMut(usize, u64) -> bool) -> u64 {
        let mut cleared = 0;
        for (at, word) in self.iter().enumerate() {
            let bits = word.load(Ordering::Relaxed);
            if bits != 0 && !keep(at, bits) {
                // If the swap fails, another server has stored a newer count, which stays.
                let swap = word.compare_exchange(bits, 0, Ordering::Relaxed, Ordering::Relaxed);
                cleared += u64::from(swap.is_ok());
            }
        }
        cleared
    }
}

impl Deref for CounterSlab {
    type Target = [AtomicU64];

    #[inline]
    #[expect(clippy::cast_ptr_alignment, reason = "the map is aligned to a word")]
    fn deref(&self) -> &[AtomicU64] {
        let (map, len) = match &self.0 {
            Memory::Mapped { map, len, .. } => (map, *len),
            Memory::Heap(words) => return words,
        };
        let start = map.as_mut_ptr().cast::<AtomicU64>();
        // SAFETY: the map is readable and writable, `len` words long, and lives as long as `self`. It
        // begins in a page at a multiple of 8 bytes, so the words are aligned. Every bit pattern is a
        // valid `AtomicU64`. This process accesses the memory through atomics only, and other processes
        // write it by this same code, atomically too. A mapped file contains every byte of the map:
        // `of_file` has checked its length, and the program never shortens such a file. If a user
        // shortens one by hand, in spite of the state directory's mode 0700, SIGBUS kills the process;
        // that is not undefined behaviour.
        unsafe { slice::from_raw_parts(start, len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: u64) -> File {
        let path = std::env::temp_dir().join(format!("im-mapped-{}-{name}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        file.set_len(bytes).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn two_maps_of_a_file_are_the_same_words() {
        let file = file("same", 4096 + 800);
        let (one, other) = (
            CounterSlab::of_file(file.try_clone().unwrap(), 4096, 100).unwrap(),
            CounterSlab::of_file(file.try_clone().unwrap(), 4096, 100).unwrap(),
        );
        assert_eq!(one.len(), 100);
        one[99].store(7, Ordering::Relaxed);
        assert_eq!(other[99].load(Ordering::Relaxed), 7);
        drop(one);
        let again = CounterSlab::of_file(file, 4096, 100).unwrap();
        assert_eq!(again[99].load(Ordering::Relaxed), 7);
        assert_eq!(again[98].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn anonymous_words_are_zero_and_keep_stored_values() {
        let words = CounterSlab::anonymous(1000).unwrap();
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        words[999].store(7, Ordering::Relaxed);
        assert_eq!(words[999].load(Ordering::Relaxed), 7);
    }

    /// On this architecture, all pages are of the smallest size or a multiple of it.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn all_pages_of_a_new_table_have_memory() {
        use std::os::unix::fs::FileExt as _;
        const PAGE_BYTES: usize = 4096;
        let words = CounterSlab::zeroed(64 * PAGE_BYTES / 8);
        let pages = File::open("/proc/self/pagemap").unwrap();
        let first = words.as_ptr().addr() / PAGE_BYTES;
        for page in first..first + 64 {
            let mut entry = [0; 8];
            pages.read_exact_at(&mut entry, page as u64 * 8).unwrap();
            // The highest bit of an entry: the page is present.
            assert_eq!(entry[7] >> 7, 1, "page {}", page - first);
        }
    }

    #[test]
    fn a_file_too_short_is_refused() {
        let file = file("short", 4096 + 799);
        assert!(CounterSlab::of_file(file.try_clone().unwrap(), 4096, 100).is_err());
        assert!(CounterSlab::of_file(file, 4097, 1).is_err());
    }

    #[test]
    fn tables_begin_at_a_cache_line() {
        for len in [1, 8, 9, 4096, 100_000] {
            let words = CounterSlab::zeroed(len);
            assert_eq!(words.len(), len);
            assert_eq!(words.as_ptr().addr() % (LINE * 8), 0);
            assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        }
    }
}
