//! The collector against a virtual upstream for simulated weeks, with faults, crashes and clock steps.
//!
//! The model: each value of an island's day in the dataset is the last usable non-null value that the
//! upstream gave; each island-day that was visible for 36 h is there; nothing else is.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a simulation in numbers far below any limit"
)]

use std::collections::{BTreeMap, BTreeSet};

use super::collector::{Collector, Next, Options};
use super::reply::RawReply;
use super::request::Request;
use super::scratch::Scratch;
use super::settings::PlatformSeries;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::dataset::{Files, validate};
use crate::model::{IslandCode, SortField};

const FIRST_DAY: i32 = 20_600;

fn hash(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9E37_79B9_7F4A_7C15, |sum, part| {
        let mixed = (sum ^ part).wrapping_mul(0xD1B5_4A32_D192_ED03);
        mixed ^ (mixed >> 31)
    })
}

fn code(number: u64) -> IslandCode {
    IslandCode::from_number(number * 7_919 + 1_000).unwrap()
}

/// A virtual upstream. Everything follows from the seed, the island and the time.
struct Upstream {
    seed: u64,
    islands: u64,
    page: usize,
    /// Percentage of requests that fail.
    faults: u64,
    requests: u64,
    /// Values given for (island, day, field): the newest last, each with whether it may have been lost in a crash.
    given: BTreeMap<(u64, i32, usize), Vec<u64>>,
    /// Values that a crash may have taken, by number of the crash.
    unsynced: BTreeSet<(u64, i32, usize)>,
}

impl Upstream {
    /// The day on which an island appears: a tenth of them later.
    fn appears(&self, number: u64) -> i32 {
        let roll = hash(&[self.seed, 1, number]);
        if roll.is_multiple_of(10) {
            FIRST_DAY + 1 + (roll / 10 % 5) as i32
        } else {
            i32::MIN
        }
    }

    /// Some islands vanish for some days.
    fn is_public(&self, number: u64, day: i32) -> bool {
        let is_away = hash(&[self.seed, 2, number, (day / 3) as u64]).is_multiple_of(40);
        day >= self.appears(number) && !is_away
    }

    fn has_data(&self, number: u64, day: i32) -> bool {
        if day < self.appears(number) {
            return false;
        }
        match hash(&[self.seed, 3, number]) % 10 {
            0..3 => true,
            3..5 => hash(&[self.seed, 4, number, (day / 2) as u64]).is_multiple_of(2),
            _ => hash(&[self.seed, 5, number, day as u64]).is_multiple_of(100),
        }
    }

    /// The value as of a day: revised once, on the day after the next.
    fn value(&self, number: u64, day: i32, field: usize, today: i32) -> Option<u64> {
        if !self.has_data(number, day) {
            return None;
        }
        let is_revised = u64::from(
            today > day + 2 && hash(&[self.seed, 6, number, day as u64]).is_multiple_of(5),
        );
        let value = hash(&[self.seed, 7, number, day as u64, field as u64, is_revised]);
        // The first metric is always there; others are null at times, in a revision too.
        (field == 0 || !value.is_multiple_of(7)).then_some(value % 10_000)
    }

    fn reply(&mut self, request: &Request, now: UnixSeconds) -> Result<RawReply, String> {
        self.requests += 1;
        let roll = hash(&[self.seed, 8, self.requests]);
        if roll % 100 < self.faults {
            let reply = |status, kind: &str, body: &str| RawReply {
                status,
                content_type: kind.to_owned(),
                body: body.as_bytes().to_vec(),
                ..RawReply::default()
            };
            return match roll / 100 % 7 {
                0 => Err("connection reset".to_owned()),
                1 => Ok(reply(200, "application/json", "")),
                2 => Ok(reply(429, "text/plain", "slow down")),
                3 => Ok(reply(522, "text/html", "<html>")),
                4 => Ok(reply(200, "application/json", "{\"data\":[{\"code\":")),
                5 => Ok(reply(200, "application/json", "{}")),
                _ => Ok(reply(400, "application/json", "{\"errorCode\":\"bad\"}")),
            };
        }
        let body = match request {
            Request::Catalogue { after } => self.catalogue(after.as_deref(), now),
            Request::Genres => serde_json::json!({"data": [{"slug": "party"}]}),
            Request::Ranking { .. } => {
                let ranked: Vec<_> = (0..self.islands / 10)
                    .map(|number| serde_json::json!({"islandCode": code(number).to_string(), "rank": number + 1}))
                    .collect();
                serde_json::json!({"data": ranked, "meta": {"snapshotAvailable": true}})
            }
            Request::Platform { .. } => {
                let step = now.0 / 600 * 600 - 1800;
                let point = serde_json::json!([{"value": step / 600, "timestamp": UnixSeconds(step).to_string()}]);
                serde_json::json!({"inMatchPeakCCU": point, "inClientPeakCCU": []})
            }
            Request::Days { code, from, to } => match self.days(*code, (*from, *to), now) {
                Some(body) => body,
                None => return Ok(not_found()),
            },
            Request::Steps { code, .. } => {
                let step = now.0 / 600 * 600 - 1800;
                let value = code.number() % 100;
                serde_json::json!({"peakCCU": [
                    {"value": value, "timestamp": UnixSeconds(step).to_string()},
                    {"value": null, "timestamp": UnixSeconds(step + 600).to_string()},
                ]})
            }
        };
        Ok(RawReply {
            status: 200,
            content_type: "application/json".to_owned(),
            body: body.to_string().into_bytes(),
            ..RawReply::default()
        })
    }

