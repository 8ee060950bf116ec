//! Creators: their totals, their order, and the sections of the creator list.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::render;
use super::row_orders::{RowOrders, row_number, write_texts};
use super::text_index::write_index;
use crate::dataset::{Catalogue, Metrics, Profile};
use crate::model::{CreatorSlug, SortField};
use crate::snapshot::{SLUGS, Section, SnapshotWriter};

/// Value of `RowCreators` for an island without a creator.
const NO_CREATOR: u32 = u32::MAX;

/// A creator with the data of its row. Creators are numbered in list order.
pub(crate) struct CreatorEntry<'a> {
    pub(crate) profile: Option<&'a Profile>,
    pub(crate) aggregate: render::CreatorTotals,
    /// Rows of its islands.
    pub(crate) islands: Vec<u32>,
}

/// Returns all creators in islands.csv or creators.csv, by peak descending, nulls last, then by slug.
pub(crate) fn collect<'a>(catalogue: &'a Catalogue, latest: &[Metrics]) -> Vec<CreatorEntry<'a>> {
    let mut by_slug: BTreeMap<&str, CreatorEntry<'a>> = BTreeMap::new();
    let new = |slug: &str| CreatorEntry {
        profile: None,
        aggregate: render::CreatorTotals {
            slug: slug.to_owned(),
            island_count: 0,
            sums: [None; 6],
        },
        islands: Vec::new(),
    };
    for profile in &catalogue.profiles {
        let slug = profile.slug.as_str();
        by_slug.entry(slug).or_insert_with(|| new(slug)).profile = Some(profile);
    }
    for (row, island) in catalogue.islands.iter().enumerate() {
        let Some(slug) = island.creator.as_ref().map(CreatorSlug::as_str) else {
            continue;
        };
        let creator = by_slug.entry(slug).or_insert_with(|| new(slug));
        creator.islands.push(row_number(row));
        creator.aggregate.island_count += 1;
        for field in SortField::ALL {
            if let Some(count) = latest[row].count(field) {
                *creator.aggregate.sums[field as usize].get_or_insert(0) += u128::from(count);
            }
        }
    }
    let mut creators: Vec<CreatorEntry<'a>> = by_slug.into_values().collect();
    creators.sort_by_key(|creator| {
        std::cmp::Reverse(creator.aggregate.sums[SortField::PeakCcu as usize])
    });
    creators
}

/// Writes the sections of the creator list, of its search index and of the creator filter.
pub(crate) fn write<W: Write>(
    creators: &[CreatorEntry<'_>],
    orders: &RowOrders,
    islands: usize,
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    let mut row_creators = vec![NO_CREATOR; islands];
    for (number, creator) in creators.iter().enumerate() {
        for row in &creator.islands {
            row_creators[*row as usize] = row_number(number);
        }
    }
    out.ints(Section::RowCreators, &row_creators)?;
    let groups: Vec<Vec<u32>> = creators
        .iter()
        .map(|creator| creator.islands.clone())
        .collect();
    orders.write_groups(
        out,
        (Section::CreatorStarts, Section::CreatorOrders),
        &groups,
    )?;
    let rows = creators
        .iter()
        .map(|creator| render::creator_row(&creator.aggregate));
    write_texts(
        out,
        (Section::CreatorRowText, Section::CreatorRowEnds),
        rows,
    )?;
    let slugs = || {
        creators
            .iter()
            .map(|creator| creator.aggregate.slug.as_str())
    };
    write_texts(
        out,
        (Section::CreatorSlugs, Section::CreatorSlugEnds),
        slugs(),
    )?;
    let mut by_slug: Vec<u32> = (0..row_number(creators.len())).collect();
    by_slug.sort_unstable_by_key(|creator| &creators[*creator as usize].aggregate.slug);
    out.ints(Section::CreatorsBySlug, &by_slug)?;
    write_index(out, &SLUGS, slugs())
}
