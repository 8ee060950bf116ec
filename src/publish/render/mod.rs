//! JSON of the responses about islands, creators, days and live steps (CONTRACT section 4), and of
//! the dumps. No other module of `publish` names their members. `json` is the writer of members.

mod json;

use json::{Object, json};

use crate::calendar::UnixSeconds;
use crate::dataset::{Cell, FileKind, Island, Metrics, Profile};
use crate::model::{IslandCode, SortField};

/// Seconds between two live steps.
const RESOLUTION_SECONDS: u32 = 600;

pub(crate) struct RankedIsland<'a> {
    pub(crate) island: &'a Island,
    pub(crate) peak_ccu: u64,
    /// Place on the previous day, if it has a peak on that day.
    pub(crate) previous_rank: Option<usize>,
}

/// Returns a response: the members that `write` writes, then `meta`.
fn response(published: UnixSeconds, write: impl FnOnce(Object<'_>) -> Object<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    write(Object::new(&mut out)).end_with_meta(published);
    out
}

/// Writes a row of a dump: an object with the columns of the CSV file.
pub(crate) fn dump_row<'c>(
    out: &mut Vec<u8>,
    kind: FileKind,
    cells: impl IntoIterator<Item = Cell<'c>>,
) {
    Object::new(out).members(kind.columns().0, cells).end();
}

/// Returns an island summary with the metrics of `date`. `seen` is the first and the last day on
/// which the island was seen.
pub(crate) fn summary(
    island: &Island,
    seen: Option<(&str, &str)>,
    date: Option<&str>,
    metrics: &Metrics,
) -> Vec<u8> {
    let mut out = Vec::new();
    Object::new(&mut out)
        .members(FileKind::Islands.columns().0, island.cells())
        .member("firstSeen", seen.map(|(first, _)| first))
        .member("lastSeen", seen.map(|(_, last)| last))
        .member("date", date)
        .metrics(metrics)
        .end();
    out
}

/// Returns the common end of the summaries of islands without metrics of `date`. Most islands have
/// none.
pub(crate) fn null_metrics_suffix(date: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let object = Object::new(&mut out).member("date", date);
    object.metrics(&Metrics::NULL).end();
    out.split_off(1)
}

/// Returns the text around the rows of list pages, in parts that end with NUL: islands, then
/// creators. The last part of the islands is the common end of rows.
pub(crate) fn page_templates(published: UnixSeconds, island_end: &[u8]) -> Vec<u8> {
    let parts = |name: &str| {
        format!(
            "{{\"{name}\":[\0],\"meta\":{{\"generatedAt\":\"{published}\",\"total\":\0,\"hasMore\":\0,\"limit\":\0,\"offset\":\0}}}}\0"
        )
    };
    let mut out = parts("islands").into_bytes();
    out.extend_from_slice(island_end);
    out.push(0);
    out.extend_from_slice(parts("creators").as_bytes());
    out
}

/// `/v1/islands/{code}`, from the island's summary and its daily rows, oldest first.
pub(crate) fn island<'a>(
    summary: &[u8],
    series: impl Iterator<Item = (&'a str, &'a Metrics)>,
    published: UnixSeconds,
) -> Vec<u8> {
    let series = |island: Object<'_>| {
        let day = |out: &mut Vec<u8>, (date, metrics): (&str, &Metrics)| {
            Object::new(out).member("date", date).metrics(metrics).end();
        };
        island.array("series", series, day).end();
    };
    response(published, |body| body.object("island", summary, series))
}

/// `/v1/islands/{code}/ccu`, from the days with a peak, oldest first.
pub(crate) fn ccu<'a>(
    code: IslandCode,
    peaks: impl Iterator<Item = (&'a str, u64)>,
    published: UnixSeconds,
) -> Vec<u8> {
    response(published, |body| {
        body.member("code", code.text().as_str())
            .array("ccu", peaks, |out, peak| json(out, &peak))
    })
}

