//! The live payload: the latest step and the intraday curve.

use std::io::{self, Write};

use super::render;
use crate::calendar::{DAY_SECONDS, UnixSeconds};
use crate::dataset::{Island, LiveStep};
use crate::snapshot::{Compressor, Identity, SnapshotWriter};

#[derive(Debug, Default)]
pub(crate) struct LiveInput {
    pub(crate) latest: Option<LiveStep>,
    /// Total players of each live step, by time ascending.
    pub(crate) totals: Vec<(UnixSeconds, u128)>,
    /// Platform totals by time ascending, which replace those of the steps.
    pub(crate) platform: Option<Vec<(UnixSeconds, u64)>>,
}

pub(crate) fn write<W: Write>(
    islands: &[Island],
    input: &LiveInput,
    published: UnixSeconds,
    out: W,
) -> io::Result<Identity> {
    let latest = input.latest.as_ref();
    let bodies = [
        latest.map(|step| live(islands, step, published)),
        intraday(input, published),
    ];
    let mut out = SnapshotWriter::new(out)?;
    let mut compressor = Compressor::default();
    for body in bodies {
        out.body(&compressor.pack(&body.unwrap_or_default()))?;
    }
    out.finish(published)
}

/// `/v1/live`
fn live(islands: &[Island], step: &LiveStep, published: UnixSeconds) -> Vec<u8> {
    let rows = step.players.iter();
    let mut rows: Vec<(&Island, u64)> = rows
        .map(|(island, players)| (&islands[*island as usize], *players))
        .collect();
    rows.sort_by_key(|(island, players)| (std::cmp::Reverse(*players), island.code));
    render::live(step.time, step.total(), &rows, published)
}

/// `/v1/live/intraday`: the 24 hours that end with the latest total. `None` without totals.
fn intraday(input: &LiveInput, published: UnixSeconds) -> Option<Vec<u8>> {
    let wide = |(time, players): &(UnixSeconds, u64)| (*time, u128::from(*players));
    let totals = match &input.platform {
        Some(points) => points.iter().map(wide).collect(),
        None if input.totals.is_empty() => return None,
        None => input.totals.clone(),
    };
    let latest = totals.last().map_or(0, |(time, _)| time.0);
    let day = totals.partition_point(|(time, _)| time.0 <= latest - DAY_SECONDS);
    Some(render::intraday(&totals[day..], published))
}
