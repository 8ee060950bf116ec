//! The dataset as it goes on: a live step in each turn, and now and then another history.
//!
//! A history changes in four ways that take turns: other titles, another newest day, a day more, and
//! that day gone again, so that the dataset does not grow. Each leaves its mark in all rows.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use island_metrics::calendar::{UnixSeconds, UtcDay};

use crate::common::Outcome;
use crate::common::judged::ledger::{Marks, Version};

/// Between two live steps.
pub(crate) const STEP_SECONDS: i64 = 600;
/// Steps that the dataset holds: a day of them.
pub(crate) const STEPS: i64 = 144;
/// From a step to its publish.
const LAG_SECONDS: i64 = 300;
/// The primes that mark days begin here.
const FIRST_FACTOR: u64 = 1009;

pub(crate) struct Feed {
    dataset: PathBuf,
    /// Where files are written before they are renamed to their place.
    aside: PathBuf,
    /// islands.csv and the newest daily file, as they were made up.
    islands: Vec<u8>,
    daily: Vec<u8>,
    /// Whoever is played, and by how many at the least.
    played: Vec<(String, u64)>,
    first_step: i64,
    turn: i64,
    changes: u32,
    first_day: UtcDay,
    /// The factor of the first newest day, which is true again when the day after it is gone.
    first_day_factor: u64,
    last_factor: u64,
    marks: Marks,
}

impl Feed {
    /// Goes on from a dataset that was made up.
    pub(crate) fn new(dataset: &Path, aside: &Path) -> Outcome<Feed> {
        // Without the platform's own totals the curve is made of the live files.
        fs::remove_file(dataset.join("platform.csv"))?;
        let day_names = names(&dataset.join("daily"))?;
        let newest_day = day_names.last().ok_or("no days")?.clone();
        let days = day_names.len() + names(&dataset.join("ccu"))?.len();
        let live = dataset.join("live");
        let steps = names(&live)?;
        let newest_step = steps.last().ok_or("no live steps")?;
        let played = played(&live.join(format!("{newest_step}.csv")))?;
        fs::remove_dir_all(&live)?;
        fs::create_dir(&live)?;
        let first_step: i64 = newest_step.parse()?;
        let midnight = UnixSeconds::parse(&format!("{newest_day}T00:00:00Z")).ok_or("no day")?;
        let mut feed = Feed {
            islands: fs::read(dataset.join("islands.csv"))?,
            daily: fs::read(dataset.join(format!("daily/{newest_day}.csv")))?,
            dataset: dataset.to_owned(),
            aside: aside.to_owned(),
            played,
            first_step,
            turn: 0,
            changes: 0,
            first_day: midnight.day(),
            first_day_factor: FIRST_FACTOR,
            last_factor: FIRST_FACTOR,
            marks: Marks {
                title_end: String::new(),
                factor: FIRST_FACTOR,
                newest_day,
                days: days as u64,
            },
        };
        for turn in 1 - STEPS..0 {
            feed.write_step(turn)?;
        }
        feed.write_titles()?;
        feed.write_newest_day()?;
        Ok(feed)
    }

    /// The version that the dataset has been made for first.
    pub(crate) fn first(&self) -> Outcome<Version> {
        self.version(true)
    }

    /// One turn on.
    pub(crate) fn go_on(&mut self, history: bool) -> Outcome<Version> {
        self.turn += 1;
        fs::remove_file(self.place(&step_name(self.step(self.turn - STEPS))))?;
        if history {
            self.change_history()?;
        }
        self.version(history)
    }

    fn version(&self, has_history: bool) -> Outcome<Version> {
        let step = self.step(self.turn);
        let published = step + LAG_SECONDS;
        Ok(Version {
            published,
            stamp: UnixSeconds(published).to_string(),
            step,
            players: self.write_step(self.turn)?,
            marks: self.marks.clone(),
            has_history,
        })
    }

