//! A virtual upstream of tests. Everything follows from the seed, the island and the time, and it records
//! what it gave.

#![expect(
    clippy::cast_sign_loss,
    reason = "a simulation in numbers far below any limit"
)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::reply::RawReply;
use super::request::Request;
use super::wire::STEP_SECONDS;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::model::IslandCode;

/// First day of simulations. Long ago: a dataset must not have days after that of this machine's clock.
pub(super) const FIRST_DAY: i32 = 20_000;

/// An island's metric on a day: island, day, number of the metric.
pub(super) type Key = (u64, i32, usize);

/// Pseudorandom number of its inputs.
pub(super) fn hash(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9E37_79B9_7F4A_7C15, |sum, part| {
        let mixed = (sum ^ part).wrapping_mul(0xD1B5_4A32_D192_ED03);
        mixed ^ (mixed >> 31)
    })
}

pub(super) fn code(number: u64) -> IslandCode {
    IslandCode::from_number(number * 7_919 + 1_000).unwrap()
}

pub(super) fn number(code: IslandCode) -> u64 {
    (code.number() - 1_000) / 7_919
}

pub(super) struct VirtualUpstream {
    pub(super) seed: u64,
    pub(super) islands: u64,
    /// Rows of a page of the catalogue.
    pub(super) page: usize,
    /// Percentage of requests that fail.
    pub(super) faults: u64,
    pub(super) requests: u64,
    /// Values given, in order.
    pub(super) given: BTreeMap<Key, Vec<u64>>,
    /// Those of them that a crash would take.
    pub(super) unsynced: BTreeSet<Key>,
    /// Those that a crash may have taken, until they are given again.
    pub(super) uncertain: BTreeSet<Key>,
}

impl VirtualUpstream {
    pub(super) fn new(seed: u64, islands: u64, faults: u64) -> VirtualUpstream {
        VirtualUpstream {
            seed,
            islands,
            page: 40,
            faults,
            requests: 0,
            given: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            uncertain: BTreeSet::new(),
        }
    }

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
    pub(super) fn is_public(&self, number: u64, day: i32) -> bool {
        let is_away = hash(&[self.seed, 2, number, (day / 3) as u64]).is_multiple_of(40);
        day >= self.appears(number) && !is_away
    }

    pub(super) fn has_data(&self, number: u64, day: i32) -> bool {
        if day < self.appears(number) {
            return false;
        }
        match hash(&[self.seed, 3, number]) % 10 {
            0..3 => true,
            3..5 => hash(&[self.seed, 4, number, (day / 2) as u64]).is_multiple_of(2),
            _ => hash(&[self.seed, 5, number, day as u64]).is_multiple_of(100),
        }
    }

    /// The value as of a day: provisional on the day itself, revised once on the day after the next.
    fn value(&self, number: u64, day: i32, field: usize, today: i32) -> Option<u64> {
        if day > today || !self.has_data(number, day) {
            return None;
        }
        let revision = if day == today {
            2
        } else {
            u64::from(
                today > day + 2 && hash(&[self.seed, 6, number, day as u64]).is_multiple_of(5),
            )
        };
        let value = hash(&[self.seed, 7, number, day as u64, field as u64, revision]);
        // The first metric is always there; others are null at times, in a revision too.
        (field == 0 || !value.is_multiple_of(7)).then_some(value % 10_000)
    }

    /// Time from which the values of a step are there: 30 to 40 minutes after it began.
    pub(super) fn available(&self, step: UnixSeconds) -> UnixSeconds {
        let late = hash(&[self.seed, 9, step.0.unsigned_abs()]) % 600;
        UnixSeconds(step.0 + 1800 + late.cast_signed())
    }

    /// The players of an island in a step.
    pub(super) fn players(&self, number: u64, step: UnixSeconds) -> u64 {
        5 + hash(&[self.seed, 10, number, step.0.unsigned_abs()]) % 1000
    }