    fn catalogue(&self, after: Option<&str>, now: UnixSeconds) -> serde_json::Value {
        let today = now.day().0;
        let start: u64 = after.map_or(0, |cursor| cursor.parse().unwrap());
        let shown: Vec<u64> = (start..self.islands)
            .filter(|number| self.is_public(*number, today))
            .collect();
        let page = &shown[..shown.len().min(self.page)];
        let next = (shown.len() > page.len()).then(|| (page[page.len() - 1] + 1).to_string());
        let rows: Vec<_> = page
            .iter()
            .map(|number| {
                serde_json::json!({
                    "code": code(*number).to_string(), "title": format!("Island {number} of {}", today / 4),
                    "creatorCode": format!("creator{}", number % 9), "createdIn": "UEFN", "tags": ["pvp", "a|b"],
                })
            })
            .chain([serde_json::json!({"code": "playlist_solo", "title": "x", "tags": []})])
            .collect();
        serde_json::json!({"data": rows, "meta": {"page": {"nextCursor": next}}, "links": {"next": next}})
    }

    fn days(
        &mut self,
        code: IslandCode,
        (from, to): (UnixSeconds, UnixSeconds),
        now: UnixSeconds,
    ) -> Option<serde_json::Value> {
        let number = (code.number() - 1_000) / 7_919;
        let today = now.day().0;
        if !self.is_public(number, today) {
            return None;
        }
        assert!(
            from.day().0 >= today - 7,
            "asked for a day outside the window"
        );
        // The current day is always there, and must never be written.
        let days = from.day().0..=to.day().0.max(today);
        let series = |this: &mut Self, field: usize, scale: f64| {
            let points: Vec<_> = days
                .clone()
                .map(|day| {
                    let value = this.value(number, day, field, today);
                    if let Some(value) = value.filter(|_| day < today) {
                        this.given.entry((number, day, field)).or_default().push(value);
                        this.unsynced.insert((number, day, field));
                    }
                    let timestamp = format!("{}T00:00:00.000Z", UtcDay(day));
                    match value {
                        Some(value) if scale < 1.0 => serde_json::json!({"value": value as f64 * scale, "timestamp": timestamp}),
                        value => serde_json::json!({"value": value, "timestamp": timestamp}),
                    }
                })
                .collect();
            serde_json::Value::Array(points)
        };
        Some(serde_json::json!({
            "peakCCU": series(self, 0, 1.0),
            "uniquePlayers": series(self, 1, 1.0),
            "minutesPlayed": series(self, 2, 1.0),
            "favorites": series(self, 3, 1.0),
            "plays": series(self, 4, 1.0),
            "recommendations": series(self, 5, 1.0),
            "averageMinutesPerPlayer": [],
            "retention": [],
        }))
    }
}

fn not_found() -> RawReply {
    RawReply {
        status: 404,
        content_type: "application/json".to_owned(),
        body: br#"{"errorCode":"not_found"}"#.to_vec(),
        ..RawReply::default()
    }
}

struct Run {
    scratch: Scratch,
    upstream: Upstream,
    now: UnixSeconds,
    collector: Collector,
    options: Options,
}

impl Run {
    fn new(upstream: Upstream, once: bool) -> Run {
        let scratch = Scratch::new();
        let now = UnixSeconds(i64::from(FIRST_DAY) * DAY_SECONDS + 9 * 3600);
        let options = Options {
            live: 3,
            platform: PlatformSeries::InMatch,
            once,
        };
        let collector = open(&scratch, options, now);
        Run {
            scratch,
            upstream,
            now,
            collector,
            options,
        }
    }

    /// Ends the collector without a last write, as SIGKILL does, and begins again.
    fn crash(&mut self) {
        self.collector = open(&self.scratch, self.options, self.now);
        self.validate();
    }

    /// Runs for some time at a pace of one request in `seconds`.
    fn advance(&mut self, until: UnixSeconds, seconds: i64) {
        let mut ticked = 0;
        while self.now < until {
            if self.now.0 - ticked >= 600 {
                ticked = self.now.0;
                self.collector.tick(self.now).unwrap();
                // Everything given before is durable.
                if self.collector.synced == self.now {
                    self.upstream.unsynced.clear();
                }
            }
            match self.collector.next(self.now) {
                Next::Send(request) => {
                    let raw = self.upstream.reply(&request, self.now);
                    self.collector.receive(&request, raw, self.now).unwrap();
                    self.now.0 += seconds;
                }
                Next::Sleep(due) => {
                    assert!(due > self.now);
                    self.now = due.min(UnixSeconds(self.now.0 + 600));
                }
                Next::Done => return,
            }
        }
    }

