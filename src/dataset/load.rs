//! `Dataset::load`: every file read, every field parsed, every code resolved, every fault told.

use super::fault::{Fault, Faults, LoadError};
use super::files::Files;
use super::rows::{CcuRow, DailyRow, Dataset, Day, Island, LiveStep, Metrics, Profile};
use super::table::{Need, Table, count};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::{CreatedIn, CreatorSlug, IslandCode};
use Need::{Optional, Required};

const ISLANDS: &[(&str, Need)] = &[
    ("code", Required),
    ("title", Required),
    ("creator", Required),
    ("createdIn", Required),
    ("tags", Required),
];
const CREATORS: &[(&str, Need)] = &[
    ("slug", Required),
    ("name", Optional),
    ("followers", Optional),
    ("following", Optional),
    ("lifetimePlays", Optional),
];
const DAILY: &[(&str, Need)] = &[
    ("code", Required),
    ("peakCCU", Required),
    ("uniquePlayers", Required),
    ("minutesPlayed", Required),
    ("favorites", Required),
    ("plays", Required),
    ("recommendations", Required),
    ("averageMinutesPerPlayer", Required),
    ("retentionD1", Required),
    ("retentionD7", Required),
];
const CCU: &[(&str, Need)] = &[("code", Required), ("peakCCU", Required)];
const LIVE: &[(&str, Need)] = &[("code", Required), ("players", Required)];
const PLATFORM: &[(&str, Need)] = &[("time", Required), ("players", Required)];

const WANT_CODE: &str = "twelve digits as 1234-5678-9012";
const WANT_STEP: &str = "Unix seconds that are a multiple of 600";
/// Seconds between two steps.
const STEP_SECONDS: i64 = 600;

impl Dataset {
    /// Loads and checks a dataset. `progress` is told files done and files in all.
    pub fn load(
        files: &Files,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Dataset, LoadError> {
        let mut faults = Faults::default();
        let mut dataset = Dataset {
            islands: islands(files, &mut faults)?,
            profiles: profiles(files, &mut faults)?,
            ..Dataset::default()
        };
        let codes: Vec<IslandCode> = dataset.islands.iter().map(|island| island.code).collect();
        let [daily, ccu, live] = [
            files.stems("daily")?,
            files.stems("ccu")?,
            files.stems("live")?,
        ];
        let all = daily.len() + ccu.len() + live.len();
        let mut done = 0;
        let mut step = || {
            done += 1;
            progress(done, all);
        };
        for stem in daily {
            let file = format!("daily/{stem}.csv");
            let rows = daily_rows(files, &file, &codes, &mut faults)?;
            if let Some(day) = day_of(&file, &stem, &mut faults) {
                dataset.days.entry(day).or_default().daily = rows;
            }
            step();
        }
        for stem in ccu {
            let file = format!("ccu/{stem}.csv");
            let rows = ccu_rows(files, &file, &codes, &mut faults)?;
            if let Some(day) = day_of(&file, &stem, &mut faults) {
                dataset.days.entry(day).or_default().ccu = rows;
            }
            step();
        }
        for stem in live {
            let file = format!("live/{stem}.csv");
            let players = live_rows(files, &file, &codes, &mut faults)?;
            match step_time(&stem) {
                Some(time) => dataset.live.push(LiveStep { time, players }),
                None => file_fault(
                    &file,
                    format!("the name is {stem:?}; want {WANT_STEP}"),
                    &mut faults,
                ),
            }
            step();
        }
        dataset.live.sort_by_key(|step| step.time);
        dataset.platform = platform(files, &mut faults)?;
        if faults.total > 0 {
            return Err(LoadError::Faults(faults.sorted()));
        }
        dataset.days.values_mut().for_each(daily_wins);
        Ok(dataset)
    }
}

/// Where daily/ and ccu/ both hold an island's day, daily/ wins.
fn daily_wins(day: &mut Day) {
    let daily = &day.daily;
    day.ccu.retain(|row| {
        daily
            .binary_search_by_key(&row.island, |row| row.island)
            .is_err()
    });
}

fn file_fault(file: &str, problem: String, faults: &mut Faults) {
    faults.add(Fault {
        file: file.to_owned(),
        line: None,
        column: None,
        problem,
    });
}

fn day_of(file: &str, stem: &str, faults: &mut Faults) -> Option<UtcDay> {
    let day = UtcDay::parse(stem);
    if day.is_none() {
        file_fault(
            file,
            format!("the name is {stem:?}; want a calendar day as 2026-11-20"),
            faults,
        );
    }
    day
}

fn step_time(text: &str) -> Option<UnixSeconds> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: i64 = digits.then(|| text.parse().ok())??;
    (seconds % STEP_SECONDS == 0).then_some(UnixSeconds(seconds))
}

