//! Sections of the lists: rows, orders, filters, and the search indexes over titles and slugs.
//!
//! The order of the rows by each sort field and direction is computed once, for all rows and for each
//! group. Of each row the payload has the ranks of its values among the values of all rows, which it has once.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use zerocopy::little_endian::{U32, U64};

use super::history_input::{Creator, HistoryInput};
use super::packed_day::row_number;
use super::render;
use super::text_index::write_index;
use crate::dataset::{Island, Metrics};
use crate::model::{SortField, SortOrder};
use crate::request::Grouping;
use crate::snapshot::{SLUGS, Section, SnapshotWriter, TITLES};

/// Writes the sections of the island list and of the creator list. `rows` are the rows of the
/// islands.
pub(crate) fn write<W: Write>(
    input: &HistoryInput<'_>,
    rows: &[Vec<u8>],
    creators: &[Creator<'_>],
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    // The common end of all rows without metrics on the latest day is stored once. A NUL at the end
    // of a row stands for it.
    let end = render::null_metrics_suffix(input.latest_day());
    let texts = rows.iter().map(|row| match row.strip_suffix(&end[..]) {
        Some(start) => Cow::Owned([start, b"\0"].concat()),
        None => Cow::Borrowed(&row[..]),
    });
    out.lists::<u8>(Section::Rows, texts)?;
    let islands = &input.catalogue.islands;
    let codes = islands.iter().map(|island| island.code.number());
    out.array::<U64>(Section::Codes, codes)?;
    let positions = write_orders(&input.latest, out)?;
    for grouping in Grouping::ALL {
        write_groups(&positions, *grouping, &groups(islands, *grouping), out)?;
    }
    write_index(out, TITLES, islands.iter().map(|island| &*island.title))?;
    write_creators(creators, out)
}

/// Returns the rows of the islands in each group of a grouping.
fn groups(islands: &[Island], grouping: Grouping) -> BTreeMap<&str, Vec<u32>> {
    let mut groups: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (row, island) in (0..).zip(islands) {
        let mut add = |name| {
            let rows = groups.entry(name).or_default();
            // A tag that occurs twice on one island is one match.
            if rows.last() != Some(&row) {
                rows.push(row);
            }
        };
        match grouping {
            Grouping::Tag => island.tags().for_each(add),
            Grouping::Creator => island.creator.iter().for_each(|slug| add(slug.as_str())),
            Grouping::CreatedIn => island.created_in.iter().for_each(|tool| add(tool.as_str())),
        }
    }
    groups
}

/// Writes the list of creators with its search index.
fn write_creators<W: Write>(
    creators: &[Creator<'_>],
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    let rows = creators.iter().map(Creator::list_row);
    out.lists::<u8>(Section::CreatorRows, rows)?;
    let slugs = || creators.iter().map(|creator| creator.slug);
    out.lists::<u8>(Section::CreatorSlugs, slugs())?;
    let mut by_slug: Vec<u32> = (0..row_number(creators.len())).collect();
    by_slug.sort_unstable_by_key(|creator| creators[*creator as usize].slug);
    out.array::<U32>(Section::CreatorsBySlug, by_slug)?;
    write_index(out, SLUGS, slugs())
}

/// Writes the values of all sort fields, each once and ascending; for each sort field the rank of each row's value among
/// them, from 1, or 0 if it is null; and the orders of all rows. Returns for each sort field and direction the position
/// of each row in the final order.
fn write_orders<W: Write>(
    latest: &[Metrics],
    out: &mut SnapshotWriter<W>,
) -> io::Result<Vec<Vec<u32>>> {
    let rows = row_number(latest.len());
    let fields = SortField::ALL.into_iter();
    let counts = fields.flat_map(|field| latest.iter().filter_map(move |row| row.count(field)));
    let mut values: Vec<u64> = counts.collect();
    values.sort_unstable();
    values.dedup();
    let (mut ranks, mut orders, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    for field in SortField::ALL {
        let value = |row: u32| latest[row as usize].count(field);
        ranks.extend((0..rows).map(|row| match value(row) {
            Some(count) => row_number(values.partition_point(|other| *other <= count)),
            None => 0,
        }));
        for order in SortOrder::ALL {
            let mut sorted: Vec<u32> = (0..rows).collect();
            // Rows are numbered by code, and a stable sort keeps ties in that order.
            match order {
                SortOrder::Asc => {
                    sorted.sort_by_key(|row| (value(*row).is_none(), value(*row)));
                }
                SortOrder::Desc => sorted.sort_by_key(|row| Reverse(value(*row))),
            }
            let mut position_of = vec![0; sorted.len()];
            for (position, row) in (0..).zip(&sorted) {
                position_of[*row as usize] = position;
            }
            positions.push(position_of);
            orders.append(&mut sorted);
        }
    }
    out.array::<U64>(Section::Values, values)?;
    out.array::<U32>(Section::Ranks, ranks)?;
    out.array::<U32>(Section::Orders, orders)?;
    Ok(positions)
}

/// Writes the groups of a grouping, given as their rows, each in all orders.
fn write_groups<W: Write>(
    positions: &[Vec<u32>],
    grouping: Grouping,
    groups: &BTreeMap<&str, Vec<u32>>,
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    let mut of_rows = vec![Vec::new(); positions[0].len()];
    let orders = (0..).zip(groups.values()).map(|(group, members)| {
        for row in members {
            of_rows[*row as usize].push(U32::new(group));
        }
        let mut orders = Vec::with_capacity(members.len() * positions.len());
        for of_order in positions {
            let at = orders.len();
            orders.extend(members.iter().copied().map(U32::new));
            orders[at..].sort_unstable_by_key(|row| of_order[row.get() as usize]);
        }
        orders
    });
    let [names_section, orders_section, of_rows_section] = Section::of_grouping(grouping);
    out.lists::<u8>(names_section, groups.keys())?;
    out.lists::<U32>(orders_section, orders)?;
    out.lists::<U32>(of_rows_section, of_rows.iter())?;
    Ok(())
}
