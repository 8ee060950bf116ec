//! Access to the files of a dataset, in a directory or embedded in the binary.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::regular_file;

/// A set of named files.
#[derive(Clone, Debug)]
pub enum Files<'a> {
    /// Files in a directory.
    Directory(PathBuf),
    /// Files in memory: path such as `daily/2026-11-20.csv`, and content.
    Embedded(&'a [(&'a str, &'a [u8])]),
}

/// File metadata that changes whenever the file is written to, except for writes within one tick of the
/// file system's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    /// Length in bytes.
    pub bytes: u64,
    /// Modification time (mtime) in Unix nanoseconds. A writer can set it.
    pub modified: i64,
    /// Change time (ctime) in Unix nanoseconds. It cannot be set.
    pub changed: i64,
    /// Inode number.
    pub inode: u64,
}

impl FileStamp {
    fn of(found: &fs::Metadata) -> FileStamp {
        let moment = |seconds: i64, nanoseconds| {
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds)
        };
        FileStamp {
            bytes: found.len(),
            modified: moment(found.mtime(), found.mtime_nsec()),
            changed: moment(found.ctime(), found.ctime_nsec()),
            inode: found.ino(),
        }
    }

    fn embedded(content: &[u8]) -> FileStamp {
        FileStamp {
            bytes: content.len() as u64,
            ..FileStamp::default()
        }
    }
}

/// An open file: its unbuffered content, and its stamp from before the first read.
pub(super) type OpenedFile<'a> = (Box<dyn Read + 'a>, FileStamp);

impl<'a> Files<'a> {
    /// Returns the path of a file or folder for messages; the empty name is the root.
    pub fn path(&self, name: &str) -> PathBuf {
        match self {
            Files::Directory(root) if name.is_empty() => root.clone(),
            Files::Directory(root) => root.join(name),
            Files::Embedded(_) => PathBuf::from(name),
        }
    }

    /// Returns an error if the directory does not exist, which is a mistake of the operator and not an
    /// empty dataset.
    pub fn probe(&self) -> io::Result<()> {
        match self {
            Files::Directory(root) => fs::read_dir(root).map(drop),
            Files::Embedded(_) => Ok(()),
        }
    }

    /// Returns the names without `.csv` of the CSV files in a folder such as `daily`, sorted. Hidden
    /// files and other kinds are skipped; a missing folder has no files.
    pub fn stems(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut stems = Vec::new();
        match self {
            Files::Directory(root) => {
                let entries = match fs::read_dir(root.join(folder)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(stems),
                    entries => entries?,
                };
                for entry in entries {
                    // A name that is not UTF-8 contains a replacement character. It is then no valid day
                    // or number, and is reported instead of skipped.
                    stems.extend(stem(&entry?.file_name().to_string_lossy()));
                }
            }
            Files::Embedded(files) => {
                let below = |name: &'a str| name.strip_prefix(folder)?.strip_prefix('/');
                stems.extend(files.iter().filter_map(|(name, _)| stem(below(name)?)));
            }
        }
        stems.sort_unstable();
        Ok(stems)
    }

    /// Opens a file. Returns `None` if it does not exist.
    pub(super) fn open(&self, name: &str) -> io::Result<Option<OpenedFile<'a>>> {
        match self {
            Files::Directory(root) => {
                let Some(file) = regular_file::open(&root.join(name))? else {
                    return Ok(None);
                };
                let stamp = FileStamp::of(&file.metadata()?);
                Ok(Some((Box::new(file), stamp)))
            }
            Files::Embedded(files) => {
                let found = files.iter().find(|(held, _)| *held == name);
                Ok(found.map(|(_, content)| {
                    let read: Box<dyn Read + 'a> = Box::new(*content);
                    (read, FileStamp::embedded(content))
                }))
            }
        }
    }

    /// Returns the stamp of a file, or `None` if it does not exist.
    pub(super) fn stamp(&self, name: &str) -> io::Result<Option<FileStamp>> {
        match self {
            Files::Directory(root) => {
                let found = regular_file::metadata(&root.join(name))?;
                Ok(found.map(|found| FileStamp::of(&found)))
            }
            Files::Embedded(files) => {
                let found = files.iter().find(|(held, _)| *held == name);
                Ok(found.map(|(_, content)| FileStamp::embedded(content)))
            }
        }
    }
}

/// Returns the name without `.csv`, or `None` for a hidden file or another kind.
fn stem(name: &str) -> Option<String> {
    let stem = name.strip_suffix(".csv")?;
    (!name.starts_with('.')).then(|| stem.to_owned())
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
    fn an_absent_directory_is_an_error_and_an_absent_file_is_none() {
        let files = Files::Directory(PathBuf::from("/nonexistent/dataset"));
        assert!(files.probe().is_err());
        assert!(files.open("islands.csv").unwrap().is_none());
        assert!(files.stems("daily").unwrap().is_empty());
    }
}
