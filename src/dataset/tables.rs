//! Readers of the tables: islands and creators, days, live steps, platform totals, and all of them.

use std::collections::HashMap;
use std::io::{self, Read as _};

use super::csv_table::{CsvTable, WANT_SLUG, WANT_TIME, step_time};
use super::dataset_reader::{DatasetReader, DayFiles, late_fault, time_text};
use super::fault::{LoadError, quoted};
use super::island_resolver::IslandResolver;
use super::rows::{DayRow, FileKind, Island, LiveStep, Metrics, Profile};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::{CreatedIn, CreatorSlug, IslandCode};
use crate::sync::{cores, in_order, lock};

/// Longer notices are faults, as longer fields of tables are.
const NOTICE_BYTES_MAX: u64 = 1024;

/// All islands and all creator profiles. Other types refer to an island by its position here.
#[derive(Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// islands.csv, by code ascending.
    pub islands: Vec<Island>,
    /// creators.csv, by slug ascending; empty if the file does not exist.
    pub profiles: Vec<Profile>,
    /// Codes of `islands`, close together: searches and rows of days find them in the CPU cache.
    pub(crate) codes: Vec<IslandCode>,
}

impl Catalogue {
    /// Creates a catalogue from islands sorted by code and profiles sorted by slug, without duplicates.
    pub fn new(islands: Vec<Island>, profiles: Vec<Profile>) -> Catalogue {
        Catalogue {
            codes: islands.iter().map(|island| island.code).collect(),
            islands,
            profiles,
        }
    }
}

