//! A virtual upstream of tests. Everything follows from the seed, the island and the time, and it records
//! what it gave.

#![expect(
    clippy::cast_sign_loss,
    reason = "a simulation in numbers far below any limit"
)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::endpoints::{Endpoint, Request};
use super::faults_tests::{NOT_FOUND, Spell, Trouble, bucket, reply, unusable, usual};
use super::reply::Raw;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::dataset::STEP_SECONDS;
use crate::model::{IslandCode, SortField};

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
    pub(super) spells: Vec<Spell>,
    pub(super) requests: u64,
    /// Requests by endpoint.
    pub(super) requested: [u64; Endpoint::ALL.len()],
    /// Values given, in order, with the time of the last.
    pub(super) given: BTreeMap<Key, (Vec<u64>, UnixSeconds)>,
    /// Values given of days that had not ended by a clock which was set back then. They are taken back.
    pub(super) partial: BTreeMap<Key, Vec<u64>>,
    /// Days of islands that have a value, of which it gave a null or a 404 that must be believed.
    pub(super) denied: BTreeSet<(u64, i32)>,
}

impl VirtualUpstream {
    pub(super) fn new(seed: u64, islands: u64, faults: u64) -> VirtualUpstream {
        VirtualUpstream {
            seed,
            islands,
            page: 40,
            faults,
            spells: Vec::new(),
            requests: 0,
            requested: [0; Endpoint::ALL.len()],
            given: BTreeMap::new(),
            partial: BTreeMap::new(),
            denied: BTreeSet::new(),
        }
    }

