//! Reads every file of a dataset, resolves its codes, and gathers all that is wrong.

use std::collections::HashMap;
use std::io;

use super::fault::{FaultLog, LoadError, quoted};
use super::files::Files;
use super::index::Index;
use super::rows::{CcuRow, DailyRow, Dataset, Day, Island, LiveStep, Metrics, Profile};
use super::table::{Columns, Table, WANT_SLUG, WANT_TIME, step_time};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::{CreatedIn, CreatorSlug};

const ISLANDS: Columns = Columns {
    names: &["code", "title", "creator", "createdIn", "tags"],
    required: 5,
};

const CREATORS: Columns = Columns {
    names: &["slug", "name", "followers", "following", "lifetimePlays"],
    required: 1,
};

const DAILY: Columns = Columns {
    names: &[
        "code",
        "peakCCU",
        "uniquePlayers",
        "minutesPlayed",
        "favorites",
        "plays",
        "recommendations",
        "averageMinutesPerPlayer",
        "retentionD1",
        "retentionD7",
    ],
    required: 10,
};

const CCU: Columns = Columns {
    names: &["code", "peakCCU"],
    required: 2,
};

const LIVE: Columns = Columns {
    names: &["code", "players"],
    required: 2,
};

const PLATFORM: Columns = Columns {
    names: &["time", "players"],
    required: 2,
};

impl Dataset {
    /// Reads and checks everything; `progress` hears how many files are done and how many there are.
    /// Fails with every fault found, or with the first file that could not be read.
    pub fn load(
        files: &Files,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Dataset, LoadError> {
        files.probe().map_err(io_error(files, ""))?;
        let stems = |folder| files.stems(folder).map_err(io_error(files, folder));
        let (daily, ccu, live) = (stems("daily")?, stems("ccu")?, stems("live")?);
        let all = 3 + daily.len() + ccu.len() + live.len();
        let mut done = 0;
        let mut step = || {
            progress(done, all);
            done += 1;
        };

        let mut load = Load {
            files,
            faults: FaultLog::default(),
            dataset: Dataset::default(),
            index: Index::default(),
        };
        step();
        load.islands()?;
        step();
        load.creators()?;
        step();
        load.platform()?;
        for stem in daily {
            step();
            load.daily(&stem)?;
        }
        for stem in ccu {
            step();
            load.ccu(&stem)?;
        }
        for stem in live {
            step();
            load.live(&stem)?;
        }
        step();
        load.finish()
    }
}

fn io_error(files: &Files, name: &str) -> impl FnOnce(io::Error) -> LoadError {
    let path = files.path(name);
    |source| LoadError::Io { path, source }
}

/// A load under way.
struct Load<'a> {
    files: &'a Files,
    faults: FaultLog,
    dataset: Dataset,
    index: Index,
}

