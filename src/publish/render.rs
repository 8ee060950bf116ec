//! The JSON of every answer (CONTRACT section 4). The only place that names their members.

use serde::Serialize;

use crate::calendar::UnixSeconds;
use crate::dataset::{Island, Metrics, Profile};
use crate::model::SortField;
use crate::snapshot::{Packed, Readiness, Stamp};

/// What the index lists, in the order of SPEC section 4.
pub const ENDPOINTS: [&str; 13] = [
    "GET /v1",
    "GET /v1/health",
    "GET /v1/islands",
    "GET /v1/islands/{code}",
    "GET /v1/islands/{code}/ccu",
    "GET /v1/creators",
    "GET /v1/creators/{slug}",
    "GET /v1/live",
    "GET /v1/live/intraday",
    "GET /v1/rankings",
    "GET /v1/rankings/{date}",
    "GET /v1/new",
    "GET /v1/new/{date}",
];

/// Seconds between two steps of the live files.
const RESOLUTION_SECONDS: u32 = 600;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    generated_at: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetricMembers {
    #[serde(rename = "peakCCU")]
    peak_ccu: Option<u64>,
    unique_players: Option<u64>,
    minutes_played: Option<u64>,
    favorites: Option<u64>,
    plays: Option<u64>,
    recommendations: Option<u64>,
    average_minutes_per_player: Option<f64>,
    retention_d1: Option<f64>,
    retention_d7: Option<f64>,
}

impl From<&Metrics> for MetricMembers {
    fn from(metrics: &Metrics) -> MetricMembers {
        MetricMembers {
            peak_ccu: metrics.count(SortField::PeakCcu),
            unique_players: metrics.count(SortField::UniquePlayers),
            minutes_played: metrics.count(SortField::MinutesPlayed),
            favorites: metrics.count(SortField::Favorites),
            plays: metrics.count(SortField::Plays),
            recommendations: metrics.count(SortField::Recommendations),
            average_minutes_per_player: metrics.average_minutes_per_player(),
            retention_d1: metrics.retention_d1(),
            retention_d7: metrics.retention_d7(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SummaryHead<'a> {
    code: String,
    title: &'a str,
    creator: Option<&'a str>,
    created_in: Option<&'a str>,
    tags: &'a [Box<str>],
    first_seen: Option<&'a str>,
    last_seen: Option<&'a str>,
    date: Option<&'a str>,
}

/// Writes a value's JSON.
fn json(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("plain values serialize, and memory takes them");
}

/// Writes two objects as one with the members of both.
fn joined(out: &mut Vec<u8>, head: &impl Serialize, tail: &impl Serialize) {
    json(out, head);
    reopen(out);
    let brace = out.len();
    json(out, tail);
    out.remove(brace);
}

/// Turns the object just written into one that takes more members.
fn reopen(out: &mut Vec<u8>) {
    out.pop();
    out.push(b',');
}

/// Writes the last member, `meta`, and closes the body.
fn close(out: &mut Vec<u8>, published: UnixSeconds) {
    out.extend_from_slice(b",\"meta\":");
    json(out, &Meta { generated_at: Some(published.to_string()) });
    out.push(b'}');
}

/// An array of items that a closure writes one by one.
fn array<T>(out: &mut Vec<u8>, items: impl Iterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// An island and the days it was seen.
pub(crate) struct Seen<'a> {
    pub(crate) island: &'a Island,
    pub(crate) first: Option<&'a str>,
    pub(crate) last: Option<&'a str>,
}

/// An island summary with the metrics of `date`.
pub(crate) fn summary(out: &mut Vec<u8>, seen: &Seen<'_>, date: Option<&str>, metrics: &Metrics) {
    let island = seen.island;
    let head = SummaryHead {
        code: island.code.to_string(),
        title: &island.title,
        creator: island.creator.as_ref().map(|slug| slug.as_str()),
        created_in: island.created_in.map(|tool| tool.as_str()),
        tags: &island.tags,
        first_seen: seen.first,
        last_seen: seen.last,
        date,
    };
    joined(out, &head, &MetricMembers::from(metrics));
}

/// `/v1/islands/{code}`, from the island's summary and its daily rows, oldest first.
pub(crate) fn island<'a>(
    summary: &[u8],
    series: impl Iterator<Item = (&'a str, Metrics)>,
    published: UnixSeconds,
) -> Vec<u8> {
    #[derive(Serialize)]
    struct Date<'a> {
        date: &'a str,
    }
    let mut out = b"{\"island\":".to_vec();
    out.extend_from_slice(summary);
    reopen(&mut out);
    out.extend_from_slice(b"\"series\":");
    array(&mut out, series, |out, (date, metrics)| {
        joined(out, &Date { date }, &MetricMembers::from(&metrics));
    });
    out.push(b'}');
    close(&mut out, published);
    out
}

/// `/v1/islands/{code}/ccu`
pub(crate) fn ccu<'a>(
    code: &str,
    peaks: impl Iterator<Item = (&'a str, u64)>,
    published: UnixSeconds,
) -> Vec<u8> {
    let mut out = b"{\"code\":".to_vec();
    json(&mut out, &code);
    out.extend_from_slice(b",\"ccu\":");
    array(&mut out, peaks, |out, pair| json(out, &pair));
    close(&mut out, published);
    out
}

/// The sums over a creator's islands. A sum of counts may pass 2^64, so they are wider.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Aggregate {
    pub(crate) slug: String,
    pub(crate) island_count: u64,
    #[serde(flatten, serialize_with = "sums")]
    pub(crate) sums: [Option<u128>; 6],
}

fn sums<S: serde::Serializer>(sums: &[Option<u128>; 6], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(SortField::ALL.iter().map(|field| (field.as_str(), sums[*field as usize])))
}

/// A creator's row in lists.
pub(crate) fn creator_row(aggregate: &Aggregate) -> Vec<u8> {
    let mut out = Vec::new();
    json(&mut out, aggregate);
    out
}

/// `/v1/creators/{slug}`, from its row, its profile and its islands' rows.
pub(crate) fn creator<'a>(
    row: &[u8],
    profile: Option<&Profile>,
    islands: impl Iterator<Item = &'a [u8]>,
    published: UnixSeconds,
) -> Vec<u8> {
    #[derive(Default, Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Members<'a> {
        name: Option<&'a str>,
        followers: Option<u64>,
        following: Option<u64>,
        lifetime_plays: Option<u64>,
    }
    let members = profile.map_or_else(Members::default, |profile| Members {
        name: profile.name.as_deref(),
        followers: profile.followers,
        following: profile.following,
        lifetime_plays: profile.lifetime_plays,
    });
    let mut out = b"{\"creator\":".to_vec();
    out.extend_from_slice(row);
    reopen(&mut out);
    out.extend_from_slice(b"\"profile\":");
    json(&mut out, &members);
    out.extend_from_slice(b",\"islands\":");
    array(&mut out, islands, |out, row| out.extend_from_slice(row));
    out.push(b'}');
    close(&mut out, published);
    out
}

