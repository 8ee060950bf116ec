//! The live payload: the latest step and the intraday curve.

use std::io::{self, Write};

use super::render;
use crate::calendar::{DAY_SECONDS, UnixSeconds};
use crate::dataset::{Island, LiveStep};
use crate::snapshot::{BodyRef, Compressor, Section, SnapshotWriter, Stamp, Written};

/// Input of the live payload.
#[derive(Debug, Default)]
pub(crate) struct LiveInput {
    /// Latest live step.
    pub(crate) newest: Option<LiveStep>,
    /// Total players at each step, by time ascending: the platform totals if there are any, otherwise
    /// the sums of the live files. `None` without either.
    pub(crate) totals: Option<Vec<(UnixSeconds, u128)>>,
}

impl LiveInput {
    /// Creates the input from the latest step, the platform totals and the sum of each step.
    pub(crate) fn new(
        newest: Option<LiveStep>,
        platform: Option<Vec<(UnixSeconds, u64)>>,
        sums: Vec<(UnixSeconds, u128)>,
    ) -> LiveInput {
        let wide = |(time, players): (UnixSeconds, u64)| (time, u128::from(players));
        let totals = match platform {
            Some(points) => Some(points.into_iter().map(wide).collect()),
            None => (!sums.is_empty()).then_some(sums),
        };
        LiveInput { newest, totals }
    }
}

/// Renders the live payload to `out`.
pub(crate) fn write<W: Write>(
    islands: &[Island],
    now: &LiveInput,
    published: UnixSeconds,
    out: W,
) -> io::Result<(W, Written)> {
    let mut out = SnapshotWriter::new(out)?;
    let newest = now.newest.as_ref();
    let bodies = [
        newest.map(|step| live(islands, step, published)),
        now.totals
            .as_ref()
            .map(|totals| intraday(totals, published)),
    ];
    let mut compressor = Compressor::default();
    let mut refs = Vec::new();
    for body in bodies {
        refs.push(match body {
            Some(plain) => out.body(&compressor.encode(&plain))?,
            None => BodyRef::default(),
        });
    }
    out.bodies(Section::FixedBodies, &refs)?;
    let counts = [0; 5];
    out.section(Section::Stamp, &Stamp { published, counts }.to_bytes())?;
    out.finish()
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

/// `/v1/live/intraday`: the 24 hours that end with the latest step.
fn intraday(totals: &[(UnixSeconds, u128)], published: UnixSeconds) -> Vec<u8> {
    let newest = totals.last().map_or(0, |(time, _)| time.0);
    let day = totals.partition_point(|(time, _)| time.0 <= newest - DAY_SECONDS);
    render::intraday(&totals[day..], published)
}