impl Load<'_> {
    /// Gives each row of a file to `row`, with the means to resolve its code; false if there is no
    /// such file.
    fn each_row(
        &mut self,
        file: &str,
        columns: &'static Columns,
        mut row: impl FnMut(&mut Table<'_>, &mut Index),
    ) -> Result<bool, LoadError> {
        let Some(content) = self.files.open(file).map_err(io_error(self.files, file))? else {
            return Ok(false);
        };
        self.index.start_file();
        if let Some(mut table) = Table::new(self.files, file, content, columns, &mut self.faults)? {
            while table.next_row()? {
                row(&mut table, &mut self.index);
            }
        }
        Ok(true)
    }

    fn islands(&mut self) -> Result<(), LoadError> {
        const FILE: &str = "islands.csv";
        let mut islands = Vec::new();
        let mut seen = HashMap::new();
        let held = self.each_row(FILE, &ISLANDS, |table, _| {
            let code = table.code(0);
            if let Some(code) = code {
                table.once(0, &mut seen, code);
            }
            let title = table.field(1).into();
            let creator = table.slug(2);
            let created_in = table.optional(3, "uefn, creative or nothing", CreatedIn::parse);
            let tags = table.optional(4, "tags joined by |, none of them empty", parse_tags);
            // An island with another fault is known all the same: rows that name it are not at fault.
            let tags = tags.unwrap_or_default();
            islands.extend(code.map(|code| Island {
                code,
                title,
                creator,
                created_in,
                tags,
            }));
        })?;
        if !held {
            self.faults.push_file(
                FILE,
                "there is no such file; want a row for each island".to_owned(),
            );
        }
        islands.sort_unstable_by_key(|island| island.code);
        let codes = islands.iter().map(|island| island.code).collect();
        self.index = Index::new(codes, islands.is_empty() && !self.faults.is_empty());
        self.dataset.islands = islands;
        Ok(())
    }

    fn creators(&mut self) -> Result<(), LoadError> {
        let mut profiles = Vec::new();
        let mut seen = HashMap::new();
        self.each_row("creators.csv", &CREATORS, |table, _| {
            let slug = table.required(0, WANT_SLUG, |text| text.parse::<CreatorSlug>().ok());
            let name = table.text(1);
            let [followers, following, lifetime_plays] =
                [2, 3, 4].map(|column| table.count(column));
            if let Some(slug) = slug {
                table.once(0, &mut seen, slug.clone());
                profiles.push(Profile {
                    slug,
                    name,
                    followers,
                    following,
                    lifetime_plays,
                });
            }
        })?;
        profiles.sort_unstable_by(|one, other| one.slug.cmp(&other.slug));
        self.dataset.profiles = profiles;
        Ok(())
    }

    fn platform(&mut self) -> Result<(), LoadError> {
        let mut points = Vec::new();
        let mut seen = HashMap::new();
        let held = self.each_row("platform.csv", &PLATFORM, |table, _| {
            let time = table.required(0, WANT_TIME, step_time).map(UnixSeconds);
            if let Some(time) = time {
                table.once(0, &mut seen, time);
            }
            points.extend(time.zip(table.count(1)));
        })?;
        points.sort_unstable();
        self.dataset.platform = held.then_some(points);
        Ok(())
    }

    fn daily(&mut self, stem: &str) -> Result<(), LoadError> {
        let file = format!("daily/{stem}.csv");
        let day = self.day(&file, stem);
        let mut rows = Vec::new();
        self.each_row(&file, &DAILY, |table, index| {
            let island = index.resolve(table);
            let counts = [1, 2, 3, 4, 5, 6].map(|column| table.count(column));
            let metrics = Metrics::new(counts, [table.decimal(7), table.share(8), table.share(9)]);
            rows.extend(island.map(|island| DailyRow { island, metrics }));
        })?;
        if let Some(day) = day {
            rows.sort_unstable_by_key(|row| row.island);
            rows.shrink_to_fit();
            self.dataset.days.insert(
                day,
                Day {
                    daily: rows,
                    ccu: Vec::new(),
                },
            );
        }
        Ok(())
    }

    /// To be called once the daily files are read, for they win.
    fn ccu(&mut self, stem: &str) -> Result<(), LoadError> {
        let file = format!("ccu/{stem}.csv");
        let day = self.day(&file, stem);
        let mut rows = Vec::new();
        self.each_row(&file, &CCU, |table, index| {
            let (island, peak_ccu) = (index.resolve(table), table.count(1));
            rows.extend(island.map(|island| CcuRow { island, peak_ccu }));
        })?;
        if let Some(day) = day {
            let Day { daily, ccu } = self.dataset.days.entry(day).or_default();
            rows.retain(|row| {
                daily
                    .binary_search_by_key(&row.island, |held| held.island)
                    .is_err()
            });
            rows.sort_unstable_by_key(|row| row.island);
            rows.shrink_to_fit();
            *ccu = rows;
        }
        Ok(())
    }

    fn live(&mut self, stem: &str) -> Result<(), LoadError> {
        let file = format!("live/{stem}.csv");
        let time = step_time(stem).map(UnixSeconds);
        if time.is_none() {
            let problem = format!("the name is {}; want {WANT_TIME}, then .csv", quoted(stem));
            self.faults.push_file(&file, problem);
        }
        let mut players = Vec::new();
        self.each_row(&file, &LIVE, |table, index| {
            players.extend(index.resolve(table).zip(table.count(1)));
        })?;
        players.sort_unstable();
        players.shrink_to_fit();
        self.dataset
            .live
            .extend(time.map(|time| LiveStep { time, players }));
        Ok(())
    }

    /// The day that a file is named for.
    fn day(&mut self, file: &str, stem: &str) -> Option<UtcDay> {
        let day = UtcDay::parse(stem);
        if day.is_none() {
            let problem = format!(
                "the name is {}; want a calendar day, YYYY-MM-DD, then .csv",
                quoted(stem)
            );
            self.faults.push_file(file, problem);
        }
        day
    }

    fn finish(mut self) -> Result<Dataset, LoadError> {
        let live = &mut self.dataset.live;
        live.sort_unstable_by_key(|step| step.time);
        // Leading zeros can spell one time in two names.
        for pair in live.windows(2).filter(|pair| pair[0].time == pair[1].time) {
            let problem = "there are two files of this time; want one".to_owned();
            self.faults
                .push_file(&format!("live/{}.csv", pair[0].time.0), problem);
        }
        match self.faults.finish() {
            Some(faults) => Err(LoadError::Faults(faults)),
            None => Ok(self.dataset),
        }
    }
}

fn parse_tags(text: &str) -> Option<Vec<Box<str>>> {
    text.split('|')
        .map(|tag| (!tag.is_empty()).then(|| tag.into()))
        .collect()
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
