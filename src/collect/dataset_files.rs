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

use super::day_log::DayRows;
use super::error::{CollectError, io_error};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{Cell, DatasetReader, FileKind, Files, Island, LoadError, write_csv};
use crate::durable::{self, AtomicFile};
use crate::model::IslandCode;

/// The catalogue by code.
pub(super) type Catalogue = BTreeMap<IslandCode, Island>;

/// Players by island in one live step.
pub(super) type StepRows = BTreeMap<IslandCode, u64>;

const ISLANDS: &str = "islands.csv";
const DAILY: &str = "daily";
const LIVE: &str = "live";

/// Time for which a commit waits for readers. It fails after that and is repeated later, so that a long
/// publish does not stop collecting.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The dataset directory.
#[derive(Debug)]
pub(super) struct Dataset {
    directory: PathBuf,
}

impl Dataset {
    /// Opens a dataset directory. Creates it if it is missing, with an empty islands.csv, so that it is
    /// sound from the beginning.
    pub(super) fn open(directory: &Path) -> Result<Dataset, CollectError> {
        let dataset = Dataset {
            directory: directory.to_owned(),
        };
        let error = io_error("create", directory);
        durable::create_directory(directory).map_err(&error)?;
        if !directory.join(ISLANDS).exists() {
            dataset.replace("create", |set| set.islands(&Catalogue::new()))?;
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
        if !directory.join(ISLANDS).exists() {
            return Ok(Catalogue::new());
        }
        let islands = read(directory, |reader| Ok(reader.islands_only()?.islands))?;
        Ok(islands.into_iter().map(|row| (row.code, row)).collect())
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

    /// Replaces the files that `add` adds to a set, together. Fails with `TimedOut` while readers hold the
    /// lock of the dataset.
    pub(super) fn replace(
        &self,
        purpose: &'static str,
        add: impl FnOnce(&mut FileSet<'_>) -> io::Result<()>,
    ) -> Result<(), CollectError> {
        let mut set = FileSet {
            dataset: self,
            files: Vec::new(),
            removed: Vec::new(),
        };
        let replaced = add(&mut set).and_then(|()| set.commit());
        replaced.map_err(io_error(purpose, &self.directory))
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

/// Files that replace others together.
#[derive(Debug)]
pub(super) struct FileSet<'a> {
    dataset: &'a Dataset,
    files: Vec<(AtomicFile, PathBuf)>,
    removed: Vec<PathBuf>,
}

impl FileSet<'_> {
    /// Adds islands.csv. It must be added first.
    pub(super) fn islands(&mut self, catalogue: &Catalogue) -> io::Result<()> {
        let rows = catalogue.values().map(Island::cells);
        self.add(ISLANDS, FileKind::Islands, rows)
    }

    /// Adds a day.
    pub(super) fn day(&mut self, day: UtcDay, rows: &DayRows) -> io::Result<()> {
        let rows = rows.iter().map(|(code, metrics)| metrics.cells(*code));
        self.add(&day_name(day), FileKind::Daily, rows)
    }

    /// Adds a live step.
    pub(super) fn step(&mut self, step: UnixSeconds, players: &StepRows) -> io::Result<()> {
        let rows = players.iter();
        let rows = rows.map(|(code, players)| [Cell::Code(*code), Cell::Count(Some(*players))]);
        self.add(&step_name(step), FileKind::Live, rows)
    }

    /// Adds the removal of a live step that is too old to be of use.
    pub(super) fn remove_step(&mut self, step: UnixSeconds) {
        self.removed
            .push(self.dataset.directory.join(step_name(step)));
    }

    /// Adds platform.csv.
    pub(super) fn platform(&mut self, points: &BTreeMap<UnixSeconds, u64>) -> io::Result<()> {
        let rows = points.iter();
        let rows = rows.map(|(time, players)| [Cell::Time(*time), Cell::Count(Some(*players))]);
        self.add("platform.csv", FileKind::Platform, rows)
    }

    fn add<'c>(
        &mut self,
        name: &str,
        kind: FileKind,
        rows: impl Iterator<Item: IntoIterator<Item = Cell<'c>>>,
    ) -> io::Result<()> {
        let to = self.dataset.directory.join(name);
        let folder = to.parent().unwrap_or(&self.dataset.directory);
        let temp_name = to.file_name().unwrap_or_default().to_string_lossy();
        let mut file = AtomicFile::create(folder, &temp_name)?;
        write_csv(&mut file.out, kind, rows)?;
        file.sync()?;
        self.files.push((file, to));
        Ok(())
    }

    /// Renames and removes the files under the lock of the dataset.
    fn commit(self) -> io::Result<()> {
        if self.files.is_empty() && self.removed.is_empty() {
            return Ok(());
        }
        let _lock = durable::lock_exclusive(&self.dataset.directory, LOCK_TIMEOUT)?;
        for (file, to) in self.files {
            file.commit(&to)?;
        }
        self.removed
            .iter()
            .try_for_each(|path| durable::remove(path))
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

fn day_name(day: UtcDay) -> String {
    format!("{DAILY}/{day}.csv")
}

fn step_name(step: UnixSeconds) -> String {
    format!("{LIVE}/{}.csv", step.0)
}
