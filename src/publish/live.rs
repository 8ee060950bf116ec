//! The live payload: the newest step's snapshot and the intraday curve.

use std::io::{self, Write};

use super::render;
use crate::calendar::{DAY_SECONDS, UnixSeconds};
use crate::dataset::{Dataset, Island};
use crate::snapshot::{BodyRef, Packed, Section, SnapshotWriter, Stamp, Written};

/// Renders the live payload of a dataset to `out`.
pub(crate) fn write<W: Write>(
    dataset: &Dataset,
    published: UnixSeconds,
    out: W,
) -> io::Result<(W, Written)> {
    let mut out = SnapshotWriter::new(out)?;
    let bodies = [live(dataset, published), intraday(dataset, published)];
    let mut refs = Vec::new();
    for body in bodies {
        refs.push(match body {
            Some(plain) => out.body(&Packed::new(plain))?,
            None => BodyRef::default(),
        });
    }
    out.bodies(Section::FixedBodies, &refs)?;
    out.section(
        Section::Stamp,
        &Stamp {
            published,
            counts: [0; 5],
        }
        .to_bytes(),
    )?;
    out.finish()
}

fn live(dataset: &Dataset, published: UnixSeconds) -> Option<Vec<u8>> {
    let step = dataset.live.last()?;
    let mut rows: Vec<(&Island, u64)> = step
        .players
        .iter()
        .map(|(island, players)| (&dataset.islands[*island as usize], *players))
        .collect();
    rows.sort_by_key(|(island, players)| (std::cmp::Reverse(*players), island.code));
    let players = rows.iter().map(|(_, players)| u128::from(*players)).sum();
    Some(render::live(step.time, players, &rows, published))
}

fn intraday(dataset: &Dataset, published: UnixSeconds) -> Option<Vec<u8>> {
    let points: Vec<(i64, u128)> = match &dataset.platform {
        Some(points) => points
            .iter()
            .map(|(time, players)| (time.0, u128::from(*players)))
            .collect(),
        None if dataset.live.is_empty() => return None,
        None => {
            let total = |players: &[(u32, u64)]| {
                players
                    .iter()
                    .map(|(_, players)| u128::from(*players))
                    .sum()
            };
            dataset
                .live
                .iter()
                .map(|step| (step.time.0, total(&step.players)))
                .collect()
        }
    };
    let newest = points.last().map_or(0, |(time, _)| *time);
    let day = points.partition_point(|(time, _)| *time <= newest - DAY_SECONDS);
    Some(render::intraday(&points[day..], published))
}