/// Rows in the order of a key, each with its line; a key that stands twice is a fault.
struct Keyed<K, T> {
    rows: Vec<(K, u64, T)>,
}

impl<K: Ord + Copy, T> Keyed<K, T> {
    fn new() -> Keyed<K, T> {
        Keyed { rows: Vec::new() }
    }

    fn push(&mut self, key: K, table: &Table<'_>, row: T) {
        self.rows.push((key, table.line(), row));
    }

    fn finish(
        mut self,
        file: &str,
        name: impl Fn(&K) -> String,
        faults: &mut Faults,
    ) -> Vec<(K, T)> {
        self.rows.sort_by_key(|(key, line, _)| (*key, *line));
        for pair in self.rows.windows(2) {
            let [(first, first_line, _), (second, line, _)] = pair else {
                continue;
            };
            if first == second {
                let problem = format!(
                    "{} stands on line {first_line} already; want it once",
                    name(second)
                );
                faults.add(Fault {
                    file: file.to_owned(),
                    line: Some(*line),
                    column: None,
                    problem,
                });
            }
        }
        self.rows
            .into_iter()
            .map(|(key, _, row)| (key, row))
            .collect()
    }
}

fn islands(files: &Files, faults: &mut Faults) -> Result<Vec<Island>, LoadError> {
    let file = "islands.csv";
    let before = faults.total;
    let Some(mut table) = Table::open(files, file, ISLANDS, faults)? else {
        if faults.total == before {
            file_fault(
                file,
                "the file is missing; want one row for each island".to_owned(),
                faults,
            );
        }
        return Ok(Vec::new());
    };
    let mut keyed = Keyed::new();
    while table.next(faults)? {
        let code = table.parsed(0, faults, WANT_CODE, |text| text.parse::<IslandCode>().ok());
        let title = table.text(1).into();
        let want = "1 to 64 bytes without / and control characters, or nothing";
        let creator = table.nullable(2, faults, want, |text| text.parse::<CreatorSlug>().ok());
        let created_in = table.nullable(3, faults, "uefn, creative or nothing", CreatedIn::parse);
        let tags: Vec<Box<str>> = match table.text(4) {
            "" => Vec::new(),
            text => text.split('|').map(Into::into).collect(),
        };
        if tags.iter().any(|tag| tag.is_empty()) {
            table.wrong(4, faults, "tags joined by |, none of them empty");
        }
        let Some(code) = code else { continue };
        keyed.push(
            code,
            &table,
            Island {
                code,
                title,
                creator,
                created_in,
                tags,
            },
        );
    }
    let rows = keyed.finish(file, ToString::to_string, faults);
    Ok(rows.into_iter().map(|(_, island)| island).collect())
}

fn profiles(files: &Files, faults: &mut Faults) -> Result<Vec<Profile>, LoadError> {
    let file = "creators.csv";
    let Some(mut table) = Table::open(files, file, CREATORS, faults)? else {
        return Ok(Vec::new());
    };
    let mut rows: Vec<(u64, Profile)> = Vec::new();
    while table.next(faults)? {
        let want = "1 to 64 bytes without / and control characters";
        let slug = table.parsed(0, faults, want, |text| text.parse::<CreatorSlug>().ok());
        let name = Some(table.text(1))
            .filter(|name| !name.is_empty())
            .map(Into::into);
        let [followers, following, lifetime_plays] =
            [2, 3, 4].map(|column| table.count(column, faults));
        if let Some(slug) = slug {
            rows.push((
                table.line(),
                Profile {
                    slug,
                    name,
                    followers,
                    following,
                    lifetime_plays,
                },
            ));
        }
    }
    rows.sort_by(|(line, a), (other, b)| (&a.slug, line).cmp(&(&b.slug, other)));
    for pair in rows.windows(2) {
        if pair[0].1.slug == pair[1].1.slug {
            let problem = format!(
                "{:?} stands on line {} already; want it once",
                pair[1].1.slug.as_str(),
                pair[0].0
            );
            faults.add(Fault {
                file: file.to_owned(),
                line: Some(pair[1].0),
                column: None,
                problem,
            });
        }
    }
    Ok(rows.into_iter().map(|(_, profile)| profile).collect())
}

