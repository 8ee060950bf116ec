//! The dataset directory: reading what is there, and replacing files.
//!
//! A file is written beside the one that it replaces and made durable; then it is renamed under an exclusive lock
//! of the directory. `publish` and `check` hold the lock shared, so the files do not change while they read. The
//! dataset is sound after each rename: islands.csv is written before files that have its islands.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{CollectError, Result, io_error};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{Cell, DatasetReader, FileKind, Files, Island, LoadError, Metrics, write_csv};
use crate::durable::{self, AtomicFile};
use crate::model::IslandCode;
use crate::regular_file;

pub(super) type DayRows = BTreeMap<IslandCode, Metrics>;

/// Players by island in one live step.
pub(super) type StepRows = BTreeMap<IslandCode, u64>;

const DAILY: &str = "daily";
const LIVE: &str = "live";

/// Temporary name of the file that is written. The next write replaces one that a crash left.
const TEMP_NAME: &str = "collect.csv";
/// Time for which a write waits for readers. It fails after that and is repeated later, so that a long
/// publish does not stop collecting. Shorter than a wait that is reported: the loop reports all attempts together.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// Time after a change for which another program may still be writing the file.
const SETTLED_SECONDS: i64 = 5;

/// Modification time and length of a file with content.
pub(super) type Stamp = (i64, i64, u64);

#[derive(Debug)]
pub(super) struct Dataset {
    directory: PathBuf,
    /// The files that this process has written or has read in full. Others are merged when they are looked at.
    stamps: RefCell<BTreeMap<String, Stamp>>,
}

impl Dataset {
    /// Opens a dataset directory. Creates it if it is missing, with an empty islands.csv, so that it is
    /// sound from the beginning, or from the first write if readers hold its lock.
    pub(super) fn open(directory: &Path) -> Result<Dataset> {
        let error = io_error("create", directory);
        for folder in [DAILY, LIVE] {
            durable::create_directory(&directory.join(folder)).map_err(&error)?;
        }
        let dataset = Dataset {
            directory: directory.to_owned(),
            stamps: RefCell::default(),
        };
        if dataset.stamp(DatasetReader::ISLANDS)?.is_none() {
            match dataset.write_islands(&[]) {
                Err(error) if error.is_busy() => {}
                written => written?,
            }
        } else if !directory.join(durable::LOCK_FILE).exists() {
            // Readers take part in the lock only if there is one.
            drop(durable::lock_exclusive(directory, LOCK_TIMEOUT).map_err(&error)?);
        }
        Ok(dataset)
    }

    /// Locks a dataset against other collectors until the returned file is dropped. Readers are not affected.
    pub(super) fn lock(directory: &Path) -> io::Result<File> {
        let folder = directory.join(DAILY);
        durable::create_directory(&folder)?;
        durable::lock_folder(&folder)
    }

    /// Reads islands.csv; no islands if there is no file, or an empty one. Writes nothing.
    pub(super) fn islands(directory: &Path) -> Result<Vec<Island>> {
        if stamp(&directory.join(DatasetReader::ISLANDS))?.is_none() {
            return Ok(Vec::new());
        }
        read(directory, |reader| Ok(reader.islands_only()?.islands))
    }

    /// Returns the stamp of a file; `None` if it does not exist or is empty.
    pub(super) fn stamp(&self, name: &str) -> Result<Option<Stamp>> {
        stamp(&self.directory.join(name))
    }

    /// Returns `true` if a file is as this process wrote or read it. Changes of the last few seconds do not count: another
    /// program may still be writing the file, and would lose the rest if it were replaced.
    pub(super) fn is_unchanged(&self, name: &str, now: UnixSeconds) -> Result<bool> {
        let Some(found) = self.stamp(name)? else {
            return Ok(false);
        };
        let is_new = (0..SETTLED_SECONDS).contains(&(now.0 - found.0));
        Ok(is_new || self.stamps.borrow().get(name) == Some(&found))
    }

    /// Records that a file with this stamp needs no change.
    pub(super) fn set_unchanged(&self, name: String, stamp: Option<Stamp>) {
        self.stamps
            .borrow_mut()
            .extend(stamp.map(|stamp| (name, stamp)));
    }

    /// Returns whether there is a file of a day.
    pub(super) fn has_day(&self, day: UtcDay) -> Result<bool> {
        Ok(self.stamp(&day_name(day))?.is_some())
    }

    /// Reads the rows of a day; none if there is no file.
    pub(super) fn day(&self, day: UtcDay) -> Result<DayRows> {
        if !self.has_day(day)? {
            return Ok(DayRows::new());
        }
        self.rows(|reader| reader.daily_rows(day))
    }

    /// Reads a live step; no rows if there is no file.
    pub(super) fn step(&self, step: UnixSeconds) -> Result<StepRows> {
        self.rows(|reader| reader.live_rows(step))
    }

