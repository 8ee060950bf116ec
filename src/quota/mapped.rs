//! Words in mapped memory, of a file or of the process alone. In a file, what is counted is in the
//! kernel's hands the moment it is counted, so that a killed process loses nothing. The one place in
//! the program with `unsafe` code.
#![expect(
    unsafe_code,
    reason = "a slice of atomics over mapped memory cannot be had without it"
)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::slice;

use memmap2::{Advice, MmapOptions, MmapRaw};

use crate::sync::AtomicU64;

/// The words of a file from an offset on, shared with every process that maps the same file; or words
/// of this process.
#[derive(Debug)]
pub(crate) struct MappedCounters {
    map: MmapRaw,
    len: usize,
    /// Kept for its lock.
    _file: Option<File>,
}

impl MappedCounters {
    /// Maps `len` words from byte `offset`, a multiple of a word, of a file opened for
    /// reading and writing that holds them all.
    pub(crate) fn new(file: File, offset: u64, len: usize) -> io::Result<MappedCounters> {
        if cfg!(island_metrics_loom) {
            // The words of a model are larger, and live in no file.
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
        Ok(MappedCounters {
            map,
            len,
            _file: Some(file),
        })
    }

    /// Maps `len` words of zero that belong to no file. In huge pages where the system has them: they
    /// are had sooner, and a request's word is anywhere, so that it would want a walk through the
    /// tables of small ones.
    pub(crate) fn anonymous(len: usize) -> io::Result<MappedCounters> {
        if cfg!(island_metrics_loom) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let map = MmapOptions::new()
            .len(len * size_of::<AtomicU64>())
            .map_anon()?;
        // Only a wish.
        let _ = map.advise(Advice::HugePage);
        Ok(MappedCounters {
            map: map.into(),
            len,
            _file: None,
        })
    }
}

impl Deref for MappedCounters {
    type Target = [AtomicU64];

    #[inline]
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "the words begin at a multiple of a word"
    )]
    fn deref(&self) -> &[AtomicU64] {
        let start = self.map.as_mut_ptr().cast::<AtomicU64>();
        // SAFETY: the map is readable and writable, is `len` words long, begins at a multiple of a word
        // in a page, so that the words are aligned, and lives as long as `self`. Every bit pattern is an
        // `AtomicU64`, and this process reaches the memory through atomics only; what other
        // processes write there they write by this same code, atomically too. A file, if there is one,
        // holds every byte of the map: `new` has looked, and files of this kind are never shortened
        // by the program. Who shortens one by hand, against the state directory's mode 0700,
        // gets the process killed by SIGBUS, not undefined behaviour.
        unsafe { slice::from_raw_parts(start, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering;

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
            MappedCounters::new(file.try_clone().unwrap(), 4096, 100).unwrap(),
            MappedCounters::new(file.try_clone().unwrap(), 4096, 100).unwrap(),
        );
        assert_eq!(one.len(), 100);
        one[99].store(7, Ordering::Relaxed);
        assert_eq!(other[99].load(Ordering::Relaxed), 7);
        drop(one);
        let again = MappedCounters::new(file, 4096, 100).unwrap();
        assert_eq!(again[99].load(Ordering::Relaxed), 7);
        assert_eq!(again[98].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn words_of_no_file_are_zero_and_keep_what_is_stored() {
        let words = MappedCounters::anonymous(1000).unwrap();
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        words[999].store(7, Ordering::Relaxed);
        assert_eq!(words[999].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn a_file_too_short_is_refused() {
        let file = file("short", 4096 + 799);
        assert!(MappedCounters::new(file.try_clone().unwrap(), 4096, 100).is_err());
        assert!(MappedCounters::new(file, 4097, 1).is_err());
    }
}