    fn change_history(&mut self) -> Outcome<()> {
        self.changes += 1;
        let day_after = UtcDay(self.first_day.0 + 1).to_string();
        match self.changes % 4 {
            1 => self.write_titles(),
            2 => {
                self.first_day_factor = self.next_factor();
                self.write_newest_day()
            }
            3 => {
                self.next_factor();
                self.marks.newest_day = day_after;
                self.marks.days += 1;
                self.write_newest_day()
            }
            _ => {
                fs::remove_file(self.place(&format!("daily/{day_after}.csv")))?;
                self.marks.factor = self.first_day_factor;
                self.marks.newest_day = self.first_day.to_string();
                self.marks.days -= 1;
                Ok(())
            }
        }
    }

    /// Marks the newest day with a factor that no day had.
    fn next_factor(&mut self) -> u64 {
        self.last_factor = prime_after(self.last_factor);
        self.marks.factor = self.last_factor;
        self.last_factor
    }

    fn write_titles(&mut self) -> Outcome<()> {
        self.marks.title_end = format!(" v{}", self.changes);
        let marked = |title: &str| format!("{title}{}", self.marks.title_end);
        let text = with_column(&self.islands, "title", marked)?;
        self.put("islands.csv", &text)
    }

    fn write_newest_day(&self) -> Outcome<()> {
        let marked = |count: &str| match count.parse::<u64>() {
            Ok(count) => (count * self.marks.factor).to_string(),
            Err(_) => String::new(),
        };
        let text = with_column(&self.daily, "recommendations", marked)?;
        self.put(&format!("daily/{}.csv", self.marks.newest_day), &text)
    }

    /// Writes the live file of a turn; tells all players in it.
    fn write_step(&self, turn: i64) -> Outcome<u64> {
        let mut text = b"code,players\n".to_vec();
        let mut sum = 0;
        for (more, (code, least)) in (turn.unsigned_abs()..).zip(&self.played) {
            let players = least + more % 7;
            sum += players;
            writeln!(text, "{code},{players}")?;
        }
        self.put(&step_name(self.step(turn)), &text)?;
        Ok(sum)
    }

    fn step(&self, turn: i64) -> i64 {
        self.first_step + turn * STEP_SECONDS
    }

    fn place(&self, name: &str) -> PathBuf {
        self.dataset.join(name)
    }

    /// Puts a file in its place, whole.
    fn put(&self, name: &str, text: &[u8]) -> Outcome<()> {
        File::create(&self.aside)?.write_all(text)?;
        Ok(fs::rename(&self.aside, self.place(name))?)
    }
}

fn step_name(step: i64) -> String {
    format!("live/{step}.csv")
}

/// The names, without their `.csv`, of a folder's files, sorted.
fn names(folder: &Path) -> Outcome<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.push(name.trim_end_matches(".csv").to_owned());
    }
    names.sort();
    Ok(names)
}

fn played(file: &Path) -> Outcome<Vec<(String, u64)>> {
    let text = fs::read_to_string(file)?;
    let rows = text.lines().skip(1).map(|line| {
        let (code, players) = line.split_once(',').ok_or("no comma")?;
        Ok((code.to_owned(), players.parse()?))
    });
    rows.collect()
}

/// A CSV file with one column changed.
fn with_column(file: &[u8], column: &str, change: impl Fn(&str) -> String) -> Outcome<Vec<u8>> {
    let mut rows = csv::Reader::from_reader(file);
    let header = rows.headers()?.clone();
    let changed = header.iter().position(|name| name == column);
    let changed = changed.ok_or("no such column")?;
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(&header)?;
    for row in rows.records() {
        let row = row?;
        for (at, field) in row.iter().enumerate() {
            if at == changed {
                out.write_field(change(field))?;
            } else {
                out.write_field(field)?;
            }
        }
        out.write_record(None::<&[u8]>)?;
    }
    Ok(out.into_inner().map_err(|error| error.to_string())?)
}

fn prime_after(number: u64) -> u64 {
    let is_prime = |number: &u64| {
        let mut divisors = (2..).take_while(|divisor| divisor * divisor <= *number);
        divisors.all(|divisor| !number.is_multiple_of(divisor))
    };
    // There is one before twice the number (Bertrand).
    (number + 1..2 * number).find(is_prime).unwrap_or(number)
}