    fn validate(&self) {
        let dataset = self.scratch.path().join("dataset");
        if dataset.join("islands.csv").exists() {
            let files = Files::Directory(dataset);
            validate(&files, self.now.day(), &mut |_, _| ()).unwrap();
        }
    }

    /// Compares `daily/` with what the upstream gave.
    fn compare(&mut self) -> usize {
        self.collector.merge(self.now).unwrap();
        self.validate();
        let mut found = 0;
        let today = self.now.day().0;
        for day in FIRST_DAY - 7..today {
            let rows = self.collector.dataset.day(UtcDay(day)).unwrap();
            let by_number: BTreeMap<u64, _> = rows
                .iter()
                .map(|(code, metrics)| ((code.number() - 1_000) / 7_919, metrics))
                .collect();
            for number in 0..self.upstream.islands {
                let row = by_number.get(&number);
                for (field, name) in SortField::ALL.into_iter().enumerate() {
                    let key = (number, day, field);
                    let value = row.and_then(|row| row.count(name));
                    let given = self.upstream.given.get(&key).map_or(&[][..], Vec::as_slice);
                    if self.upstream.unsynced.contains(&key) {
                        assert!(value.is_none_or(|value| given.contains(&value)), "{key:?}");
                    } else {
                        assert_eq!(value, given.last().copied(), "{key:?} {given:?}");
                    }
                    found += usize::from(value.is_some());
                }
                // Visible from the end of the day for seven days, if the island was public.
                let was_public =
                    (day + 1..=day + 7).all(|later| self.upstream.is_public(number, later));
                let is_due = day >= FIRST_DAY && day + 8 < today && was_public;
                if is_due && self.upstream.has_data(number, day) {
                    assert!(
                        row.is_some(),
                        "island {number} of {} is missing",
                        UtcDay(day)
                    );
                }
            }
        }
        found
    }
}

fn open(scratch: &Scratch, options: Options, now: UnixSeconds) -> Collector {
    let (dataset, state) = (scratch.path().join("dataset"), scratch.path().join("state"));
    std::fs::create_dir_all(&state).unwrap();
    Collector::open(&dataset, &state, options, now).unwrap()
}

fn upstream(seed: u64, islands: u64, faults: u64) -> Upstream {
    Upstream {
        seed,
        islands,
        page: 40,
        faults,
        requests: 0,
        given: BTreeMap::new(),
        unsynced: BTreeSet::new(),
    }
}

#[test]
fn every_visible_day_is_collected_with_its_last_values() {
    let slow = std::env::var_os("IM_TEST_SLOW").is_some();
    let (seeds, days) = if slow { (6, 30) } else { (2, 14) };
    for seed in 0..seeds {
        let mut run = Run::new(upstream(seed, 150, 4), false);
        let end = UnixSeconds(run.now.0 + days * DAY_SECONDS);
        while run.now < end {
            let hours = 1 + (hash(&[seed, 9, run.now.0.unsigned_abs()]) % 60).cast_signed();
            let until = UnixSeconds((run.now.0 + hours * 3600).min(end.0));
            run.advance(until, 60);
            run.crash();
        }
        let found = run.compare();
        assert!(found > 1_000, "{found} values");
    }
}

#[test]
fn one_run_collects_everything_and_the_next_one_asks_for_nothing() {
    let mut run = Run::new(upstream(3, 120, 0), true);
    let end = UnixSeconds(run.now.0 + DAY_SECONDS);
    run.advance(end, 1);
    assert!(run.now < end, "the run must end by itself");
    let requests = run.upstream.requests;
    let public = (0..120)
        .filter(|number| run.upstream.is_public(*number, FIRST_DAY))
        .count() as u64;
    // Every island once; 3 pages, 2 for the genres, the platform, and 3 live.
    let pages = public.div_ceil(40);
    assert_eq!(requests, public + pages + 2 + 1 + 3);
    assert!(run.compare() > 100);
    let daily = || -> Vec<_> {
        let folder = run.scratch.path().join("dataset/daily");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        files
            .iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect()
    };
    let before = daily();
    let mut again = open(&run.scratch, run.options, run.now);
    assert_eq!(again.next(run.now), Next::Done);
    again.merge(run.now).unwrap();
    assert_eq!(daily(), before);
    let live: Vec<_> = std::fs::read_dir(run.scratch.path().join("dataset/live"))
        .unwrap()
        .collect();
    assert_eq!(live.len(), 1);
}

#[test]
fn a_clock_that_is_set_back_or_forward_loses_nothing() {
    let mut run = Run::new(upstream(5, 60, 2), false);
    for step in [-7_200, 3_600, -40_000, 90_000, -90_000, 10] {
        run.advance(UnixSeconds(run.now.0 + DAY_SECONDS), 60);
        run.now.0 += step;
        run.crash();
    }
    run.advance(UnixSeconds(run.now.0 + 2 * DAY_SECONDS), 60);
    run.validate();
    assert!(run.compare() > 500);
}