/// Returns the list row of a creator. A sum of counts may exceed 2^64, so sums are 128 bits wide.
pub(crate) fn creator_row(slug: &str, islands: usize, sums: &[Option<u128>; 6]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut row = Object::new(&mut out);
    row = row.member("slug", slug).member("islandCount", islands);
    for field in SortField::ALL {
        row = row.member(field.as_str(), sums[field as usize]);
    }
    row.end();
    out
}

/// `/v1/creators/{slug}`, from its row, its profile and its islands' rows.
pub(crate) fn creator<'a>(
    row: &[u8],
    profile: Option<&Profile>,
    islands: impl Iterator<Item = &'a [u8]>,
    published: UnixSeconds,
) -> Vec<u8> {
    let cells = profile.map(Profile::cells);
    // All members are null without a profile.
    let profile = (1..5).map(|at| cells.map_or(Cell::Text(None), |cells| cells[at]));
    let more = |creator: Object<'_>| {
        creator
            .object("profile", b"{}", |members| {
                members
                    .members(&FileKind::Creators.columns().0[1..], profile)
                    .end();
            })
            .array("islands", islands, Vec::extend_from_slice)
            .end();
    };
    response(published, |body| body.object("creator", row, more))
}

/// `/v1/rankings` and `/v1/new`, from the days that have a file, oldest first.
pub(crate) fn days(day_texts: &[String], published: UnixSeconds) -> Vec<u8> {
    response(published, |body| {
        body.array("days", day_texts.iter().rev(), json)
            .member("latest", day_texts.last())
    })
}

/// `/v1/rankings/{date}`, from the islands in final order.
pub(crate) fn ranking(
    date: &str,
    previous_date: Option<&str>,
    places: &[RankedIsland<'_>],
    published: UnixSeconds,
) -> Vec<u8> {
    let place = |out: &mut Vec<u8>, (rank, place): (usize, &RankedIsland<'_>)| {
        let previous = place.previous_rank;
        let delta = previous.map(|previous| previous.cast_signed() - rank.cast_signed());
        Object::new(out)
            .member("rank", rank)
            .member("delta", delta)
            .member("previousRank", previous)
            .members(&FileKind::Islands.columns().0[..4], place.island.cells())
            .member("peakCCU", place.peak_ccu)
            .end();
    };
    response(published, |body| {
        body.member("date", date)
            .member("previousDate", previous_date)
            .array("ranking", (1..).zip(places), place)
    })
}

/// `/v1/new/{date}`, from the rows of the islands.
pub(crate) fn new_islands(
    date: &str,
    rows: impl Iterator<Item = Vec<u8>>,
    published: UnixSeconds,
) -> Vec<u8> {
    response(published, |body| {
        body.member("date", date)
            .array("islands", rows, |out, row| out.extend_from_slice(&row))
    })
}

/// `/v1/live`, from islands and players in final order.
pub(crate) fn live(
    time: UnixSeconds,
    players: u128,
    rows: &[(&Island, u64)],
    published: UnixSeconds,
) -> Vec<u8> {
    let row = |out: &mut Vec<u8>, (island, players): &(&Island, u64)| {
        Object::new(out)
            .member("code", island.code.text().as_str())
            .member("title", &island.title)
            .member("players", players)
            .end();
    };
    response(published, |body| {
        body.member("time", time.0)
            .member("resolutionSeconds", RESOLUTION_SECONDS)
            .member("players", players)
            .array("islands", rows.iter(), row)
    })
}

/// `/v1/live/intraday`, from the total players by time.
pub(crate) fn intraday(points: &[(UnixSeconds, u128)], published: UnixSeconds) -> Vec<u8> {
    let points = points.iter().map(|(time, players)| (time.0, players));
    response(published, |body| {
        body.member("resolutionSeconds", RESOLUTION_SECONDS).array(
            "points",
            points,
            |out, point| json(out, &point),
        )
    })
}
