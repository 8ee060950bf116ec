//! The dataset directory: reading what is there, and replacing a set of files together.
//!
//! A set is written beside the files that it replaces and made durable; then, under an exclusive lock of the
//! directory, the files are renamed, islands.csv first. `publish` and `check` hold the lock shared, so
//! they never see half of a set. A crash between two renames leaves a sound dataset too, since
//! islands.csv has the islands of all other files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{CollectError, io_error};
use super::ledger::DayRows;
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{Cell, DatasetReader, FileKind, Files, Island, LoadError, write_csv};
use crate::durable::{self, AtomicFile};
use crate::model::IslandCode;
use crate::regular_file;

pub(super) type Catalogue = BTreeMap<IslandCode, Island>;

/// Players by island in one live step.
pub(super) type StepRows = BTreeMap<IslandCode, u64>;

const ISLANDS: &str = "islands.csv";
const DAILY: &str = "daily";
const LIVE: &str = "live";

/// Time for which a commit waits for readers. It fails after that and is repeated later, so that a long
/// publish does not stop collecting.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) enum Change<'a> {
    /// islands.csv is replaced if the catalogue has changed. Days and live steps imply this.
    Islands,
    Day(UtcDay, &'a DayRows),
    Step(UnixSeconds, &'a StepRows),
    /// The removal of a live step that is too old to be of use.
    RemovedStep(UnixSeconds),
    Platform(&'a BTreeMap<UnixSeconds, u64>),
}

#[derive(Debug)]
pub(super) struct Dataset {
    directory: PathBuf,
    pub(super) catalogue: Catalogue,
    /// The catalogue has changes that islands.csv lacks.
    is_catalogue_changed: bool,
}

impl Dataset {
    /// Opens a dataset directory. Creates it if it is missing, with an empty islands.csv, so that it is
    /// sound from the beginning.
    pub(super) fn open(directory: &Path) -> Result<Dataset, CollectError> {
        let error = io_error("create", directory);
        durable::create_directory(directory).map_err(&error)?;
        let is_new = !has_islands(directory)?;
        let mut dataset = Dataset {
            directory: directory.to_owned(),
            catalogue: Dataset::catalogue(directory)?,
            is_catalogue_changed: is_new,
        };
        if is_new {
            dataset.replace("create", &[Change::Islands])?;
        } else if !directory.join(durable::LOCK_FILE).exists() {
            // Readers take part in the lock only if there is one.
            drop(durable::lock_exclusive(directory, LOCK_TIMEOUT).map_err(&error)?);
        }
        for folder in [DAILY, LIVE] {
            durable::create_directory(&directory.join(folder)).map_err(&error)?;
        }
        Ok(dataset)
    }

    /// Locks a dataset against other collectors until the returned file is dropped. Readers are not affected.
    pub(super) fn lock(directory: &Path) -> io::Result<File> {
        let folder = directory.join(DAILY);
        durable::create_directory(&folder)?;
        durable::lock_folder(&folder)
    }

    /// Reads islands.csv; no islands if there is no file. Writes nothing.
    pub(super) fn catalogue(directory: &Path) -> Result<Catalogue, CollectError> {
        if !has_islands(directory)? {
            return Ok(Catalogue::new());
        }
        let islands = read(directory, |reader| Ok(reader.islands_only()?.islands))?;
        Ok(islands.into_iter().map(|row| (row.code, row)).collect())
    }

    /// Adds an island to the catalogue, or replaces it.
    pub(super) fn insert(&mut self, island: Island) {
        let code = island.code;
        let old = self.catalogue.insert(code, island);
        self.is_catalogue_changed |= old.as_ref() != self.catalogue.get(&code);
    }

    /// Returns whether there is a file of a day.
    pub(super) fn has_day(&self, day: UtcDay) -> bool {
        self.directory.join(day_name(day)).exists()
    }

    /// Reads the rows of a day; none if there is no file.
    pub(super) fn day(&self, day: UtcDay) -> Result<DayRows, CollectError> {
        let rows = read(&self.directory, |reader| reader.daily_rows(day))?;
        Ok(rows.into_iter().collect())
    }

    /// Reads platform.csv; no points if there is no file.
    pub(super) fn platform(&self) -> Result<BTreeMap<UnixSeconds, u64>, CollectError> {
        let points = read(&self.directory, |reader| {
            Ok(reader.platform()?.unwrap_or_default())
        })?;
        Ok(points.into_iter().collect())
    }

    /// Reads the rows of the newest day before `day` that has a file; none if there is no such day.
    pub(super) fn day_before(&self, day: UtcDay) -> Result<DayRows, CollectError> {
        let stems = Files::Directory(self.directory.clone()).stems(DAILY);
        let stems = stems.map_err(io_error("list the days of", &self.directory))?;
        let days = stems.iter().filter_map(|stem| UtcDay::parse(stem));
        let newest = days.filter(|held| *held < day).max();
        newest.map_or_else(|| Ok(DayRows::new()), |newest| self.day(newest))
    }

    /// Reads a live step; no rows if there is no file.
    pub(super) fn step(&self, step: UnixSeconds) -> Result<StepRows, CollectError> {
        let rows = read(&self.directory, |reader| reader.live_rows(step))?;
        Ok(rows.into_iter().collect())
    }

    /// Makes changes together. Fails with `TimedOut` while readers hold the lock of the dataset.
    pub(super) fn replace(
        &mut self,
        purpose: &str,
        changes: &[Change<'_>],
    ) -> Result<(), CollectError> {
        let needs_islands = |change: &Change<'_>| {
            matches!(change, Change::Islands | Change::Day(..) | Change::Step(..))
        };
        let has_islands = self.is_catalogue_changed && changes.iter().any(needs_islands);
        let replaced = self.commit(has_islands, changes);
        replaced.map_err(io_error(purpose, &self.directory))?;
        self.is_catalogue_changed &= !has_islands;
        Ok(())
    }

    /// Writes the files, and then renames and removes files under the lock of the dataset.
    fn commit(&self, has_islands: bool, changes: &[Change<'_>]) -> io::Result<()> {
        let (mut files, mut removed) = (Vec::new(), Vec::new());
        if has_islands {
            let rows = self.catalogue.values().map(Island::cells);
            files.push(self.write(ISLANDS, FileKind::Islands, rows)?);
        }
        for change in changes {
            match change {
                Change::Islands => {}
                Change::Day(day, rows) => {
                    let rows = rows.iter().map(|(code, metrics)| metrics.cells(*code));
                    files.push(self.write(&day_name(*day), FileKind::Daily, rows)?);
                }
                Change::Step(step, players) => {
                    let row = |(code, players): (&IslandCode, &u64)| {
                        [Cell::Code(*code), Cell::Count(Some(*players))]
                    };
                    let rows = players.iter().map(row);
                    files.push(self.write(&step_name(*step), FileKind::Live, rows)?);
                }
                Change::RemovedStep(step) => removed.push(self.directory.join(step_name(*step))),
                Change::Platform(points) => {
                    let row = |(time, players): (&UnixSeconds, &u64)| {
                        [Cell::Time(*time), Cell::Count(Some(*players))]
                    };
                    let rows = points.iter().map(row);
                    files.push(self.write("platform.csv", FileKind::Platform, rows)?);
                }
            }
        }
        if files.is_empty() && removed.is_empty() {
            return Ok(());
        }
        let _lock = durable::lock_exclusive(&self.directory, LOCK_TIMEOUT)?;
        for (file, to) in files {
            file.commit(&to)?;
        }
        removed.iter().try_for_each(|path| durable::remove(path))
    }

    /// Writes a file beside the one that it replaces. Returns it with the path of that one.
    fn write<'c>(
        &self,
        name: &str,
        kind: FileKind,
        rows: impl Iterator<Item: IntoIterator<Item = Cell<'c>>>,
    ) -> io::Result<(AtomicFile, PathBuf)> {
        let to = self.directory.join(name);
        let folder = to.parent().unwrap_or(&self.directory);
        let temp_name = to.file_name().unwrap_or_default().to_string_lossy();
        let mut file = AtomicFile::create(folder, &temp_name)?;
        write_csv(&mut file.out, kind, rows)?;
        file.sync()?;
        Ok((file, to))
    }

    /// Removes temporary files that a crash left. The lock of the state directory must be held.
    pub(super) fn remove_leftovers(&self) -> io::Result<()> {
        for folder in ["", DAILY, LIVE] {
            for entry in std::fs::read_dir(self.directory.join(folder))? {
                let path = entry?.path();
                let name = path.to_string_lossy();
                if name.ends_with(&format!(".csv{}", durable::TEMP_SUFFIX)) {
                    durable::remove(&path)?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a part of a dataset. Its faults are an error.
fn read<T>(
    directory: &Path,
    part: impl FnOnce(&DatasetReader<'_>) -> Result<T, LoadError>,
) -> Result<T, CollectError> {
    let files = Files::Directory(directory.to_owned());
    let reader = DatasetReader::open(&files, UnixSeconds::now().day());
    let read = reader.and_then(|reader| {
        let part = part(&reader)?;
        reader.finish_checks().map(|()| part)
    });
    read.map_err(CollectError::Dataset)
}

/// Returns whether there is an islands.csv. A link to a missing file is an error: a new file in its place would
/// hide the islands that the link led to.
fn has_islands(directory: &Path) -> Result<bool, CollectError> {
    let path = directory.join(ISLANDS);
    let found = regular_file::metadata(&path).map_err(io_error("read", &path))?;
    Ok(found.is_some())
}

fn day_name(day: UtcDay) -> String {
    format!("{DAILY}/{day}.csv")
}

fn step_name(step: UnixSeconds) -> String {
    format!("{LIVE}/{}.csv", step.0)
}