    /// Answers a request at the upstream's time `now`.
    pub(super) fn reply(
        &mut self,
        request: &Request,
        now: UnixSeconds,
    ) -> Result<RawReply, String> {
        self.requests += 1;
        let roll = hash(&[self.seed, 8, self.requests]);
        if roll % 100 < self.faults {
            return fault(roll / 100);
        }
        let today = now.day();
        let body = match request {
            Request::Catalogue { after } => self.catalogue(after.as_deref(), now),
            Request::Genres => json!({"data": [{"slug": "party"}]}),
            Request::Ranking { .. } => {
                let rows = (0..self.islands / 10).map(
                    |number| json!({"islandCode": code(number).to_string(), "rank": number + 1}),
                );
                let rows: Vec<_> = rows.collect();
                json!({"data": rows, "meta": {"snapshotAvailable": true}})
            }
            Request::Platform(times) => {
                // Two hours at most: platform.csv would take most of the time of a simulation.
                let from = UnixSeconds(times.start.0.max(now.0 / 600 * 600 - 7200));
                let points = self.steps((from, times.end), now, |step| step.0.unsigned_abs() / 600);
                json!({"inMatchPeakCCU": points, "inClientPeakCCU": []})
            }
            Request::Days(code, times) => {
                if times.start.day().0 < today.0 - 7 {
                    return Ok(reply(400, "{\"errorCode\":\"bad_request\"}"));
                }
                if !self.is_public(number(*code), today.0) {
                    return Ok(reply(404, "{\"errorCode\":\"not_found\"}"));
                }
                self.days(number(*code), (times.start.day(), times.end.day()), today.0)
            }
            Request::Steps(code, times) => {
                let players = |step| self.players(number(*code), step);
                json!({"peakCCU": self.steps((times.start, times.end), now, players)})
            }
        };
        Ok(reply(200, &body.to_string()))
    }

    /// A series of 10-minute buckets, null until they are available.
    fn steps(
        &self,
        (from, to): (UnixSeconds, UnixSeconds),
        now: UnixSeconds,
        value: impl Fn(UnixSeconds) -> u64,
    ) -> Vec<Value> {
        let steps = (from.0 / STEP_SECONDS..to.0 / STEP_SECONDS).map(|step| step * STEP_SECONDS);
        let steps = steps.map(UnixSeconds).filter(|step| *step <= now);
        let point = |step: UnixSeconds| {
            let value = (self.available(step) <= now).then(|| value(step));
            json!({"value": value, "timestamp": step.to_string()})
        };
        steps.map(point).collect()
    }

    fn catalogue(&self, after: Option<&str>, now: UnixSeconds) -> Value {
        let today = now.day().0;
        let start: u64 = after.map_or(0, |cursor| cursor.parse().unwrap());
        let shown: Vec<u64> = (start..self.islands)
            .filter(|number| self.is_public(*number, today))
            .collect();
        let page = &shown[..shown.len().min(self.page)];
        let next = (shown.len() > page.len()).then(|| (page[page.len() - 1] + 1).to_string());
        let row = |number: &u64| {
            json!({"code": code(*number).to_string(), "title": format!("Island {number} of {}", today / 4),
                "creatorCode": format!("creator{}", number % 9), "createdIn": "UEFN", "tags": ["pvp", "a|b"]})
        };
        let mode = json!({"code": "playlist_solo", "title": "x", "tags": []});
        let rows: Vec<_> = page.iter().map(row).chain([mode]).collect();
        json!({"data": rows, "meta": {"page": {"nextCursor": next}}, "links": {"next": next}})
    }

    /// The metrics of the days, today among them: the collector must leave it out.
    fn days(&mut self, number: u64, (from, to): (UtcDay, UtcDay), today: i32) -> Value {
        let days: Vec<i32> = (from.0..=to.0.max(today)).collect();
        let mut series = |field: usize| -> Value {
            let points = days.iter().map(|&day| {
                let value = self.value(number, day, field, today);
                let key = (number, day, field);
                if let Some(value) = value.filter(|_| day < to.0) {
                    self.given.entry(key).or_default().push(value);
                    self.unsynced.insert(key);
                    self.uncertain.remove(&key);
                }
                json!({"value": value, "timestamp": format!("{}T00:00:00.000Z", UtcDay(day))})
            });
            points.collect()
        };
        json!({
            "peakCCU": series(0), "uniquePlayers": series(1), "minutesPlayed": series(2),
            "favorites": series(3), "plays": series(4), "recommendations": series(5),
            "averageMinutesPerPlayer": [], "retention": [],
        })
    }
}

fn reply(status: u16, body: &str) -> RawReply {
    RawReply {
        status,
        content_type: "application/json".to_owned(),
        body: body.as_bytes().to_vec(),
        ..RawReply::default()
    }
}

fn fault(number: u64) -> Result<RawReply, String> {
    let typed = |kind: &str, reply: RawReply| RawReply {
        content_type: kind.to_owned(),
        ..reply
    };
    match number % 7 {
        0 => Err("connection reset".to_owned()),
        1 => Ok(reply(200, "")),
        2 => Ok(typed("text/plain", reply(429, "slow down"))),
        3 => Ok(typed("text/html", reply(522, "<html>"))),
        4 => Ok(reply(200, "{\"data\":[{\"code\":")),
        5 => Ok(reply(200, "{}")),
        _ => Ok(reply(400, "{\"errorCode\":\"bad\"}")),
    }
}

/// Start of simulations: nine o'clock of the first day.
pub(super) fn start() -> UnixSeconds {
    UnixSeconds(i64::from(FIRST_DAY) * DAY_SECONDS + 9 * 3600)
}
