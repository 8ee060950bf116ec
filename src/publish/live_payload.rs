//! The live payload: the newest step's snapshot and the intraday curve.

use std::io::{self, Write};

use super::render;
use crate::calendar::{DAY_SECONDS, UnixSeconds};
use crate::dataset::{Island, LiveStep};
use crate::snapshot::{BodyRef, Packer, Section, SnapshotWriter, Stamp, Written};

/// What the live payload is rendered from.
#[derive(Debug, Default)]
pub(crate) struct LiveInput {
    /// The newest live step.
    pub(crate) newest: Option<LiveStep>,
    /// All players at each step, by time ascending: the platform's own totals, or the sums of the live
    /// files; `None` where there are neither.
    pub(crate) totals: Option<Vec<(UnixSeconds, u128)>>,
}

impl LiveInput {
    /// From the newest step, the platform's own totals where there are any, and each step's sum.
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
    let mut packer = Packer::new();
    let mut refs = Vec::new();
    for body in bodies {
        refs.push(match body {
            Some(plain) => out.body(&packer.pack(&plain))?,
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

/// `/v1/live/intraday`: the day that ends with the newest step.
fn intraday(totals: &[(UnixSeconds, u128)], published: UnixSeconds) -> Vec<u8> {
    let newest = totals.last().map_or(0, |(time, _)| time.0);
    let day = totals.partition_point(|(time, _)| time.0 <= newest - DAY_SECONDS);
    render::intraday(&totals[day..], published)
}
