//! Where the dataset's files come from: a directory, or the binary itself.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::regular_file;

/// A set of named files, read one at a time.
#[derive(Clone, Debug)]
pub enum Files<'a> {
    /// Files below this directory.
    Directory(PathBuf),
    /// Files in memory, such as those compiled in: relative name, such as `daily/2026-11-20.csv`, and content.
    Embedded(&'a [(&'a str, &'a [u8])]),
}

/// What the system says of a file without its content being read. A file that is written to gets
/// another one, but for writes within the grain of the system's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    /// Its length.
    pub bytes: u64,
    /// When its content was written, in Unix nanoseconds; whoever writes can set it.
    pub modified: i64,
    /// When anything about it changed, in Unix nanoseconds; nobody can set it.
    pub changed: i64,
    /// Which file of its disk it is.
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

/// A file opened: its bytes, not buffered, and its stamp from before any was read.
pub(super) type OpenedFile<'a> = (Box<dyn Read + 'a>, FileStamp);

impl<'a> Files<'a> {
    /// The path to tell a person for the file or folder of that name; the empty name is the root.
    pub fn path(&self, name: &str) -> PathBuf {
        match self {
            Files::Directory(root) if name.is_empty() => root.clone(),
            Files::Directory(root) => root.join(name),
            Files::Embedded(_) => PathBuf::from(name),
        }
    }

    /// Fails if there is no such directory at all, which is a slip of the operator's and not an
    /// empty dataset.
    pub fn probe(&self) -> io::Result<()> {
        match self {
            Files::Directory(root) => fs::read_dir(root).map(drop),
            Files::Embedded(_) => Ok(()),
        }
    }

    /// The names, without their `.csv`, of the CSV files in a folder such as `daily`, sorted.
    /// Hidden files and files of other kinds are left out; a folder that is absent holds none.
    pub fn stems(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut stems = Vec::new();
        match self {
            Files::Directory(root) => {
                let entries = match fs::read_dir(root.join(folder)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(stems),
                    entries => entries?,
                };
                for entry in entries {
                    // A name that is not UTF-8 keeps a replacement character, so it is no day
                    // and no number, and is told as such instead of being passed over.
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

    /// Opens a file; `None` if there is no file of that name.
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

    /// A file's stamp; `None` if there is no file of that name.
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

/// The name without `.csv`; `None` for a hidden file or one of another kind.
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
