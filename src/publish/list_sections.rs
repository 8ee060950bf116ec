//! Sections of the island list: rows, orders, filters and the search index over titles.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use super::history_input::HistoryInput;
use super::render;
use super::row_orders::{RowOrders, row_number, write_texts};
use super::text_index::write_index;
use crate::dataset::Catalogue;
use crate::model::CreatedIn;
use crate::snapshot::{Section, SnapshotWriter, TITLES};

/// Value of `RowTools` for an island without a tool.
const NO_TOOL: u8 = u8::MAX;

/// Writes the rows of the island list, their orders, the filter by tool, and the search index.
pub(crate) fn write_rows<W: Write>(
    input: &HistoryInput<'_>,
    rows: &[Vec<u8>],
    orders: &RowOrders,
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    // The common end of all rows without metrics on the latest day is stored once. A NUL at the end of a
    // row stands for it.
    let end = render::null_metrics_suffix(input.newest());
    let texts = rows.iter().map(|row| match row.strip_suffix(&end[..]) {
        Some(start) => Cow::Owned([start, b"\0"].concat()),
        None => Cow::Borrowed(&row[..]),
    });
    write_texts(out, (Section::RowText, Section::RowEnds), texts)?;
    let islands = &input.catalogue.islands;
    let codes: Vec<u64> = islands.iter().map(|island| island.code.number()).collect();
    out.longs(Section::Codes, &codes)?;
    orders.write(out)?;
    let mut tools = CreatedIn::ALL.map(|_| Vec::new());
    let mut row_tools = vec![NO_TOOL; rows.len()];
    for (row, island) in islands.iter().enumerate() {
        if let Some(tool) = island.created_in {
            tools[tool as usize].push(row_number(row));
            row_tools[row] = tool as u8;
        }
    }
    out.section(Section::RowTools, &row_tools)?;
    orders.write_groups(out, (Section::ToolStarts, Section::ToolOrders), &tools)?;
    write_index(out, &TITLES, islands.iter().map(|island| &*island.title))
}

/// Writes the names of all tags, the filter by tag, and each row's tags.
pub(crate) fn write_tags<W: Write>(
    catalogue: &Catalogue,
    orders: &RowOrders,
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    let mut members: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (row, island) in catalogue.islands.iter().enumerate() {
        for tag in &island.tags {
            let rows = members.entry(tag).or_default();
            // A tag that occurs twice on one island is one match.
            if rows.last() != Some(&row_number(row)) {
                rows.push(row_number(row));
            }
        }
    }
    write_texts(
        out,
        (Section::TagNames, Section::TagNameEnds),
        members.keys(),
    )?;
    let mut row_tags = vec![Vec::new(); catalogue.islands.len()];
    for (tag, rows) in members.values().enumerate() {
        for row in rows {
            row_tags[*row as usize].push(row_number(tag));
        }
    }
    let groups: Vec<Vec<u32>> = members.into_values().collect();
    orders.write_groups(out, (Section::TagStarts, Section::TagOrders), &groups)?;
    let mut starts = vec![0];
    for tags in &row_tags {
        starts.push(starts[starts.len() - 1] + row_number(tags.len()));
    }
    out.ints(Section::RowTagStarts, &starts)?;
    out.ints(Section::RowTags, &row_tags.concat())
}