    /// Counts the values of days from `today` on as partial ones: they were given before the clock was set back.
    pub(super) fn forget_since(&mut self, today: UtcDay) {
        let partial = &mut self.partial;
        self.given.retain(|key, (values, _)| {
            let is_whole = key.1 < today.0;
            if !is_whole {
                partial.entry(*key).or_default().append(values);
            }
            is_whole
        });
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

    fn is_steady(&self, number: u64) -> bool {
        hash(&[self.seed, 3, number]) % 10 < 3
    }

    pub(super) fn has_data(&self, number: u64, day: i32) -> bool {
        if day < self.appears(number) {
            return false;
        }
        match hash(&[self.seed, 3, number]) % 10 {
            _ if self.is_steady(number) => true,
            3..5 => hash(&[self.seed, 4, number, (day / 2) as u64]).is_multiple_of(2),
            _ => hash(&[self.seed, 5, number, day as u64]).is_multiple_of(100),
        }
    }

    /// The value as of a time: null until some minutes after the day, provisional until 03:00Z of the day after,
    /// and revised once on the third day.
    pub(super) fn value(
        &self,
        number: u64,
        day: i32,
        field: usize,
        now: UnixSeconds,
    ) -> Option<u64> {
        let today = now.day().0;
        if day > today || !self.has_data(number, day) {
            return None;
        }
        let late = hash(&[self.seed, 13, day as u64]) % 1800;
        let age = now.0 - UtcDay(day).end().0;
        if (0..1200 + late.cast_signed()).contains(&age) {
            return None;
        }
        let is_revised = hash(&[self.seed, 6, number, day as u64]).is_multiple_of(5);
        let revision = match age {
            ..0 => 3,
            0..10_800 => 2,
            _ => u64::from(today > day + 2 && is_revised),
        };
        let value = hash(&[self.seed, 7, number, day as u64, field as u64, revision]);
        // The first metric is always there; others are null at times, in a revision too.
        match field {
            // Islands that come and go have few players.
            0 if self.is_steady(number) => Some(1_000 + value % 1_000),
            0 => Some(5 + value % 15),
            _ => (!value.is_multiple_of(7)).then_some(value % 10_000),
        }
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
    pub(super) fn reply(&mut self, request: &Request, now: UnixSeconds) -> Raw {
        self.requests += 1;
        let endpoint = request.endpoint();
        self.requested[endpoint as usize] += 1;
        let roll = hash(&[self.seed, 8, self.requests]);
        let mut trouble = (roll % 100 < self.faults).then(|| usual(roll / 100));
        let hour = now.0.div_euclid(3600);
        let island = match request {
            Request::Days(code, _) | Request::Steps(code, _) => Some(number(*code)),
            _ => None,
        };
        trouble = trouble.or_else(|| {
            let is_in = |spell: &&Spell| {
                spell.times.contains(&now)
                    && spell.endpoint.is_none_or(|of| of == endpoint)
                    && (roll / 700).is_multiple_of(spell.one_in)
                    && hour % spell.one_hour_in == 0
                    && island.is_none_or(|number| number < spell.islands)
            };
            Some(self.spells.iter().find(is_in)?.trouble)
        });
        let is_denial = matches!(trouble, Some(Trouble::Nulls | Trouble::Missing));
        if let (true, Request::Days(code, days)) = (is_denial, request) {
            let number = number(*code);
            let days = days.start.0..days.end.0;
            let days = days.filter(|day| self.has_data(number, *day));
            let days: Vec<_> = days.map(|day| (number, day)).collect();
            self.denied.extend(days);
        }
        if let Some(raw) = trouble.and_then(unusable) {
            return raw;
        }
        let today = now.day();
        let body = match request {
            Request::Catalogue { after } => self.catalogue(after.as_deref(), trouble, now),
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
            Request::Days(code, days) => {
                if days.start.0 < today.0 - 7 {
                    return Ok(reply(400, "{\"errorCode\":\"bad_request\"}"));
                }
                if !self.is_public(number(*code), today.0) {
                    return Ok(reply(404, NOT_FOUND));
                }
                self.days(number(*code), (days.start, days.end), trouble, now)
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

    fn catalogue(&self, after: Option<&str>, trouble: Option<Trouble>, now: UnixSeconds) -> Value {
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
        let rows: Vec<_> = page.iter().map(row).chain([mode, Value::Null]).collect();
        let (rows, cursor, link) = match trouble {
            Some(Trouble::EmptyPage) => (Vec::new(), None, None),
            Some(Trouble::NoCursor) => (rows, None, Some("/islands?after=x".to_owned())),
            Some(Trouble::Short) => (rows, None, None),
            _ => (rows, next.clone(), next),
        };
        json!({"data": rows, "meta": {"page": {"nextCursor": cursor}}, "links": {"next": link}})
    }

    /// The metrics of the days, today among them: the collector must leave it out.
    fn days(
        &mut self,
        number: u64,
        (from, to): (UtcDay, UtcDay),
        trouble: Option<Trouble>,
        now: UnixSeconds,
    ) -> Value {
        let last = to.0.max(now.day().0);
        let is_absent = |day: &i32| trouble == Some(Trouble::NewestAbsent) && day + 1 >= to.0;
        let days: Vec<i32> = (from.0..=last).filter(|day| !is_absent(day)).collect();
        let mut body = json!({"averageMinutesPerPlayer": [], "retention": []});
        for (field, name) in SortField::ALL.into_iter().enumerate() {
            let mut points = Vec::new();
            for day in &days {
                let is_denied = trouble == Some(Trouble::NewestNull) && day + 1 >= to.0;
                let value = self.value(number, *day, field, now);
                let value = value.filter(|_| !is_denied);
                let (point, is_read) = bucket(value, UtcDay(*day), trouble);
                if let Some(value) = value.filter(|_| is_read && *day < to.0) {
                    let given = self.given.entry((number, *day, field));
                    let given = given.or_insert((Vec::new(), now));
                    given.0.push(value);
                    given.1 = now;
                }
                points.push(point);
            }
            match trouble {
                Some(Trouble::Renamed) => body[name.as_str().to_uppercase()] = json!(points),
                Some(Trouble::OneSeries) if field > 0 => {}
                _ => body[name.as_str()] = json!(points),
            }
            // The others are absent, so nothing of them was given.
            if trouble == Some(Trouble::OneSeries) {
                break;
            }
        }
        body
    }
}

/// Start of simulations: nine o'clock of the first day.
pub(super) fn start() -> UnixSeconds {
    UnixSeconds(i64::from(FIRST_DAY) * DAY_SECONDS + 9 * 3600)
}
