//! JSON of every response (CONTRACT section 4) but index, health and errors.

mod days;
mod dump_json;
mod service;

pub(crate) use days::{RankingEntry, days, intraday, live, new_islands, ranking};
pub(crate) use dump_json::DumpJsonWriter;
pub(crate) use service::page_templates;

use serde::Serialize;

use crate::calendar::UnixSeconds;
use crate::dataset::{Island, Metrics, Profile};
use crate::model::{CreatedIn, CreatorSlug, IslandCode, SortField};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    generated_at: Option<String>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProfileMembers<'a> {
    name: Option<&'a str>,
    followers: Option<u64>,
    following: Option<u64>,
    lifetime_plays: Option<u64>,
}

impl<'a> From<&'a Profile> for ProfileMembers<'a> {
    fn from(profile: &'a Profile) -> ProfileMembers<'a> {
        ProfileMembers {
            name: profile.name.as_deref(),
            followers: profile.followers,
            following: profile.following,
            lifetime_plays: profile.lifetime_plays,
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

/// Serializes a value.
fn json(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("plain values serialize, and memory takes them");
}

/// Names of the nine metrics in their order, each with its separator.
const COUNT_MEMBERS: [&str; 6] = [
    "\"peakCCU\":",
    ",\"uniquePlayers\":",
    ",\"minutesPlayed\":",
    ",\"favorites\":",
    ",\"plays\":",
    ",\"recommendations\":",
];
const DECIMAL_MEMBERS: [&str; 3] = [
    ",\"averageMinutesPerPlayer\":",
    ",\"retentionD1\":",
    ",\"retentionD7\":",
];

/// Writes the nine metrics as the last members of an object, and closes it. Written by hand, since they
/// are most of the rendered bytes.
fn metrics(out: &mut Vec<u8>, metrics: &Metrics) {
    for (member, field) in COUNT_MEMBERS.into_iter().zip(SortField::ALL) {
        out.extend_from_slice(member.as_bytes());
        count(out, metrics.count(field));
    }
    let decimals = [
        metrics.average_minutes_per_player(),
        metrics.retention_d1(),
        metrics.retention_d7(),
    ];
    for (member, decimal) in DECIMAL_MEMBERS.into_iter().zip(decimals) {
        out.extend_from_slice(member.as_bytes());
        json(out, &decimal);
    }
    out.push(b'}');
}

/// Writes a count, or null.
fn count(out: &mut Vec<u8>, count: Option<u64>) {
    let mut figures = itoa::Buffer::new();
    let text = count.map_or("null", |count| figures.format(count));
    out.extend_from_slice(text.as_bytes());
}

/// Reopens the object at the end of `out` for more members.
fn reopen(out: &mut Vec<u8>) {
    out.pop();
    out.push(b',');
}

/// Writes the last member, `meta`, and closes the body.
fn close(out: &mut Vec<u8>, published: UnixSeconds) {
    out.extend_from_slice(b",\"meta\":");
    json(
        out,
        &Meta {
            generated_at: Some(published.to_string()),
        },
    );
    out.push(b'}');
}

/// Writes an array whose items are written by a closure.
fn array<T>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// An island with the first and last day it was seen.
pub(crate) struct SeenIsland<'a> {
    pub(crate) island: &'a Island,
    pub(crate) first: Option<&'a str>,
    pub(crate) last: Option<&'a str>,
}

/// An island summary with the metrics of `date`.
pub(crate) fn summary(
    out: &mut Vec<u8>,
    seen: &SeenIsland<'_>,
    date: Option<&str>,
    metrics: &Metrics,
) {
    let island = seen.island;
    let head = SummaryHead {
        code: island.code.to_string(),
        title: &island.title,
        creator: island.creator.as_ref().map(CreatorSlug::as_str),
        created_in: island.created_in.map(CreatedIn::as_str),
        tags: &island.tags,
        first_seen: seen.first,
        last_seen: seen.last,
        date,
    };
    json(out, &head);
    reopen(out);
    self::metrics(out, metrics);
}

/// Returns the common end of the summaries of islands without metrics of `date`. Most islands have none.
pub(crate) fn null_metrics_suffix(date: Option<&str>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Date<'a> {
        date: Option<&'a str>,
    }
    let mut out = Vec::new();
    json(&mut out, &Date { date });
    reopen(&mut out);
    metrics(&mut out, &Metrics::NULL);
    out.remove(0);
    out
}

/// `/v1/islands/{code}`, from the island's summary and its daily rows, oldest first.
pub(crate) fn island<'a>(
    out: &mut Vec<u8>,
    summary: &[u8],
    series: impl Iterator<Item = (&'a str, &'a Metrics)>,
    published: UnixSeconds,
) {
    out.extend_from_slice(b"{\"island\":");
    out.extend_from_slice(summary);
    reopen(out);
    out.extend_from_slice(b"\"series\":");
    array(out, series, |out, (date, metrics)| {
        // The text of a day needs no escaping.
        out.extend_from_slice(b"{\"date\":\"");
        out.extend_from_slice(date.as_bytes());
        out.extend_from_slice(b"\",");
        self::metrics(out, metrics);
    });
    out.push(b'}');
    close(out, published);
}

/// `/v1/islands/{code}/ccu`
pub(crate) fn ccu<'a>(
    out: &mut Vec<u8>,
    code: IslandCode,
    peaks: impl Iterator<Item = (&'a str, u64)>,
    published: UnixSeconds,
) {
    out.extend_from_slice(b"{\"code\":");
    json(out, &code.to_string());
    out.extend_from_slice(b",\"ccu\":");
    array(out, peaks, |out, (date, peak)| {
        out.extend_from_slice(b"[\"");
        out.extend_from_slice(date.as_bytes());
        out.extend_from_slice(b"\",");
        count(out, Some(peak));
        out.push(b']');
    });
    close(out, published);
}

/// Totals of a creator's islands. A sum of counts may exceed 2^64, so sums are 128 bits wide.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreatorTotals {
    pub(crate) slug: String,
    pub(crate) island_count: u64,
    #[serde(flatten, serialize_with = "sums")]
    pub(crate) sums: [Option<u128>; 6],
}

fn sums<S: serde::Serializer>(sums: &[Option<u128>; 6], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        SortField::ALL
            .iter()
            .map(|field| (field.as_str(), sums[*field as usize])),
    )
}

/// Renders the list row of a creator.
pub(crate) fn creator_row(aggregate: &CreatorTotals) -> Vec<u8> {
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
    let members = profile.map_or_else(ProfileMembers::default, ProfileMembers::from);
    let mut out = b"{\"creator\":".to_vec();
    out.extend_from_slice(row);
    reopen(&mut out);
    out.extend_from_slice(b"\"profile\":");
    json(&mut out, &members);
    out.extend_from_slice(b",\"islands\":");
    array(&mut out, islands, Vec::extend_from_slice);
    out.push(b'}');
    close(&mut out, published);
    out
}
