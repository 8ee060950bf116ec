//! Sections of the lists: rows, orders, filters, the search index over titles, and folded slugs.
//!
//! The order of the rows by each sort field and direction is computed once, for all rows and for each
//! group. Of each row the payload has the ranks of its values among the values of all rows, which it has once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use zerocopy::little_endian::{U32, U64};

use super::creators::Creator;
use super::history_input::HistoryInput;
use super::packed_day::to_u32;
use super::render;
use super::text_index::write_index;
use crate::dataset::{Island, Metrics};
use crate::model::{SortField, SortOrder, fold};
use crate::request::Grouping;
use crate::snapshot::{Section, SnapshotWriter};

/// Writes the sections of the lists. `rows` are the rows of the islands.
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
    out.array::<u8>(Section::RowEnd, end)?;
    let islands = &input.catalogue.islands;
    let codes = islands.iter().map(|island| island.code.number());
    out.array::<U64>(Section::Codes, codes)?;
    let orders = write_orders(&input.latest, out)?;
    for grouping in Grouping::ALL {
        write_groups(&orders, islands, *grouping, out)?;
    }
    write_index(out, islands.iter().map(|island| &*island.title))?;
    let rows = creators.iter().map(Creator::list_row);
    out.lists::<u8>(Section::CreatorRows, rows)?;
    let slugs = creators.iter().map(|creator| creator.slug);
    out.lists::<u8>(Section::CreatorSlugs, slugs.clone())?;
    out.lists::<u8>(Section::Slugs, slugs.map(fold))?;
    let mut by_slug: Vec<u32> = (0..to_u32(creators.len())).collect();
    by_slug.sort_unstable_by_key(|creator| creators[*creator as usize].slug);
    out.array::<U32>(Section::CreatorsBySlug, by_slug)
}

/// Writes the values of all sort fields, each once and ascending; for each sort field the rank of each row's value among
/// them, from 1, or 0 if it is null; and the orders of all rows, which it returns.
fn write_orders<W: Write>(latest: &[Metrics], out: &mut SnapshotWriter<W>) -> io::Result<Vec<u32>> {
    let fields = SortField::ALL.into_iter();
    let counts = fields.flat_map(|field| latest.iter().filter_map(move |row| row.count(field)));
    let mut values: Vec<u64> = counts.collect();
    values.sort_unstable();
    values.dedup();
    let (mut ranks, mut orders) = (Vec::new(), Vec::new());
    for field in SortField::ALL {
        let rank = |row: &Metrics| match row.count(field) {
            Some(count) => to_u32(values.partition_point(|other| *other <= count)),
            None => 0,
        };
        let of_rows: Vec<u32> = latest.iter().map(rank).collect();
        for order in SortOrder::ALL {
            // Nulls are last in both directions.
            let key = |row: &u32| match order {
                SortOrder::Asc => of_rows[*row as usize].wrapping_sub(1),
                SortOrder::Desc => !of_rows[*row as usize],
            };
            let mut sorted: Vec<u32> = (0..to_u32(latest.len())).collect();
            // Rows are numbered by code, and a stable sort keeps ties in that order.
            sorted.sort_by_key(key);
            orders.append(&mut sorted);
        }
        ranks.extend(of_rows);
    }
    out.array::<U64>(Section::Values, values)?;
    out.array::<U32>(Section::Ranks, ranks)?;
    out.array::<U32>(Section::Orders, orders.iter().copied())?;
    Ok(orders)
}

/// Writes the groups of a grouping, each in all orders, given those of all rows.
fn write_groups<W: Write>(
    orders: &[u32],
    islands: &[Island],
    grouping: Grouping,
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
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
    let mut of_rows = vec![Vec::new(); islands.len()];
    for (group, members) in (0..).zip(groups.values()) {
        for row in members {
            of_rows[*row as usize].push(U32::new(group));
        }
    }
    let mut of_groups = vec![Vec::new(); groups.len()];
    for row in orders {
        for group in &of_rows[*row as usize] {
            of_groups[group.get() as usize].push(U32::new(*row));
        }
    }
    let [names_section, orders_section, of_rows_section] = Section::of_grouping(grouping);
    out.lists::<u8>(names_section, groups.keys())?;
    out.lists::<U32>(orders_section, of_groups.iter())?;
    out.lists::<U32>(of_rows_section, of_rows.iter())?;
    Ok(())
}
