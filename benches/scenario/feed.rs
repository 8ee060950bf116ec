//! A dataset that changes: each version has a new live step, and some another history.
//!
//! A history changes in four ways in turn: other titles, other metrics of the newest day, a new day,
//! and that day removed again, so that the dataset does not grow. Each change marks all rows.

use island_metrics::calendar::{UnixSeconds, UtcDay};

use super::directory::names;
use super::versions::{Marks, Version};
use crate::common::prelude::*;

/// Interval of live steps.
pub(crate) const STEP_SECONDS: i64 = 600;
/// Live steps in the dataset: those of one day.
pub(crate) const STEPS: i64 = 144;
/// Time from a step to its publish.
const LAG_SECONDS: i64 = 300;
/// The first published step, 2024-01-01T00:00:00Z. A step later than tomorrow is a fault of the
/// dataset: at a publish a second, steps reach 2026-11-22 after 42 hours.
const FIRST_STEP: i64 = 1_704_067_200;
/// The smallest factor that marks a day.
const FIRST_FACTOR: u64 = 1009;

pub(crate) struct Feed {
    dataset: PathBuf,
    /// File written before it is renamed to its final path.
    unfinished: PathBuf,
    /// The original islands.csv and newest daily file.
    islands: Vec<u8>,
    daily: Vec<u8>,
    /// The islands of live files, and the least players of each.
    played: Vec<(String, u64)>,
    /// Time of the newest live step.
    step: i64,
    changes: u32,
    first_day: UtcDay,
    /// Factor of the first newest day, which is the newest again after the day after it is removed.
    first_day_factor: u64,
    last_factor: u64,
    marks: Marks,
}

impl Feed {
    /// Takes over a synthetic dataset.
    pub(crate) fn new(dataset: &Path, unfinished: &Path) -> Outcome<Feed> {
        // Without the platform's totals the intraday curve is the sum of the live files.
        fs::remove_file(dataset.join("platform.csv"))?;
        let day_names = names(&dataset.join("daily"))?;
        let newest_day = day_names.last().ok_or("no days")?;
        let newest_day = newest_day.trim_end_matches(".csv").to_owned();
        let days = day_names.len() + names(&dataset.join("ccu"))?.len();
        let live = dataset.join("live");
        let steps = names(&live)?;
        let newest_step = steps.last().ok_or("no live steps")?;
        let played = played(&live.join(newest_step))?;
        fs::remove_dir_all(&live)?;
        fs::create_dir(&live)?;
        let mut feed = Feed {
            islands: fs::read(dataset.join("islands.csv"))?,
            daily: fs::read(dataset.join(format!("daily/{newest_day}.csv")))?,
            dataset: dataset.to_owned(),
            unfinished: unfinished.to_owned(),
            played,
            step: FIRST_STEP,
            changes: 0,
            first_day: UtcDay::parse(&newest_day).ok_or("no day")?,
            first_day_factor: FIRST_FACTOR,
            last_factor: FIRST_FACTOR,
            marks: Marks {
                title_end: String::new(),
                factor: FIRST_FACTOR,
                newest_day,
                days: days as u64,
            },
        };
        for back in 1..STEPS {
            feed.write_step(FIRST_STEP - back * STEP_SECONDS)?;
        }
        feed.write_titles()?;
        feed.write_newest_day()?;
        Ok(feed)
    }

    /// The next version: a live step more, the oldest removed, and another history if requested.
    pub(crate) fn advance(&mut self, history: bool) -> Outcome<Version> {
        self.step += STEP_SECONDS;
        let oldest = step_name(self.step - STEPS * STEP_SECONDS);
        fs::remove_file(self.dataset.join(oldest))?;
        if history {
            self.change_history()?;
        }
        self.version(history)
    }

    /// Writes the newest live step, and returns the version that the dataset now has.
    pub(crate) fn version(&self, has_history: bool) -> Outcome<Version> {
        let published = self.step + LAG_SECONDS;
        Ok(Version {
            published,
            stamp: UnixSeconds(published).to_string(),
            step: self.step,
            players: self.write_step(self.step)?,
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
                fs::remove_file(self.dataset.join(format!("daily/{day_after}.csv")))?;
                self.marks.factor = self.first_day_factor;
                self.marks.newest_day = self.first_day.to_string();
                self.marks.days -= 1;
                Ok(())
            }
        }
    }

    /// Marks the newest day with a factor not used before.
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

    /// Writes the live file of a step and returns the sum of its players.
    fn write_step(&self, step: i64) -> Outcome<u64> {
        let mut text = b"code,players\n".to_vec();
        let mut sum = 0;
        let number = (step / STEP_SECONDS).unsigned_abs();
        for (more, (code, least)) in (number..).zip(&self.played) {
            let players = least + more % 7;
            sum += players;
            writeln!(text, "{code},{players}")?;
        }
        self.put(&step_name(step), &text)?;
        Ok(sum)
    }

    /// Replaces a file atomically.
    fn put(&self, name: &str, text: &[u8]) -> Outcome<()> {
        write_file(&self.unfinished, text)?;
        Ok(fs::rename(&self.unfinished, self.dataset.join(name))?)
    }
}

fn step_name(step: i64) -> String {
    format!("live/{step}.csv")
}

/// The rows of a live file.
fn played(file: &Path) -> Outcome<Vec<(String, u64)>> {
    let text = fs::read_to_string(file)?;
    let rows = text.lines().skip(1).map(|line| {
        let (code, players) = line.split_once(',').ok_or("no comma")?;
        Ok((code.to_owned(), players.parse()?))
    });
    rows.collect()
}

fn with_column(file: &[u8], column: &str, change: impl Fn(&str) -> String) -> Outcome<Vec<u8>> {
    let mut rows = csv::Reader::from_reader(file);
    let header = rows.headers()?.clone();
    let changed = header.iter().position(|name| name == column);
    let changed = changed.ok_or("no such column")?;
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(&header)?;
    for row in rows.records() {
        let row = row?;
        let field = change(&row[changed]);
        let fields = row.iter().enumerate();
        out.write_record(fields.map(|(at, old)| if at == changed { &field } else { old }))?;
    }
    Ok(out.into_inner().map_err(|error| error.to_string())?)
}

fn prime_after(number: u64) -> u64 {
    let is_prime = |number: &u64| {
        let mut divisors = (2..).take_while(|divisor| divisor * divisor <= *number);
        divisors.all(|divisor| !number.is_multiple_of(divisor))
    };
    // There is one below twice the number (Bertrand).
    (number + 1..2 * number).find(is_prime).unwrap_or(number)
}
