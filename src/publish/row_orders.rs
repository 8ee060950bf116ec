//! Row orders: each sort field and direction of all rows and of each group, computed once. The payload
//! has the rank of each value and not the value: a filter by values needs a section of its own.

use std::cmp::Reverse;
use std::io::{self, Write};

use crate::dataset::Metrics;
use crate::model::{SortField, SortOrder};
use crate::snapshot::{Section, SnapshotWriter};

/// For each sort field and direction, the position of each row in the final order.
pub(crate) struct RowOrders(Vec<Vec<u32>>);

impl RowOrders {
    /// Writes the orders of all rows, and for each sort field the dense rank of each row's value,
    /// from 1; 0 if it is null.
    pub(crate) fn write<W: Write>(
        latest: &[Metrics],
        out: &mut SnapshotWriter<W>,
    ) -> io::Result<RowOrders> {
        let rows = row_number(latest.len());
        let (mut ranks, mut orders, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for field in SortField::ALL {
            let value = |row: u32| latest[row as usize].count(field);
            let mut distinct: Vec<u64> = (0..rows).filter_map(value).collect();
            distinct.sort_unstable();
            distinct.dedup();
            ranks.extend((0..rows).map(|row| match value(row) {
                Some(count) => row_number(distinct.partition_point(|other| *other <= count)),
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
        out.ints(Section::Ranks, &ranks)?;
        out.ints(Section::Orders, &orders)?;
        Ok(RowOrders(positions))
    }

    /// Writes the orders of groups, given as their member rows.
    pub(crate) fn write_groups<'g, W: Write>(
        &self,
        out: &mut SnapshotWriter<W>,
        (starts_section, orders_section): (Section, Section),
        groups: impl Iterator<Item = &'g Vec<u32>>,
    ) -> io::Result<()> {
        let (mut starts, mut orders) = (vec![0], Vec::new());
        for members in groups {
            starts.push(starts[starts.len() - 1] + members.len() as u64);
            for positions in &self.0 {
                let at = orders.len();
                orders.extend_from_slice(members);
                orders[at..].sort_unstable_by_key(|row| positions[*row as usize]);
            }
        }
        out.longs(starts_section, &starts)?;
        out.ints(orders_section, &orders)
    }
}

/// Converts an index of a row, creator, tag or day to its number in the file.
pub(crate) fn row_number(at: usize) -> u32 {
    u32::try_from(at).expect("the platform has far fewer than 2^32 islands")
}

/// Writes concatenated texts and the end of each.
pub(crate) fn write_texts<W: Write>(
    out: &mut SnapshotWriter<W>,
    (text_section, ends_section): (Section, Section),
    texts: impl Iterator<Item = impl AsRef<[u8]>>,
) -> io::Result<()> {
    let (mut all, mut ends) = (Vec::new(), vec![0]);
    for text in texts {
        all.extend_from_slice(text.as_ref());
        ends.push(all.len() as u64);
    }
    out.section(text_section, &all)?;
    out.longs(ends_section, &ends)
}