/// An island's place in a ranking.
pub(crate) struct Place<'a> {
    pub(crate) rank: u32,
    pub(crate) previous_rank: Option<u32>,
    pub(crate) island: &'a Island,
    pub(crate) peak_ccu: u64,
}

/// `/v1/rankings/{date}`
pub(crate) fn ranking<'a>(
    date: &str,
    previous_date: Option<&str>,
    places: impl Iterator<Item = Place<'a>>,
    published: UnixSeconds,
) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Head<'a> {
        date: &'a str,
        previous_date: Option<&'a str>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Members<'a> {
        rank: u32,
        delta: Option<i64>,
        previous_rank: Option<u32>,
        code: String,
        title: &'a str,
        creator: Option<&'a str>,
        created_in: Option<&'a str>,
        #[serde(rename = "peakCCU")]
        peak_ccu: u64,
    }
    let mut out = Vec::new();
    json(&mut out, &Head { date, previous_date });
    reopen(&mut out);
    out.extend_from_slice(b"\"ranking\":");
    array(&mut out, places, |out, place| {
        let members = Members {
            rank: place.rank,
            delta: place.previous_rank.map(|previous| i64::from(previous) - i64::from(place.rank)),
            previous_rank: place.previous_rank,
            code: place.island.code.to_string(),
            title: &place.island.title,
            creator: place.island.creator.as_ref().map(|slug| slug.as_str()),
            created_in: place.island.created_in.map(|tool| tool.as_str()),
            peak_ccu: place.peak_ccu,
        };
        json(out, &members);
    });
    close(&mut out, published);
    out
}

/// `/v1/new/{date}`, from the rows of the islands.
pub(crate) fn new_islands<'a>(
    date: &str,
    rows: impl Iterator<Item = &'a [u8]>,
    published: UnixSeconds,
) -> Vec<u8> {
    let mut out = b"{\"date\":".to_vec();
    json(&mut out, &date);
    out.extend_from_slice(b",\"islands\":");
    array(&mut out, rows, |out, row| out.extend_from_slice(row));
    close(&mut out, published);
    out
}

