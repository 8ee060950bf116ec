//! What the JSON of an answer says of its version. Members that say nothing of it are passed over.

use serde::Deserialize;

use crate::common::judged::feed::{STEP_SECONDS, STEPS};
use crate::common::judged::ledger::{Marks, Version};
use crate::common::judged::targets::Kind;

/// What stands in any answer, as far as it is looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) meta: Meta,
    generated_at: Option<String>,
    time: Option<i64>,
    players: Option<u64>,
    points: Option<Vec<(i64, u64)>>,
    counts: Option<Counts>,
    latest: Option<String>,
    date: Option<String>,
    island: Option<Row>,
    creator: Option<Sums>,
    ccu: Option<Vec<(String, u64)>>,
    islands: Option<Vec<Row>>,
    creators: Option<Vec<Sums>>,
    ranking: Option<Vec<Row>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meta {
    pub(crate) generated_at: String,
    total: Option<u64>,
    limit: Option<u64>,
    offset: Option<u64>,
}

#[derive(Deserialize)]
struct Counts {
    rankings: u64,
}

#[derive(Deserialize)]
struct Row {
    code: String,
    title: String,
    date: Option<String>,
    recommendations: Option<u64>,
    players: Option<u64>,
    #[serde(default)]
    series: Vec<Day>,
}

#[derive(Deserialize)]
struct Day {
    date: String,
    recommendations: Option<u64>,
}

#[derive(Deserialize)]
struct Sums {
    slug: String,
    recommendations: Option<u64>,
    #[serde(default)]
    islands: Vec<Row>,
}

/// What is wrong, where it is not right.
fn want(is_right: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if is_right { Ok(()) } else { Err(what()) }
}

impl Answer {
    /// Whether all of it is of one version.
    pub(crate) fn check(&self, kind: Kind, version: &Version) -> Result<(), String> {
        match kind {
            Kind::Index => self.check_index(version),
            Kind::Live => self.check_live(version),
            Kind::Intraday => self.check_intraday(version),
            Kind::Fixed => self.check_rows(&version.marks),
            Kind::Page => {
                self.check_length()?;
                self.check_rows(&version.marks)
            }
        }
    }

    fn check_index(&self, version: &Version) -> Result<(), String> {
        let stamp = self.generated_at.as_ref();
        want(stamp == Some(&version.stamp), || {
            format!("its generatedAt is {stamp:?}")
        })?;
        let days = self.counts.as_ref().map(|counts| counts.rankings);
        want(days == Some(version.marks.days), || {
            format!("it counts {days:?} days, not {}", version.marks.days)
        })
    }

    fn check_live(&self, version: &Version) -> Result<(), String> {
        want(self.time == Some(version.step), || {
            format!("its time is {:?}, not {}", self.time, version.step)
        })?;
        let rows = self.islands.as_deref().unwrap_or_default();
        let sum: u64 = rows.iter().filter_map(|row| row.players).sum();
        want(
            [self.players, Some(sum)] == [Some(version.players); 2],
            || {
                let (said, want) = (self.players, version.players);
                format!("{said:?} players and {sum} in its rows, not {want}")
            },
        )?;
        self.check_rows(&version.marks)
    }

    fn check_intraday(&self, version: &Version) -> Result<(), String> {
        let points = self.points.as_deref().unwrap_or_default();
        let last = points.last();
        want(last == Some(&(version.step, version.players)), || {
            format!("it ends with {last:?}")
        })?;
        let times = (0..STEPS)
            .rev()
            .map(|back| version.step - back * STEP_SECONDS);
        let is_whole = times.eq(points.iter().map(|(time, _)| *time));
        want(is_whole, || {
            format!("{} points are not its day", points.len())
        })
    }

    /// Whether a page has as many rows as it should.
    fn check_length(&self) -> Result<(), String> {
        let islands = self.islands.as_ref().map(Vec::len);
        let rows = islands.or(self.creators.as_ref().map(Vec::len));
        let meta = &self.meta;
        let wanted = meta.total.zip(meta.limit).zip(meta.offset);
        let wanted = wanted.map(|((total, limit), offset)| total.saturating_sub(offset).min(limit));
        let rows = rows.map(|rows| rows as u64);
        want(rows.is_some() && rows == wanted, || {
            format!("it has {rows:?} rows, not {wanted:?}")
        })
    }

    fn check_rows(&self, marks: &Marks) -> Result<(), String> {
        let newest = marks.newest_day.as_str();
        // Rows of a day's new islands have that day's figures, all others those of the newest.
        let day = self.date.as_deref().unwrap_or(newest);
        if let Some(latest) = &self.latest {
            want(latest == newest, || format!("its latest day is {latest}"))?;
        }
        let rows = [&self.islands, &self.ranking]
            .into_iter()
            .flatten()
            .flatten();
        for row in rows.chain(&self.island) {
            row.check(day, marks)?;
        }
        for sums in self.creators.iter().flatten().chain(&self.creator) {
            marks.check_count(sums.recommendations, &sums.slug)?;
            for row in &sums.islands {
                row.check(newest, marks)?;
            }
        }
        let last = self.ccu.as_ref().and_then(|peaks| peaks.last());
        want(last.is_none_or(|(day, _)| day.as_str() <= newest), || {
            format!("it ends with {last:?}, after {newest}")
        })
    }
}

impl Row {
    fn check(&self, day: &str, marks: &Marks) -> Result<(), String> {
        let (code, title) = (&self.code, &self.title);
        want(title.ends_with(&marks.title_end), || {
            format!("{code} is {title:?}, not {:?}", marks.title_end)
        })?;
        if let Some(date) = &self.date {
            want(date == day, || format!("{code} is of {date}, not {day}"))?;
            if *date == marks.newest_day {
                marks.check_count(self.recommendations, code)?;
            }
        }
        let Some(last) = self.series.last() else {
            return Ok(());
        };
        want(last.date <= marks.newest_day, || {
            format!("the series of {code} ends with {}", last.date)
        })?;
        if last.date == marks.newest_day {
            marks.check_count(last.recommendations, code)?;
        }
        Ok(())
    }
}

impl Marks {
    fn check_count(&self, count: Option<u64>, of: &str) -> Result<(), String> {
        let is_right = count.is_none_or(|count| count.is_multiple_of(self.factor));
        want(is_right, || {
            format!("{of} has {count:?} recommendations, not of {}", self.factor)
        })
    }
}