/// The island that a row's code names, as its position.
fn island(table: &mut Table<'_>, codes: &[IslandCode], faults: &mut Faults) -> Option<u32> {
    let code = table.parsed(0, faults, WANT_CODE, |text| text.parse::<IslandCode>().ok())?;
    let Ok(at) = codes.binary_search(&code) else {
        table.wrong(0, faults, "a code that islands.csv lists");
        return None;
    };
    Some(u32::try_from(at).expect("the platform has far fewer than 2^32 islands"))
}

/// The rows of a file keyed by island, in the order of islands.
fn by_island<T>(
    files: &Files,
    file: &str,
    columns: &'static [(&'static str, Need)],
    codes: &[IslandCode],
    faults: &mut Faults,
    mut read: impl FnMut(&mut Table<'_>, &mut Faults) -> T,
) -> Result<Vec<(u32, T)>, LoadError> {
    let Some(mut table) = Table::open(files, file, columns, faults)? else {
        return Ok(Vec::new());
    };
    let mut keyed = Keyed::new();
    while table.next(faults)? {
        let island = island(&mut table, codes, faults);
        let row = read(&mut table, faults);
        if let Some(island) = island.filter(|_| table.is_sound()) {
            keyed.push(island, &table, row);
        }
    }
    Ok(keyed.finish(file, |island| codes[*island as usize].to_string(), faults))
}

fn daily_rows(
    files: &Files,
    file: &str,
    codes: &[IslandCode],
    faults: &mut Faults,
) -> Result<Vec<DailyRow>, LoadError> {
    let rows = by_island(files, file, DAILY, codes, faults, |table, faults| {
        let counts = [1, 2, 3, 4, 5, 6].map(|column| table.count(column, faults));
        let average = table.decimal(7, faults, None);
        let [d1, d7] = [8, 9].map(|column| table.decimal(column, faults, Some(1.0)));
        Metrics::new(counts, [average, d1, d7])
    })?;
    Ok(rows
        .into_iter()
        .map(|(island, metrics)| DailyRow { island, metrics })
        .collect())
}

fn ccu_rows(
    files: &Files,
    file: &str,
    codes: &[IslandCode],
    faults: &mut Faults,
) -> Result<Vec<CcuRow>, LoadError> {
    let rows = by_island(files, file, CCU, codes, faults, |table, faults| {
        table.count(1, faults)
    })?;
    Ok(rows
        .into_iter()
        .map(|(island, peak_ccu)| CcuRow { island, peak_ccu })
        .collect())
}

fn live_rows(
    files: &Files,
    file: &str,
    codes: &[IslandCode],
    faults: &mut Faults,
) -> Result<Vec<(u32, u64)>, LoadError> {
    let rows = by_island(files, file, LIVE, codes, faults, |table, faults| {
        table.count(1, faults)
    })?;
    Ok(rows
        .into_iter()
        .filter_map(|(island, players)| Some((island, players?)))
        .collect())
}

fn platform(
    files: &Files,
    faults: &mut Faults,
) -> Result<Option<Vec<(UnixSeconds, u64)>>, LoadError> {
    let file = "platform.csv";
    let Some(mut table) = Table::open(files, file, PLATFORM, faults)? else {
        return Ok(None);
    };
    let mut keyed = Keyed::new();
    while table.next(faults)? {
        let time = table.parsed(0, faults, WANT_STEP, step_time);
        let players = table.nullable(
            1,
            faults,
            "an integer from 0 to 9007199254740991, or nothing",
            count,
        );
        if let Some(time) = time {
            keyed.push(time, &table, players);
        }
    }
    let rows = keyed.finish(file, |time| time.0.to_string(), faults);
    Ok(Some(
        rows.into_iter()
            .filter_map(|(time, players)| Some((time, players?)))
            .collect(),
    ))
}
