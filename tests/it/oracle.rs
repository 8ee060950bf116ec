//! Oracle: the response that CONTRACT requires, computed in the simplest way.
//!
//! In: a dataset in memory, a path and query. Out: the body, or the error's status and code.
//! Written from the contract alone; shares only the list of paths with the crate under test, and keeps no state.

use serde_json::Map;

use crate::oracle_query::{READER, filter, integer, once, search};
pub(crate) use crate::plain::SORTS as COUNTS;
use crate::plain::{Pairs, has_shape};
use crate::prelude::*;

/// The three decimal columns after them.
pub(crate) const DECIMALS: [&str; 3] = ["averageMinutesPerPlayer", "retentionD1", "retentionD7"];

pub(crate) const BAD: Refusal = (400, "bad_request");
pub(crate) const MISSING: Refusal = (404, "not_found");
pub(crate) const NOT_READY: Refusal = (503, "not_ready");

/// Status and `error.code`.
pub(crate) type Refusal = (u16, &'static str);
pub(crate) type Verdict = Result<Value, Refusal>;

/// A row of islands.csv.
pub(crate) struct Island {
    pub(crate) title: String,
    pub(crate) creator: Option<String>,
    pub(crate) created_in: Option<&'static str>,
    pub(crate) tags: Vec<String>,
}

/// A row of creators.csv: the name; followers, following, lifetime plays.
pub(crate) type Profile = (Option<String>, [Option<u64>; 3]);

/// A row of a daily file; decimals as text.
#[derive(Clone, Default)]
pub(crate) struct Row {
    pub(crate) counts: [Option<u64>; 6],
    pub(crate) decimals: [Option<String>; 3],
}

/// A dataset and the time of its publish. Islands by code, creators by slug, days by date.
pub(crate) struct World {
    pub(crate) generated_at: &'static str,
    pub(crate) base_url: &'static str,
    pub(crate) islands: BTreeMap<String, Island>,
    pub(crate) creators: Option<BTreeMap<String, Profile>>,
    pub(crate) daily: BTreeMap<String, BTreeMap<String, Row>>,
    pub(crate) ccu: BTreeMap<String, BTreeMap<String, Option<u64>>>,
    pub(crate) live: BTreeMap<u64, BTreeMap<String, Option<u64>>>,
    pub(crate) platform: Option<Vec<(u64, Option<u64>)>>,
}

/// The members of each body in the order of CONTRACT, each followed by those of its value; those of a row in brackets.
pub(crate) const ORDERS: &str = "
/v1 | generatedAt version counts islands creators ccuHistories rankings new endpoints docs license META
/v1/health | status version payloads islands creators ccu rankings new live intraday lastPublish META
/v1/islands | islands [ISLAND] META PAGE
/v1/islands/{code} | island ISLAND series [date METRICS] META
/v1/islands/{code}/ccu | code ccu META
/v1/creators | creators [CREATOR] META PAGE
/v1/creators/{slug} | creator CREATOR profile name followers following lifetimePlays islands [ISLAND] META
/v1/live | time resolutionSeconds players islands [code title players] META
/v1/live/intraday | resolutionSeconds points META
/v1/rankings | days latest META
/v1/rankings/{date} | date previousDate ranking [rank delta previousRank code title creator createdIn peakCCU] META
/v1/new | days latest META
/v1/new/{date} | date islands [ISLAND] META
/dumps/index.json | generatedAt license licenseUrl credit notice files [file bytes sha256 modified mediaType]
";
/// The words in capitals, which may contain later ones.
pub(crate) const GROUPS: &str = "
META | meta generatedAt
PAGE | total hasMore limit offset
CREATOR | slug islandCount COUNTS
ISLAND | code title creator createdIn tags firstSeen lastSeen date METRICS
METRICS | COUNTS averageMinutesPerPlayer retentionD1 retentionD7
COUNTS | peakCCU uniquePlayers minutesPlayed favorites plays recommendations
";

/// Compares values in the requested direction, nulls last.
pub(crate) fn by_value(value: Option<u64>, ascending: bool) -> (bool, u64) {
    let number = value.unwrap_or(0);
    (
        value.is_none(),
        if ascending { number } else { u64::MAX - number },
    )
}

/// The sum of the values that are not null; null if all are.
pub(crate) fn sum(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values
        .flatten()
        .fold(None, |total, value| Some(total.unwrap_or(0) + value))
}

fn add_metrics(body: &mut Map<String, Value>, row: &Row) {
    for (name, count) in COUNTS.iter().zip(row.counts) {
        body.insert((*name).to_owned(), json!(count));
    }
    for (name, decimal) in DECIMALS.iter().zip(&row.decimals) {
        let number: Option<f64> = decimal.as_ref().map(|text| text.parse().unwrap());
        body.insert((*name).to_owned(), json!(number));
    }
}

fn page(pairs: &Pairs, name: &str, rows: Vec<Value>, t: &str) -> Verdict {
    let limit = integer(pairs, "limit", 50, (1, 200))?;
    let offset = integer(pairs, "offset", 0, (0, u64::MAX))?;
    let total = rows.len() as u64;
    let has_more = u128::from(offset) + u128::from(limit) < u128::from(total);
    let skip = usize::try_from(offset).unwrap_or(usize::MAX);
    let shown: Vec<_> = rows
        .into_iter()
        .skip(skip)
        .take(usize::try_from(limit).unwrap())
        .collect();
    let meta = json!({"generatedAt": t, "total": total, "hasMore": has_more,
        "limit": limit, "offset": offset});
    Ok(json!({name: shown, "meta": meta}))
}

impl World {
    /// The response to `GET target` with a valid key and quota left.
    pub(crate) fn answer(&self, target: &str) -> Verdict {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let segments: Option<Vec<String>> = path
            .split('/')
            .skip(1)
            .map(|segment| READER.decode(segment, false))
            .collect();
        let segments = segments.ok_or(BAD)?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let known = match segments[..] {
            ["v1"] => true,
            ["v1", word] => {
                ["health", "islands", "creators", "live", "rankings", "new"].contains(&word)
            }
            ["v1", "live", word] => word == "intraday",
            ["v1", "islands" | "creators" | "rankings" | "new", word] => !word.is_empty(),
            ["v1", "islands", _, word] => word == "ccu",
            _ => false,
        };
        if !known {
            return Err(MISSING);
        }
        if segments[1..] == ["health"] {
            return Ok(self.health());
        }
        let pairs = READER.pairs(Some(query)).ok_or(BAD)?;
        match segments[1..] {
            [] => Ok(self.index()),
            ["islands"] => self.island_list(&pairs),
            ["islands", code] => self.island(code),
            ["islands", code, _] => self.history(code),
            ["creators"] => self.creator_list(&pairs),
            ["creators", slug] => self.creator(slug),
            ["live"] => self.live_snapshot(),
            ["live", _] => self.intraday(),
            ["rankings", date] => Ok(self.ranking(&self.held_day(date)?)),
            ["new", date] => Ok(self.newcomers(&self.held_day(date)?)),
            ["rankings" | "new"] => self.day_list(),
            _ => unreachable!("{path} has no answer here"),
        }
    }

    pub(crate) fn meta(&self) -> Value {
        json!({"generatedAt": self.generated_at})
    }

    /// Every day with a file, oldest first.
    pub(crate) fn days(&self) -> Vec<String> {
        let days: BTreeSet<_> = self.daily.keys().chain(self.ccu.keys()).cloned().collect();
        days.into_iter().collect()
    }

    /// An island's row of a day: that of the daily file, else the long-run peak alone.
    pub(crate) fn row(&self, code: &str, day: &str) -> Option<Row> {
        if let Some(row) = self.daily.get(day).and_then(|rows| rows.get(code)) {
            return Some(row.clone());
        }
        let peak = self.ccu.get(day)?.get(code)?;
        let mut row = Row::default();
        row.counts[0] = *peak;
        Some(row)
    }

    /// A count of an island on a day; null without a day.
    pub(crate) fn count(&self, code: &str, day: Option<&str>, which: usize) -> Option<u64> {
        self.row(code, day?)?.counts[which]
    }

    pub(crate) fn days_of(&self, code: &str) -> Vec<String> {
        self.days()
            .into_iter()
            .filter(|day| self.row(code, day).is_some())
            .collect()
    }

    pub(crate) fn codes(&self) -> Vec<&str> {
        self.islands.keys().map(String::as_str).collect()
    }

    pub(crate) fn summary(&self, code: &str, day: Option<&str>) -> Value {
        let island = &self.islands[code];
        let seen = self.days_of(code);
        let mut body = json!({"code": code, "title": island.title, "creator": island.creator,
            "createdIn": island.created_in, "tags": island.tags,
            "firstSeen": seen.first(), "lastSeen": seen.last(), "date": day});
        let row = day.and_then(|day| self.row(code, day)).unwrap_or_default();
        add_metrics(body.as_object_mut().unwrap(), &row);
        body
    }

    fn index(&self) -> Value {
        let histories = self
            .codes()
            .into_iter()
            .filter(|code| !self.peaks(code).is_empty());
        let counts = json!({"islands": self.islands.len(), "creators": self.slugs().len(),
            "ccuHistories": histories.count(), "rankings": self.days().len(),
            "new": self.days().len()});
        let endpoints = Endpoint::API_PATHS.iter();
        let endpoints: Vec<String> = endpoints.map(|path| format!("GET {path}")).collect();
        json!({"generatedAt": self.generated_at, "version": "v1", "counts": counts,
            "endpoints": endpoints, "docs": format!("{}/docs", self.base_url),
            "license": "CC-BY-4.0", "meta": self.meta()})
    }

    fn health(&self) -> Value {
        let days = !self.days().is_empty();
        let live = !self.live.is_empty();
        let intraday = live || self.platform.is_some();
        let status = if days && live && intraday {
            "ok"
        } else {
            "not_ready"
        };
        let payloads = json!({"islands": true, "creators": true, "ccu": days, "rankings": days,
            "new": days, "live": live, "intraday": intraday});
        json!({"status": status, "version": "v1", "payloads": payloads,
            "lastPublish": self.generated_at, "meta": self.meta()})
    }

    fn island_list(&self, pairs: &Pairs) -> Verdict {
        let sort = once(pairs, "sort")?.unwrap_or_else(|| "peakCCU".to_owned());
        let which = COUNTS.iter().position(|name| *name == sort).ok_or(BAD)?;
        let ascending = match once(pairs, "order")?.as_deref() {
            None | Some("desc") => false,
            Some("asc") => true,
            Some(_) => return Err(BAD),
        };
        let created_in = once(pairs, "createdIn")?;
        let created_in = created_in.as_deref();
        if !matches!(created_in, None | Some("uefn" | "creative")) {
            return Err(BAD);
        }
        let tag = filter(pairs, "tag")?;
        let creator = filter(pairs, "creator")?;
        let q = search(pairs)?;
        let days = self.days();
        let latest = days.last().map(String::as_str);
        let mut codes = self.codes();
        codes.retain(|code| {
            let island = &self.islands[*code];
            tag.as_ref().is_none_or(|tag| island.tags.contains(tag))
                && (creator.is_none() || island.creator == creator)
                && created_in.is_none_or(|tool| island.created_in == Some(tool))
                && q.as_ref()
                    .is_none_or(|q| READER.fold(&island.title).contains(q))
        });
        codes.sort_by_key(|code| (by_value(self.count(code, latest, which), ascending), *code));
        let rows = codes
            .iter()
            .map(|code| self.summary(code, latest))
            .collect();
        page(pairs, "islands", rows, self.generated_at)
    }

    /// A well-formed code of a tracked island.
    fn tracked(&self, code: &str) -> Result<(), Refusal> {
        if !has_shape(code, "0000-0000-0000") {
            return Err(BAD);
        }
        if self.islands.contains_key(code) {
            Ok(())
        } else {
            Err(MISSING)
        }
    }

    fn island(&self, code: &str) -> Verdict {
        self.tracked(code)?;
        let mut series = Vec::new();
        for (day, rows) in &self.daily {
            if let Some(row) = rows.get(code) {
                let mut point = json!({"date": day});
                add_metrics(point.as_object_mut().unwrap(), row);
                series.push(point);
            }
        }
        let mut island = self.summary(code, self.days().last().map(String::as_str));
        island["series"] = json!(series);
        Ok(json!({"island": island, "meta": self.meta()}))
    }

    fn peaks(&self, code: &str) -> Vec<(String, u64)> {
        let days = self.days().into_iter();
        days.filter_map(|day| Some((day.clone(), self.count(code, Some(&day), 0)?)))
            .collect()
    }

    fn history(&self, code: &str) -> Verdict {
        self.tracked(code)?;
        if self.days().is_empty() {
            return Err(NOT_READY);
        }
        Ok(json!({"code": code, "ccu": self.peaks(code), "meta": self.meta()}))
    }

    /// Every creator, by slug.
    pub(crate) fn slugs(&self) -> BTreeSet<&str> {
        let makers = self
            .islands
            .values()
            .filter_map(|island| island.creator.as_deref());
        let profiles = self
            .creators
            .iter()
            .flatten()
            .map(|(slug, _)| slug.as_str());
        makers.chain(profiles).collect()
    }

    fn islands_of(&self, slug: &str) -> Vec<&str> {
        let mut codes = self.codes();
        codes.retain(|code| self.islands[*code].creator.as_deref() == Some(slug));
        codes
    }

    fn creator_sum(&self, slug: &str, which: usize) -> Option<u64> {
        let days = self.days();
        let latest = days.last().map(String::as_str);
        sum(self
            .islands_of(slug)
            .iter()
            .map(|code| self.count(code, latest, which)))
    }

    fn aggregate(&self, slug: &str) -> Value {
        let mut body = json!({"slug": slug, "islandCount": self.islands_of(slug).len()});
        for (which, name) in COUNTS.iter().enumerate() {
            body[name] = json!(self.creator_sum(slug, which));
        }
        body
    }

    fn creator_list(&self, pairs: &Pairs) -> Verdict {
        let q = search(pairs)?;
        let mut slugs: Vec<_> = self.slugs().into_iter().collect();
        slugs.retain(|slug| q.as_ref().is_none_or(|q| READER.fold(slug).contains(q)));
        slugs.sort_by_key(|slug| (by_value(self.creator_sum(slug, 0), false), *slug));
        let rows = slugs.iter().map(|slug| self.aggregate(slug)).collect();
        page(pairs, "creators", rows, self.generated_at)
    }

    fn creator(&self, slug: &str) -> Verdict {
        if !self.slugs().contains(slug) {
            return Err(MISSING);
        }
        let profile = self
            .creators
            .as_ref()
            .and_then(|creators| creators.get(slug));
        let (name, [followers, following, plays]) = profile.cloned().unwrap_or_default();
        let days = self.days();
        let latest = days.last().map(String::as_str);
        let mut codes = self.islands_of(slug);
        codes.sort_by_key(|code| (by_value(self.count(code, latest, 0), false), *code));
        let islands: Vec<_> = codes
            .iter()
            .map(|code| self.summary(code, latest))
            .collect();
        let mut body = self.aggregate(slug);
        body["profile"] = json!({"name": name, "followers": followers, "following": following,
            "lifetimePlays": plays});
        body["islands"] = json!(islands);
        Ok(json!({"creator": body, "meta": self.meta()}))
    }
}