    /// Reads platform.csv; no points if there is no file.
    pub(super) fn platform(&self) -> Result<BTreeMap<UnixSeconds, u64>> {
        self.rows(|reader| Ok(reader.platform()?.unwrap_or_default()))
    }

    fn rows<K: Ord, V>(
        &self,
        part: impl FnOnce(&DatasetReader<'_>) -> Result<Vec<(K, V)>, LoadError>,
    ) -> Result<BTreeMap<K, V>> {
        read(&self.directory, |reader| {
            Ok(part(reader)?.into_iter().collect())
        })
    }

    /// Reads the rows of the newest day before `day` that has a file; none if there is no such day.
    pub(super) fn day_before(&self, day: UtcDay) -> Result<DayRows> {
        let stems = Files::Directory(self.directory.clone()).stems(DAILY);
        let stems = stems.map_err(io_error("list the days of", &self.directory))?;
        let days = stems.iter().filter_map(|stem| UtcDay::parse(stem));
        let newest = days.filter(|held| *held < day).max();
        newest.map_or_else(|| Ok(DayRows::new()), |newest| self.day(newest))
    }

    pub(super) fn write_islands(&self, islands: &[Island]) -> Result<()> {
        let rows = islands.iter().map(Island::cells);
        self.write(DatasetReader::ISLANDS, FileKind::Islands, rows)
    }

    pub(super) fn write_day(&self, day: UtcDay, rows: &DayRows) -> Result<()> {
        let rows = rows.iter().map(|(code, metrics)| metrics.cells(*code));
        self.write(&day_name(day), FileKind::Daily, rows)
    }

    pub(super) fn write_step(&self, step: UnixSeconds, rows: &StepRows) -> Result<()> {
        let rows = rows.iter();
        let rows = rows.map(|(code, players)| [Cell::Code(*code), Cell::Count(Some(*players))]);
        self.write(&step_name(step), FileKind::Live, rows)
    }

    pub(super) fn write_platform(&self, points: &BTreeMap<UnixSeconds, u64>) -> Result<()> {
        let rows = points.iter();
        let rows = rows.map(|(time, players)| [Cell::Time(*time), Cell::Count(Some(*players))]);
        self.write(DatasetReader::PLATFORM, FileKind::Platform, rows)
    }

    /// Replaces a file. Fails with `TimedOut` while readers hold the lock of the dataset.
    fn write<'c>(
        &self,
        name: &str,
        kind: FileKind,
        rows: impl Iterator<Item: IntoIterator<Item = Cell<'c>>>,
    ) -> Result<()> {
        let to = self.directory.join(name);
        let replace = || {
            let folder = to.parent().unwrap_or(&self.directory);
            // Not the dataset itself: it may have been moved.
            if self.directory.exists() {
                durable::create_directory(folder)?;
            }
            let mut file = AtomicFile::create(folder, TEMP_NAME)?;
            write_csv(&mut file.out, kind, rows)?;
            file.sync()?;
            let stamp = stamp_of(&file.out.get_ref().metadata()?);
            let _lock = durable::lock_exclusive(&self.directory, LOCK_TIMEOUT)?;
            file.commit(&to)?;
            self.set_unchanged(name.to_owned(), Some(stamp));
            Ok(())
        };
        replace().map_err(io_error("write", &to))
    }

    /// Removes a file. Fails with `TimedOut` while readers hold the lock of the dataset.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        let path = self.directory.join(name);
        let lock = durable::lock_exclusive(&self.directory, LOCK_TIMEOUT);
        let removed = lock.and_then(|_lock| durable::remove(&path));
        self.stamps.borrow_mut().remove(name);
        removed.map_err(io_error("remove", &path))
    }
}

/// Reads a part of a dataset. Its faults are an error, and those of other files are not.
fn read<T>(
    directory: &Path,
    part: impl FnOnce(&DatasetReader<'_>) -> Result<T, LoadError>,
) -> Result<T> {
    let files = Files::Directory(directory.to_owned());
    let reader = DatasetReader::unlisted(&files, UnixSeconds::now().day());
    let read = reader.and_then(|reader| {
        let part = part(&reader)?;
        reader.finish_checks().map(|()| part)
    });
    read.map_err(CollectError::Dataset)
}

/// A link to a missing file is an error: a new file in its place would hide the target of the link.
fn stamp(path: &Path) -> Result<Option<Stamp>> {
    let found = regular_file::metadata(path).map_err(io_error("read", path))?;
    Ok(found
        .map(|found| stamp_of(&found))
        .filter(|stamp| stamp.2 > 0))
}

fn stamp_of(found: &Metadata) -> Stamp {
    (found.mtime(), found.mtime_nsec(), found.len())
}

pub(super) fn day_name(day: UtcDay) -> String {
    format!("{DAILY}/{day}.csv")
}

pub(super) fn step_name(step: UnixSeconds) -> String {
    format!("{LIVE}/{}.csv", step.0)
}