/// `/v1/rankings` and `/v1/new`, from the held days, oldest first.
pub(crate) fn days(day_texts: &[String], published: UnixSeconds) -> Vec<u8> {
    #[derive(Serialize)]
    struct Days<'a> {
        days: Vec<&'a str>,
        latest: Option<&'a str>,
    }
    let days: Vec<&str> = day_texts.iter().rev().map(String::as_str).collect();
    let mut out = Vec::new();
    json(&mut out, &Days { latest: days.first().copied(), days });
    out.pop();
    close(&mut out, published);
    out
}

/// `/v1/live`, from islands and players in final order.
pub(crate) fn live(
    time: UnixSeconds,
    players: u128,
    rows: &[(&Island, u64)],
    published: UnixSeconds,
) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        time: i64,
        resolution_seconds: u32,
        players: u128,
    }
    #[derive(Serialize)]
    struct Row<'a> {
        code: String,
        title: &'a str,
        players: u64,
    }
    let mut out = Vec::new();
    json(&mut out, &Head { time: time.0, resolution_seconds: RESOLUTION_SECONDS, players });
    reopen(&mut out);
    out.extend_from_slice(b"\"islands\":");
    array(&mut out, rows.iter(), |out, (island, players)| {
        json(out, &Row { code: island.code.to_string(), title: &island.title, players: *players });
    });
    close(&mut out, published);
    out
}

/// `/v1/live/intraday`
pub(crate) fn intraday(points: &[(i64, u128)], published: UnixSeconds) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Members<'a> {
        resolution_seconds: u32,
        points: &'a [(i64, u128)],
    }
    let mut out = Vec::new();
    json(&mut out, &Members { resolution_seconds: RESOLUTION_SECONDS, points });
    out.pop();
    close(&mut out, published);
    out
}

/// The text around the rows of list pages, its pieces ended by NUL: islands, then creators.
pub(crate) fn frames(published: UnixSeconds) -> Vec<u8> {
    let pieces = |name: &str| {
        format!(
            "{{\"{name}\":[\0],\"meta\":{{\"generatedAt\":\"{published}\",\"total\":\0,\"hasMore\":\0,\"limit\":\0,\"offset\":\0}}}}"
        )
    };
    format!("{}\0{}", pieces("islands"), pieces("creators")).into_bytes()
}

/// `/v1`
pub(crate) fn index(stamp: Stamp, base_url: &str) -> Packed {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Counts {
        islands: u64,
        creators: u64,
        ccu_histories: u64,
        rankings: u64,
        new: u64,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Index<'a> {
        generated_at: String,
        version: &'a str,
        counts: Counts,
        endpoints: [&'a str; 13],
        docs: String,
        license: &'a str,
        meta: Meta,
    }
    let [islands, creators, ccu_histories, rankings, new] = stamp.counts;
    let generated_at = stamp.published.to_string();
    let mut out = Vec::new();
    let index = Index {
        generated_at: generated_at.clone(),
        version: "v1",
        counts: Counts { islands, creators, ccu_histories, rankings, new },
        endpoints: ENDPOINTS,
        docs: format!("{base_url}/docs"),
        license: "CC-BY-4.0",
        meta: Meta { generated_at: Some(generated_at) },
    };
    json(&mut out, &index);
    Packed::new(out)
}

/// `/v1/health`
pub(crate) fn health(ready: Readiness, published: Option<UnixSeconds>) -> Packed {
    #[derive(Serialize)]
    struct Payloads {
        islands: bool,
        creators: bool,
        ccu: bool,
        rankings: bool,
        new: bool,
        live: bool,
        intraday: bool,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Health<'a> {
        status: &'a str,
        version: &'a str,
        payloads: Payloads,
        last_publish: Option<String>,
        meta: Meta,
    }
    let Readiness { islands, creators, ccu, rankings, new, live, intraday } = ready;
    let all = islands && creators && ccu && rankings && new && live && intraday;
    let last_publish = published.map(|published| published.to_string());
    let health = Health {
        status: if all { "ok" } else { "not_ready" },
        version: "v1",
        payloads: Payloads { islands, creators, ccu, rankings, new, live, intraday },
        meta: Meta { generated_at: last_publish.clone() },
        last_publish,
    };
    let mut out = Vec::new();
    json(&mut out, &health);
    Packed::new(out)
}
