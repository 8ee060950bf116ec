//! Counter files: a header that describes the counters, followed by the counters, mapped.
//!
//! Words of different lines are independent of each other, only move forward, and a line lies in one page. So any mix of
//! older and newer pages, as a power failure may leave, is a valid state: there is no log and nothing to replay. A file
//! that is damaged, or was created for another purpose, is renamed and replaced by one with counts of zero.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use zlib_rs::crc32::crc32;

use super::mapped::CounterSlab;
use crate::durable;
use crate::regular_file::{self, with_path};

const MAGIC: &[u8; 8] = b"im-quota";
const FORMAT: u32 = 1;
const NUMBERS_AT: usize = 24;
/// Magic, four numbers of 32 bits, five of 64 bits, and a checksum.
const HEADER_BYTES: usize = 8 + 4 * 4 + 5 * 8 + 4;
/// Offset of the words. The header has a page of its own, so that the words are page-aligned.
const WORDS_AT: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileNumbers {
    /// Secret seeds of the hash that selects a client's words.
    pub(crate) place_seeds: [u64; 2],
    /// Secret seed of the tags of IPv6 networks. The only number that changes.
    pub(crate) tag_seed: u64,
    pub(crate) directory_id: u64,
}

/// Purpose and size of a file's words. A file is opened only with the layout it was created with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileLayout {
    pub(crate) kind: u32,
    pub(crate) sizes: [u32; 2],
    pub(crate) words: usize,
}

impl FileLayout {
    fn file_bytes(&self) -> u64 {
        WORDS_AT + self.words as u64 * 8
    }
}

impl FileNumbers {
    pub(crate) fn random() -> FileNumbers {
        // The kernel's generator does not fail once the system has booted.
        let random = || getrandom::u64().expect("the system gives random numbers");
        FileNumbers {
            place_seeds: [random(), random()],
            tag_seed: random(),
            directory_id: random(),
        }
    }
}

/// Hashes a number with two seeds, by `SipHash` of the standard library. A future release of it may use
/// another algorithm: the header of a file contains a hash to detect that.
pub(crate) fn hash(seeds: [u64; 2], number: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(seeds[0]);
    hasher.write_u64(seeds[1]);
    hasher.write_u64(number);
    hasher.finish()
}

/// Opens or creates the counter file `name` in a directory. `log` is called with a line if the file was
/// damaged. Errors have the path.
pub(crate) fn open(
    directory: &Path,
    name: &str,
    layout: FileLayout,
    log: &dyn Fn(&str),
) -> io::Result<(CounterSlab, FileNumbers)> {
    let path = directory.join(name);
    let failed = with_path(&path);
    // Two servers that start at the same time create one file.
    let _lock = durable::lock_state(directory).map_err(with_path(directory))?;
    let (file, numbers) = match existing(&path, layout).map_err(&failed)? {
        None => create(&path, layout).map_err(&failed)?,
        Some((file, Ok(numbers))) => (file, numbers),
        Some((file, Err(fault))) => {
            if file.try_lock().is_err() {
                let problem = format!("{fault}, and another server is using it");
                return Err(failed(io::Error::other(problem)));
            }
            let aside = directory.join(format!("{name}.set-aside"));
            fs::rename(&path, &aside).map_err(&failed)?;
            log(&format!(
                "{} {fault}; it was renamed to {}, and its counts start at zero",
                path.display(),
                aside.display()
            ));
            create(&path, layout).map_err(&failed)?
        }
    };
    // Held as long as the words: a process that finds the file invalid must not set it aside.
    file.lock_shared().map_err(&failed)?;
    let words = CounterSlab::of_file(file, WORDS_AT, layout.words).map_err(&failed)?;
    Ok((words, numbers))
}

/// Replaces the numbers in the header of the file that contains the words, if there is one. The header
/// lies within a sector, so it is never half written.
pub(crate) fn write_numbers(
    words: &CounterSlab,
    layout: FileLayout,
    numbers: FileNumbers,
) -> io::Result<()> {
    match words.file() {
        None => Ok(()),
        Some(file) => {
            file.write_all_at(&encode(layout, numbers), 0)?;
            file.sync_data()
        }
    }
}

/// Opens a counter file if it exists. Returns its numbers, or why it cannot be used.
fn existing(
    path: &Path,
    layout: FileLayout,
) -> io::Result<Option<(File, Result<FileNumbers, &'static str>)>> {
    // Opening a pipe for reading and writing does not block.
    let mut file = match File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => regular_file::require_regular(opened?)?,
    };
    let mut header = [0; HEADER_BYTES];
    match file.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(Some((file, Err("is too short"))));
        }
        read => read?,
    }
    let number = |at: usize| {
        let bytes = &header[NUMBERS_AT + 8 * at..][..8];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    };
    let numbers = FileNumbers {
        place_seeds: [number(0), number(1)],
        tag_seed: number(2),
        directory_id: number(3),
    };
    let is_ours =
        header == encode(layout, numbers) && file.metadata()?.len() == layout.file_bytes();
    let fault = "is damaged, or was created for another size or by another build";
    Ok(Some((file, is_ours.then_some(numbers).ok_or(fault))))
}

fn create(path: &Path, layout: FileLayout) -> io::Result<(File, FileNumbers)> {
    let numbers = FileNumbers::random();
    let temp_path = path.with_extension(&durable::TEMP_SUFFIX[1..]);
    let file = durable::create_private(&temp_path)?;
    let written = fill(&file, layout, numbers).and_then(|()| fs::rename(&temp_path, path));
    if written.is_err() {
        // Best effort: releases the space if the disk is full.
        let _ = fs::remove_file(&temp_path);
    }
    written.map(|()| (file, numbers))
}

/// Writes the header and all zeros. The file is not sparse, so a full disk is detected here and not
/// when a word is first written. No fsync: zeros lost in a power failure read as zeros.
fn fill(file: &File, layout: FileLayout, numbers: FileNumbers) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 20, file);
    out.write_all(&encode(layout, numbers))?;
    let zeros = layout.file_bytes() - HEADER_BYTES as u64;
    io::copy(&mut io::repeat(0).take(zeros), &mut out)?;
    out.flush()
}

fn encode(layout: FileLayout, numbers: FileNumbers) -> [u8; HEADER_BYTES] {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(MAGIC);
    for number in [FORMAT, layout.kind, layout.sizes[0], layout.sizes[1]] {
        header.extend_from_slice(&number.to_le_bytes());
    }
    let [place_a, place_b] = numbers.place_seeds;
    for number in [place_a, place_b, numbers.tag_seed, numbers.directory_id] {
        header.extend_from_slice(&number.to_le_bytes());
    }
    header.extend_from_slice(&hash(numbers.place_seeds, 0).to_le_bytes());
    header.extend_from_slice(&crc32(0, &header).to_le_bytes());
    header.try_into().expect("the parts are as long as counted")
}
