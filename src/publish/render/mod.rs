//! JSON of the responses about islands, creators, days and live steps (CONTRACT section 4), and of
//! the dumps. No other module of `publish` names their members. `json` is the writer of members.

mod json;

use json::{Object, json};

use crate::calendar::UnixSeconds;
use crate::dataset::{Cell, FileKind, Island, Metrics, Profile};
use crate::model::{IslandCode, SortField};

/// Seconds between two live steps.
const RESOLUTION_SECONDS: u32 = 600;

/// Initial capacity of a buffer. Most objects are about as long: each time that a buffer grows, its bytes are copied.
const OBJECT_BYTES: usize = 512;

/// Returns an object with the members that `write` writes.
fn object(write: impl FnOnce(Object<'_>) -> Object<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(OBJECT_BYTES);
    write(Object::new(&mut out)).end();
    out
}

/// Returns a response: the members that `write` writes, then `meta`.
fn response(published: UnixSeconds, write: impl FnOnce(Object<'_>) -> Object<'_>) -> Vec<u8> {
    object(|body| {
        write(body).object("meta", b"{}", |meta| {
            meta.member("generatedAt", published.to_string())
        })
    })
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
    object(|row| {
        row.members(FileKind::Islands.columns().0, island.cells())
            .member("firstSeen", seen.map(|(first, _)| first))
            .member("lastSeen", seen.map(|(_, last)| last))
            .member("date", date)
            .metrics(metrics)
    })
}

/// Returns the common end of the summaries of islands without metrics of `date`. Most islands have
/// none.
pub(crate) fn null_metrics_suffix(date: Option<&str>) -> Vec<u8> {
    object(|row| row.member("date", date).metrics(&Metrics::NULL)).split_off(1)
}

/// `/v1/islands/{code}`, from the island's summary and its daily rows, oldest first.
pub(crate) fn island<'a>(
    summary: &[u8],
    series: impl Iterator<Item = (&'a str, &'a Metrics)>,
    published: UnixSeconds,
) -> Vec<u8> {
    let day = |out: &mut Vec<u8>, (date, metrics): (&str, &Metrics)| {
        Object::new(out).member("date", date).metrics(metrics).end();
    };
    response(published, |body| {
        body.object("island", summary, |island| {
            island.array("series", series, day)
        })
    })
}

/// `/v1/islands/{code}/ccu`, from the days with a peak, oldest first.
pub(crate) fn ccu<'a>(
    code: IslandCode,
    peaks: impl Iterator<Item = (&'a str, u64)>,
    published: UnixSeconds,
) -> Vec<u8> {
    response(published, |body| {
        body.members(&["code"], [Cell::Code(code)])
            .array("ccu", peaks, |out, peak| json(out, &peak))
    })
}

/// Returns the list row of a creator. A sum of counts may exceed 2^64, so sums are 128 bits wide.
pub(crate) fn creator_row(slug: &str, islands: usize, sums: &[Option<u128>; 6]) -> Vec<u8> {
    object(|row| {
        let row = row.member("slug", slug).member("islandCount", islands);
        let fields = SortField::ALL.into_iter();
        fields.fold(row, |row, field| {
            row.member(field.as_str(), sums[field as usize])
        })
    })
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
    let columns = &FileKind::Creators.columns().0[1..];
    response(published, |body| {
        body.object("creator", row, |creator| {
            creator
                .object("profile", b"{}", |members| {
                    members.members(columns, profile)
                })
                .array("islands", islands, Vec::extend_from_slice)
        })
    })
}

/// `/v1/rankings` and `/v1/new`, from the days that have a file, oldest first.
pub(crate) fn days(day_texts: &[String], published: UnixSeconds) -> Vec<u8> {
    response(published, |body| {
        body.array("days", day_texts.iter().rev(), json)
            .member("latest", day_texts.last())
    })
}

/// `/v1/rankings/{date}`, from the islands in final order, each with its peak and its rank on the previous date, if it
/// has a peak on that date.
pub(crate) fn ranking<'a>(
    date: &str,
    previous_date: Option<&str>,
    places: impl Iterator<Item = (&'a Island, u64, Option<usize>)>,
    published: UnixSeconds,
) -> Vec<u8> {
    response(published, |body| {
        body.member("date", date)
            .member("previousDate", previous_date)
            .array("ranking", (1_usize..).zip(places), |out, (rank, place)| {
                let (island, peak_ccu, previous) = place;
                let delta = previous.map(|previous| previous.cast_signed() - rank.cast_signed());
                Object::new(out)
                    .member("rank", rank)
                    .member("delta", delta)
                    .member("previousRank", previous)
                    .members(&FileKind::Islands.columns().0[..4], island.cells())
                    .member("peakCCU", peak_ccu)
                    .end();
            })
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
            .members(&["code"], [Cell::Code(island.code)])
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
