//! The members of a JSON body that depend on its version. Other members are ignored.

use serde::Deserialize;

use super::feed::{STEP_SECONDS, STEPS};
use super::targets::Kind;
use super::versions::{Marks, Version};

/// Members of any body.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Body {
    pub(crate) meta: Meta,
    generated_at: Option<String>,
    time: Option<i64>,
    players: Option<u64>,
    points: Option<Vec<(i64, u64)>>,
    counts: Option<Counts>,
    latest: Option<String>,
    date: Option<String>,
    island: Option<Island>,
    creator: Option<Creator>,
    ccu: Option<Vec<(String, u64)>>,
    islands: Option<Vec<Island>>,
    creators: Option<Vec<Creator>>,
    ranking: Option<Vec<Island>>,
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
struct Island {
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
struct Creator {
    slug: String,
    recommendations: Option<u64>,
    #[serde(default)]
    islands: Vec<Island>,
}

/// Fails with `reason` unless `is_right`.
fn require(is_right: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if is_right { Ok(()) } else { Err(reason()) }
}

impl Body {
    /// Checks that all of it is of one version.
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
        require(stamp == Some(&version.stamp), || {
            format!("its generatedAt is {stamp:?}")
        })?;
        let (days, published) = (self.counts.as_ref(), version.marks.days);
        let days = days.map(|counts| counts.rankings);
        require(days == Some(published), || {
            format!("it counts {days:?} days, not {published}")
        })
    }

    fn check_live(&self, version: &Version) -> Result<(), String> {
        let (time, step) = (self.time, version.step);
        require(time == Some(step), || {
            format!("its time is {time:?}, not {step}")
        })?;
        let rows = self.islands.as_deref().unwrap_or_default();
        let sum: u64 = rows.iter().filter_map(|row| row.players).sum();
        let (total, published) = (self.players, version.players);
        require([total, Some(sum)] == [Some(published); 2], || {
            format!("{total:?} players and {sum} in its rows, not {published}")
        })?;
        self.check_rows(&version.marks)
    }

    fn check_intraday(&self, version: &Version) -> Result<(), String> {
        let points = self.points.as_deref().unwrap_or_default();
        let last = points.last();
        require(last == Some(&(version.step, version.players)), || {
            format!("its last point is {last:?}")
        })?;
        let times = (0..STEPS)
            .rev()
            .map(|back| version.step - back * STEP_SECONDS);
        let is_complete = times.eq(points.iter().map(|(time, _)| *time));
        require(is_complete, || {
            format!("its {} points are not the last day", points.len())
        })
    }

    /// Checks the number of rows of a page.
    fn check_length(&self) -> Result<(), String> {
        let islands = self.islands.as_ref().map(Vec::len);
        let rows = islands.or(self.creators.as_ref().map(Vec::len));
        let rows = rows.map(|rows| rows as u64);
        let meta = &self.meta;
        let expected = meta.total.zip(meta.limit).zip(meta.offset);
        let expected =
            expected.map(|((total, limit), offset)| total.saturating_sub(offset).min(limit));
        require(rows.is_some() && rows == expected, || {
            format!("it has {rows:?} rows, not {expected:?}")
        })
    }

    fn check_rows(&self, marks: &Marks) -> Result<(), String> {
        let newest = marks.newest_day.as_str();
        // Rows of a day's new islands have that day's metrics, all others those of the newest day.
        let day = self.date.as_deref().unwrap_or(newest);
        if let Some(latest) = &self.latest {
            require(latest == newest, || format!("its latest day is {latest}"))?;
        }
        let rows = [&self.islands, &self.ranking].into_iter().flatten();
        for row in rows.flatten().chain(&self.island) {
            row.check(day, marks)?;
        }
        for creator in self.creators.iter().flatten().chain(&self.creator) {
            marks.check_count(creator.recommendations, &creator.slug)?;
            for row in &creator.islands {
                row.check(newest, marks)?;
            }
        }
        let last = self.ccu.as_ref().and_then(|peaks| peaks.last());
        require(last.is_none_or(|(day, _)| day.as_str() <= newest), || {
            format!("its last day is {last:?}, after {newest}")
        })
    }
}

impl Island {
    fn check(&self, day: &str, marks: &Marks) -> Result<(), String> {
        let (code, title) = (&self.code, &self.title);
        require(title.ends_with(&marks.title_end), || {
            format!("{code} is {title:?}, not {:?}", marks.title_end)
        })?;
        if let Some(date) = &self.date {
            require(date == day, || format!("{code} is of {date}, not {day}"))?;
            if *date == marks.newest_day {
                marks.check_count(self.recommendations, code)?;
            }
        }
        let Some(last) = self.series.last() else {
            return Ok(());
        };
        require(last.date <= marks.newest_day, || {
            format!("the last day of {code} is {}", last.date)
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
        require(is_right, || {
            format!(
                "{of} has {count:?} recommendations, not a multiple of {}",
                self.factor
            )
        })
    }
}