impl DatasetReader<'_> {
    pub const ISLANDS: &'static str = "islands.csv";
    /// Name of the file of creators, which is optional.
    pub const CREATORS: &'static str = "creators.csv";

    /// Reads islands.csv and creators.csv.
    pub fn catalogue(&self) -> Result<Catalogue, LoadError> {
        Ok(Catalogue {
            profiles: self.profiles()?,
            ..self.islands_only()?
        })
    }

    /// Reads islands.csv only. The catalogue has no profiles.
    pub fn islands_only(&self) -> Result<Catalogue, LoadError> {
        let mut islands = Vec::new();
        let mut seen = HashMap::new();
        let exists = self.for_each_row(DatasetReader::ISLANDS, FileKind::Islands, |table| {
            let code = table.code();
            if let Some(code) = code {
                table.once(&mut seen, code);
            }
            let title = table.text(1).unwrap_or_default().into();
            let creator = table.slug(2);
            let created_in = table.parsed(3, "uefn, creative or empty", CreatedIn::parse);
            let want = "tags separated by |, none of them empty";
            let tags = table.text(4).and_then(|_| {
                table.parsed(4, want, |text| {
                    let is_valid = !text.split('|').any(str::is_empty);
                    is_valid.then(|| text.into())
                })
            });
            // An island with a faulty field still counts as known, so that rows of other files may refer
            // to it.
            islands.extend(code.map(|code| Island {
                code,
                title,
                creator,
                created_in,
                tags: tags.unwrap_or_default(),
            }));
        })?;
        if !exists {
            let problem = "the file must exist, with one row per island, got no file".to_owned();
            lock(&self.faults).push_file(DatasetReader::ISLANDS, problem);
        }
        islands.sort_unstable_by_key(|island| island.code);
        Ok(Catalogue::new(islands, Vec::new()))
    }

    fn profiles(&self) -> Result<Vec<Profile>, LoadError> {
        let mut profiles = Vec::new();
        let mut seen = HashMap::new();
        self.for_each_row(DatasetReader::CREATORS, FileKind::Creators, |table| {
            let slug = table.parsed(0, WANT_SLUG, |text| text.parse::<CreatorSlug>().ok());
            let name = table.text(1).filter(|name| !name.is_empty());
            let [followers, following, lifetime_plays] =
                [2, 3, 4].map(|column| table.count(column));
            if let Some(slug) = slug {
                table.once(&mut seen, slug.clone());
                profiles.push(Profile {
                    slug,
                    name: name.map(Into::into),
                    followers,
                    following,
                    lifetime_plays,
                });
            }
        })?;
        profiles.sort_unstable_by(|one, other| one.slug.cmp(&other.slug));
        Ok(profiles)
    }

    /// Name of the file of platform totals, which is optional.
    pub const PLATFORM: &'static str = "platform.csv";

    /// Name of the file with the dataset's notice, which is optional.
    pub const NOTICE: &'static str = "notice.txt";

    /// Reads the notice: a line about the origin of the data, shown with it. Returns `None` if the file does not
    /// exist.
    pub fn notice(&self) -> Result<Option<String>, LoadError> {
        let name = DatasetReader::NOTICE;
        let bytes = self.read(name, None, |file| {
            let mut bytes = Vec::new();
            let mut content = file
                .content
                .take(NOTICE_BYTES_MAX + "\r\n".len() as u64 + 1);
            content.read_to_end(&mut bytes)?;
            Ok(bytes)
        })?;
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let lossy = String::from_utf8_lossy(&bytes);
        let notice = lossy.strip_suffix('\n').unwrap_or(&lossy);
        let notice = notice.strip_suffix('\r').unwrap_or(notice);
        let is_short = notice.len() as u64 <= NOTICE_BYTES_MAX;
        let is_line = !notice.trim().is_empty() && !notice.contains(char::is_control);
        if !is_short || !is_line || str::from_utf8(&bytes).is_err() {
            let problem = format!(
                "the notice must be one line of at most {NOTICE_BYTES_MAX} bytes in UTF-8, not empty and without \
                 control characters, got {}",
                quoted(notice)
            );
            lock(&self.faults).push_file(name, problem);
        }
        Ok(Some(notice.to_owned()))
    }

    /// Reads the files of a day. Returns the rows by island ascending. If both files have a row of an
    /// island, the daily one is used.
    pub fn day(&self, catalogue: &Catalogue, files: &DayFiles) -> Result<Vec<DayRow>, LoadError> {
        let mut rows = Vec::new();
        for (kind, name) in &files.files {
            let is_daily = *kind == FileKind::Daily;
            self.for_each_island(catalogue, name, *kind, |table, island| {
                let metrics = if is_daily {
                    metrics(table)
                } else {
                    Metrics::of_peak(table.count(1))
                };
                rows.extend(island.map(|island| DayRow {
                    island,
                    is_daily,
                    metrics,
                }));
            })?;
        }
        // Stable: the daily row of an island stays in front.
        rows.sort_by_key(|row| row.island);
        rows.dedup_by_key(|row| row.island);
        let is_newest = self.days.last().map(|newest| newest.day) == Some(files.day);
        if is_newest && rows.iter().all(|row| row.peak_ccu().is_none()) {
            self.warn_of_missing_peaks(files);
        }
        Ok(rows)
    }

    pub fn step(&self, catalogue: &Catalogue, time: UnixSeconds) -> Result<LiveStep, LoadError> {
        let (name, mut players) = (DatasetReader::step_name(time), Vec::new());
        self.for_each_island(catalogue, &name, FileKind::Live, |table, island| {
            players.extend(island.zip(table.count(1)));
        })?;
        players.sort_unstable();
        Ok(LiveStep { time, players })
    }

    /// Reads the rows of a daily file; a missing file has none. The codes need not be in islands.csv.
    pub fn daily_rows(&self, day: UtcDay) -> Result<Vec<(IslandCode, Metrics)>, LoadError> {
        let name = format!("daily/{day}.csv");
        let mut rows = Vec::new();
        self.for_each_row(&name, FileKind::Daily, |table| {
            let metrics = metrics(table);
            rows.extend(table.code().map(|code| (code, metrics)));
        })?;
        Ok(rows)
    }

    /// Reads the rows of a live step. The codes need not be in islands.csv; a missing file has no rows.
    pub fn live_rows(&self, step: UnixSeconds) -> Result<Vec<(IslandCode, u64)>, LoadError> {
        let name = DatasetReader::step_name(step);
        let mut rows = Vec::new();
        self.for_each_row(&name, FileKind::Live, |table| {
            rows.extend(table.code().zip(table.count(1)));
        })?;
        Ok(rows)
    }

    /// Calls `row` for each row of a file, with the island it refers to if its code is valid and known.
    fn for_each_island(
        &self,
        catalogue: &Catalogue,
        name: &str,
        kind: FileKind,
        mut row: impl FnMut(&CsvTable<'_>, Option<u32>),
    ) -> Result<(), LoadError> {
        // If `islands.csv` has faults, islands may be missing in the catalogue.
        let is_faulty = lock(&self.faults).has(DatasetReader::ISLANDS);
        let mut index = IslandResolver::new(&catalogue.codes, is_faulty);
        let exists = self.for_each_row(name, kind, |table| row(table, index.resolve(table)))?;
        if !exists {
            // It existed when the directory was listed. Without it the day would have other contents.
            return Err(self.io_error(name, io::ErrorKind::NotFound.into()));
        }
        if let Some(problem) = index.unknown_codes_fault() {
            lock(&self.faults).push_consequent(name, problem);
        }
        Ok(())
    }

    /// Reads platform.csv, sorted by time and without nulls. Returns `None` if the file does not exist.
    pub fn platform(&self) -> Result<Option<Vec<(UnixSeconds, u64)>>, LoadError> {
        let mut points = Vec::new();
        let mut seen = HashMap::new();
        let exists = self.for_each_row(DatasetReader::PLATFORM, FileKind::Platform, |table| {
            let time = table.parsed(0, WANT_TIME, step_time).map(UnixSeconds);
            if let Some(time) = time {
                table.once(&mut seen, time);
                if let Some(problem) = late_fault(self.today, "time", time, time_text) {
                    table.fault(0, problem);
                }
            }
            points.extend(time.zip(table.count(1)));
        })?;
        points.sort_unstable();
        Ok(exists.then_some(points))
    }
}

fn metrics(table: &CsvTable<'_>) -> Metrics {
    let counts = [1, 2, 3, 4, 5, 6].map(|column| table.count(column));
    Metrics::new(counts, [table.decimal(7), table.share(8), table.share(9)])
}

/// Reads and validates all files. `progress` receives the number of files done and the number of all
/// files. Returns the number of islands and that of rows of days; or all faults, or the error of the first file that
/// could not be read.
pub fn validate(
    source: &DatasetReader<'_>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(usize, usize), LoadError> {
    source.find_unread_entries()?;
    let catalogue = source.catalogue()?;
    source.notice()?;
    source.platform()?;
    let (days, steps) = (&source.days, &source.steps);
    let all = days.len() + steps.len();
    let mut rows_of_days = 0;
    in_order(
        (cores(), all),
        || (),
        |(), at| match days.get(at) {
            Some(files) => source.day(&catalogue, files).map(|rows| rows.len()),
            None => source.step(&catalogue, steps[at - days.len()]).map(|_| 0),
        },
        |at, rows: Result<usize, LoadError>| {
            progress(at + 1, all);
            rows_of_days += rows?;
            Ok::<(), LoadError>(())
        },
    )?;
    source.finish_checks()?;
    Ok((catalogue.islands.len(), rows_of_days))
}
