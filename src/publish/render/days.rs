//! JSON of the responses per day or step: rankings, new islands, day lists, live and intraday.

use serde::Serialize;

use super::{array, close, json, reopen};
use crate::calendar::UnixSeconds;
use crate::dataset::Island;
use crate::model::{CreatedIn, CreatorSlug};

/// Seconds between two live steps.
const RESOLUTION_SECONDS: u32 = 600;

/// An island in a ranking.
pub(crate) struct RankingEntry<'a> {
    pub(crate) rank: u32,
    pub(crate) previous_rank: Option<u32>,
    pub(crate) island: &'a Island,
    pub(crate) peak_ccu: u64,
}

/// `/v1/rankings/{date}`
pub(crate) fn ranking<'a>(
    date: &str,
    previous_date: Option<&str>,
    places: impl Iterator<Item = RankingEntry<'a>>,
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
    json(
        &mut out,
        &Head {
            date,
            previous_date,
        },
    );
    reopen(&mut out);
    out.extend_from_slice(b"\"ranking\":");
    array(&mut out, places, |out, place| {
        let members = Members {
            rank: place.rank,
            delta: place
                .previous_rank
                .map(|previous| i64::from(previous) - i64::from(place.rank)),
            previous_rank: place.previous_rank,
            code: place.island.code.to_string(),
            title: &place.island.title,
            creator: place.island.creator.as_ref().map(CreatorSlug::as_str),
            created_in: place.island.created_in.map(CreatedIn::as_str),
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
    array(&mut out, rows, Vec::extend_from_slice);
    close(&mut out, published);
    out
}

/// `/v1/rankings` and `/v1/new`, from the days that have a file, oldest first.
pub(crate) fn days(day_texts: &[String], published: UnixSeconds) -> Vec<u8> {
    #[derive(Serialize)]
    struct Days<'a> {
        days: Vec<&'a str>,
        latest: Option<&'a str>,
    }
    let days: Vec<&str> = day_texts.iter().rev().map(String::as_str).collect();
    let mut out = Vec::new();
    json(
        &mut out,
        &Days {
            latest: days.first().copied(),
            days,
        },
    );
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
    json(
        &mut out,
        &Head {
            time: time.0,
            resolution_seconds: RESOLUTION_SECONDS,
            players,
        },
    );
    reopen(&mut out);
    out.extend_from_slice(b"\"islands\":");
    array(&mut out, rows.iter(), |out, (island, players)| {
        json(
            out,
            &Row {
                code: island.code.to_string(),
                title: &island.title,
                players: *players,
            },
        );
    });
    close(&mut out, published);
    out
}

/// `/v1/live/intraday`
pub(crate) fn intraday(points: &[(UnixSeconds, u128)], published: UnixSeconds) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Members<'a> {
        resolution_seconds: u32,
        points: &'a [(i64, u128)],
    }
    let points: Vec<(i64, u128)> = points
        .iter()
        .map(|(time, players)| (time.0, *players))
        .collect();
    let mut out = Vec::new();
    json(
        &mut out,
        &Members {
            resolution_seconds: RESOLUTION_SECONDS,
            points: &points,
        },
    );
    out.pop();
    close(&mut out, published);
    out
}
