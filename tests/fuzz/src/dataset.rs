//! CSV files of any content: the reader never panics, every reported fault has a place, and a dataset
//! that it accepts can be published, and stays the same when it is written as CSV and read again.
//!
//! An input is a sequence of files, separated by the byte 0xFF; the first line of each is its name.
#![no_main]

mod scratch;
mod whole;

use std::fs;

use island_metrics::dataset::{Fault, LoadError};
use libfuzzer_sys::fuzz_target;
use zlib_rs::crc32::crc32;

use scratch::Scratch;
use whole::Whole;

/// Separator of files. UTF-8 does not contain it.
const BETWEEN_FILES: u8 = 0xFF;
/// Further files of an input are ignored: a reader that is slow for few bytes would not be noticed.
const FILES_MAX: usize = 12;
/// Texts of faults of a whole file, which have no line.
const OF_A_FILE: [&str; 7] = [
    "codes must be in islands.csv",
    "the day must be no later",
    "the file name must be",
    "the step must be no later",
    "the file must exist",
    "the header row must be",
    "the step must have one file",
];

/// One in so many accepted datasets is published: publishing takes longer than everything else.
const PUBLISHED_SHARE: u32 = 32;

/// The files of an input; of several with the same name, the first.
fn files(input: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for part in input.split(|byte| *byte == BETWEEN_FILES).take(FILES_MAX) {
        let end = part
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(part.len());
        let name = String::from_utf8_lossy(&part[..end]).into_owned();
        let content = part.get(end + 1..).unwrap_or_default().to_vec();
        if files.iter().all(|(held, _)| *held != name) {
            files.push((name, content));
        }
    }
    files
}

/// Numbers of lines and fields of a file.
struct Extent {
    lines: u64,
    fields: usize,
}

impl Extent {
    fn of(content: &[u8]) -> Extent {
        let (mut lines, mut fields, mut before) = (1, 1, 0);
        for byte in content {
            // A line ends with LF, CR LF or a CR alone.
            lines += u64::from(*byte == b'\r' || *byte == b'\n' && before != b'\r');
            fields += usize::from(matches!(byte, b',' | b'\n'));
            before = *byte;
        }
        Extent { lines, fields }
    }
}

/// Asserts that a fault names a file that exists or is missing, and a line of that file.
fn has_its_place(fault: &Fault, extents: &[(&str, Extent)]) {
    let told = fault.to_string();
    // Control characters of a name are shown as escapes.
    let mut shown = String::new();
    for letter in fault.file.chars() {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    let is_plain = !told.contains(char::is_control);
    assert!(told.starts_with(&shown) && is_plain, "{told:?}");
    let held = extents.iter().find(|(name, _)| *name == fault.file);
    let Some(line) = fault.line else {
        assert!(
            OF_A_FILE
                .iter()
                .any(|begin| fault.problem.starts_with(begin)),
            "{told}"
        );
        return;
    };
    let (_, Extent { lines, fields }) = held.unwrap_or_else(|| panic!("{told}: no such file"));
    assert!(
        (1..=*lines).contains(&line),
        "{told}: the file has {lines} lines"
    );
    if let Some(column) = fault.column {
        assert!(
            (1..=*fields).contains(&column),
            "{told}: the file has {fields} fields"
        );
    }
}

/// Publishes a valid dataset, and checks the result.
#[expect(
    clippy::disallowed_methods,
    reason = "an input need not survive a crash"
)]
fn publish(files: &[(String, Vec<u8>)]) {
    let scratch = Scratch::new();
    let dataset = scratch.join("dataset");
    for (name, content) in files {
        let path = dataset.join(name);
        fs::create_dir_all(path.parent().expect("below the dataset")).expect("there is room");
        fs::write(path, content).expect("there is room");
    }
    let published = scratch::publish(&scratch, dataset.to_str().expect("plain"));
    let to = published.to_str().expect("plain");
    scratch::run(&["check", "--published", to]);
}

fuzz_target!(|input: &[u8]| {
    let given = files(input);
    match Whole::read(&given) {
        Ok(dataset) => {
            let again = dataset.files();
            let read =
                Whole::read(&again).unwrap_or_else(|e| panic!("accepted, and then not: {e}"));
            assert_eq!(dataset, read);
            if crc32(0, input).is_multiple_of(PUBLISHED_SHARE) {
                publish(&again);
            }
        }
        Err(LoadError::Faults(faults)) => {
            let listed = faults.listed();
            assert!(faults.total > 0 && listed.len() <= faults.total);
            assert!(listed.is_sorted_by_key(|fault| (fault.file != "islands.csv", *fault)));
            let extents = given.iter();
            let extents = extents.map(|(name, content)| (&**name, Extent::of(content)));
            let extents: Vec<_> = extents.collect();
            for fault in listed {
                has_its_place(fault, &extents);
            }
        }
        Err(error @ LoadError::Io(_)) => panic!("memory cannot fail: {error}"),
    }
});
