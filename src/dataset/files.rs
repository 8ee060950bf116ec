//! Access to the files of a dataset, in a directory or embedded in the binary.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::calendar::unix_nanoseconds;
use crate::regular_file;

const SECOND_NANOSECONDS: i64 = 1_000_000_000;
/// Twice the coarsest granularity of timestamps with a fraction of a second: a tick of a kernel with 100 of them.
const TICK_NANOSECONDS: i64 = 2 * 10_000_000;
/// Twice the coarsest granularity of those in whole seconds (2 s on FAT).
const COARSE_TICK_NANOSECONDS: i64 = 4 * SECOND_NANOSECONDS;

#[derive(Clone, Debug)]
pub enum Files<'a> {
    Directory(PathBuf),
    /// Files in memory: path such as `daily/2026-11-20.csv`, and content.
    Embedded(&'a [(&'a str, &'a [u8])]),
}

/// File metadata that changes whenever the file is written to, except for writes within one tick of the
/// file system's clock. As in git's index, it identifies the content only if the last change was
/// at least a tick before the file was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    pub bytes: u64,
    /// Modification time (mtime) in Unix nanoseconds. A writer can set it.
    pub modified: i64,
    /// Change time (ctime) in Unix nanoseconds. It cannot be set.
    pub changed: i64,
    pub inode: u64,
}

/// An open file. It is not buffered.
pub(super) struct OpenFile<'a> {
    pub(super) content: Box<dyn Read + 'a>,
    /// Metadata from before the first byte was read; `None` if they do not identify the content.
    pub(super) stamp: Option<FileStamp>,
}

impl<'a> Files<'a> {
    /// Returns the path of a file or folder for messages; the empty name is the root.
    pub fn path(&self, name: &str) -> PathBuf {
        match self {
            Files::Directory(root) if name.is_empty() => root.clone(),
            Files::Directory(root) => root.join(name),
            Files::Embedded(_) => PathBuf::from(name),
        }
    }

    /// Returns the names in a folder such as `daily`, sorted, without hidden ones; a missing folder has none. The folder
    /// with the empty name is the dataset. If it does not exist, that is a mistake of the operator, and no empty dataset.
    pub(super) fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = match self {
            Files::Directory(root) => match fs::read_dir(root.join(folder)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_empty() => {
                    regular_file::require_absent(&root.join(folder))?;
                    Vec::new()
                }
                // A name that is not UTF-8 contains a replacement character. It is then no valid day
                // or number, and is reported instead of skipped.
                entries => entries?
                    .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                    .collect::<io::Result<_>>()?,
            },
            Files::Embedded(files) => {
                let paths = files.iter().map(|(path, _)| *path);
                let below = |path: &str| Some(path.strip_prefix(folder)?.strip_prefix('/')?.into());
                paths.filter_map(below).collect()
            }
        };
        names.retain(|name| !name.starts_with('.'));
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the names without `.csv` of the CSV files in a folder, sorted.
    pub fn stems(&self, folder: &str) -> io::Result<Vec<String>> {
        let names = self.names(folder)?;
        let stems = names.iter().filter_map(|name| name.strip_suffix(".csv"));
        Ok(stems.map(Into::into).collect())
    }

    /// Opens a file. Returns `None` if it does not exist.
    pub(super) fn open(&self, name: &str) -> io::Result<Option<OpenFile<'a>>> {
        match self {
            Files::Directory(root) => {
                let Some(file) = regular_file::open(&root.join(name))? else {
                    return Ok(None);
                };
                let stamp = FileStamp::of(&file.metadata()?);
                let stamp = Some(stamp).filter(|stamp| stamp.is_final(unix_nanoseconds()));
                let content = Box::new(file);
                Ok(Some(OpenFile { content, stamp }))
            }
            Files::Embedded(files) => {
                let found = files.iter().find(|(path, _)| *path == name);
                Ok(found.map(|(_, content)| {
                    let stamp = Some(FileStamp {
                        bytes: content.len() as u64,
                        ..FileStamp::default()
                    });
                    let content = Box::new(*content);
                    OpenFile { content, stamp }
                }))
            }
        }
    }

    /// Returns the stamp of a file, or `None` if it does not exist.
    pub(super) fn stamp(&self, name: &str) -> io::Result<Option<FileStamp>> {
        match self {
            Files::Directory(root) => {
                let metadata = regular_file::metadata(&root.join(name))?;
                Ok(metadata.as_ref().map(FileStamp::of))
            }
            Files::Embedded(_) => Ok(self.open(name)?.and_then(|file| file.stamp)),
        }
    }
}

impl FileStamp {
    pub fn of(metadata: &fs::Metadata) -> FileStamp {
        let time = |seconds: i64, nanoseconds| {
            seconds
                .saturating_mul(SECOND_NANOSECONDS)
                .saturating_add(nanoseconds)
        };
        FileStamp {
            bytes: metadata.len(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }

    /// Returns whether every write after a time, in Unix nanoseconds, changes the stamp: a write within the tick of the
    /// last one does not.
    fn is_final(self, time: i64) -> bool {
        let tick = if self.changed % SECOND_NANOSECONDS == 0 {
            COARSE_TICK_NANOSECONDS
        } else {
            TICK_NANOSECONDS
        };
        self.changed.saturating_add(tick) <= time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_folders_list_their_csv_files_sorted() {
        let files = Files::Embedded(&[
            ("daily/b.csv", b""),
            ("daily/a.csv", b"x"),
            ("daily/.c.csv", b""),
            ("daily/readme.txt", b""),
            ("dailyish/d.csv", b""),
            ("islands.csv", b""),
        ]);
        assert_eq!(files.stems("daily").unwrap(), ["a", "b"]);
        assert!(files.stems("live").unwrap().is_empty());
        assert!(files.open("daily/a.csv").unwrap().is_some());
        assert!(files.open("daily/z.csv").unwrap().is_none());
    }

    #[test]
    fn a_stamp_identifies_a_file_that_is_older_than_a_tick() {
        for (changed, time, is_final) in [
            (7_000_000_001, 7_020_000_000, false),
            (7_000_000_001, 7_020_000_001, true),
            (7_000_000_000, 10_999_999_999, false),
            (7_000_000_000, 11_000_000_000, true),
            // A clock that was set back.
            (7_000_000_001, 5_000_000_000, false),
            (i64::MAX, i64::MAX - 1, false),
        ] {
            let stamp = FileStamp {
                changed,
                ..FileStamp::default()
            };
            assert_eq!(stamp.is_final(time), is_final, "{changed} at {time}");
        }
    }

    #[test]
    fn an_absent_directory_is_an_error_and_an_absent_file_is_none() {
        let files = Files::Directory(PathBuf::from("/nonexistent/dataset"));
        assert!(files.names("").is_err());
        assert!(files.open("islands.csv").unwrap().is_none());
        assert!(files.stems("daily").unwrap().is_empty());
    }
}
