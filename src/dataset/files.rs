//! Where a dataset's files are: in a directory, or compiled in.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::PathBuf;

use super::fault::LoadError;

/// The files of a dataset.
#[derive(Clone, Debug)]
pub enum Files {
    /// A directory laid out as CONTRACT section 3 says.
    Directory(PathBuf),
    /// Names, as `daily/2026-11-20.csv`, and contents.
    Embedded(&'static [(&'static str, &'static [u8])]),
}

impl Files {
    /// The names of the CSV files in a folder, without `.csv`, sorted. A missing folder has none.
    pub(crate) fn stems(&self, folder: &str) -> Result<Vec<String>, LoadError> {
        let mut stems = Vec::new();
        let mut take = |name: &str| {
            if let Some(stem) = name.strip_suffix(".csv").filter(|_| !name.starts_with('.')) {
                stems.push(stem.to_owned());
            }
        };
        match self {
            Files::Embedded(files) => {
                let inside = files
                    .iter()
                    .filter_map(|(name, _)| name.strip_prefix(folder)?.strip_prefix('/'));
                inside.for_each(take);
            }
            Files::Directory(directory) => {
                let path = directory.join(folder);
                let failed = |source| LoadError::Io {
                    path: path.clone(),
                    source,
                };
                let entries = match fs::read_dir(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(stems),
                    entries => entries.map_err(failed)?,
                };
                for entry in entries {
                    take(&entry.map_err(failed)?.file_name().to_string_lossy());
                }
            }
        }
        stems.sort();
        Ok(stems)
    }

    /// Opens a file; `None` where there is none.
    pub(crate) fn open(&self, name: &str) -> Result<Option<Box<dyn Read + '_>>, LoadError> {
        match self {
            Files::Embedded(files) => {
                let found = files.iter().find(|(found, _)| *found == name);
                Ok(found.map(|(_, bytes)| -> Box<dyn Read + '_> { Box::new(*bytes) }))
            }
            Files::Directory(directory) => match File::open(directory.join(name)) {
                Ok(file) => Ok(Some(Box::new(BufReader::with_capacity(1 << 16, file)))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(source) => Err(LoadError::Io {
                    path: self.path(name),
                    source,
                }),
            },
        }
    }

    /// A file's path, for messages.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        match self {
            Files::Embedded(_) => PathBuf::from(name),
            Files::Directory(directory) => directory.join(name),
        }
    }
}
