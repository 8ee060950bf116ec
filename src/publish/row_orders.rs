//! Row orders: each sort field and direction of all rows and of each group, computed once.

use std::io::{self, Write};

use crate::dataset::Metrics;
use crate::model::{SortField, SortOrder};
use crate::snapshot::{Section, SnapshotWriter};

/// Island rows in every ordering.
pub(crate) struct RowOrders {
    /// For each sort field, the dense rank of each row's value, from 1; 0 if it is null.
    levels: Vec<u32>,
    /// For each sort field and direction, all rows in final order.
    sorted: Vec<Vec<u32>>,
    /// For each ordering, the position of each row.
    places: Vec<Vec<u32>>,
}

impl RowOrders {
    pub(crate) fn new(latest: &[Metrics]) -> RowOrders {
        let rows = row_number(latest.len());
        let mut levels = Vec::with_capacity(latest.len() * SortField::ALL.len());
        let mut orders = Vec::new();
        for field in SortField::ALL {
            let value = |row: u32| latest[row as usize].count(field);
            let mut distinct: Vec<u64> = (0..rows).filter_map(value).collect();
            distinct.sort_unstable();
            distinct.dedup();
            levels.extend((0..rows).map(|row| match value(row) {
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
                    SortOrder::Desc => sorted.sort_by_key(|row| std::cmp::Reverse(value(*row))),
                }
                orders.push(sorted);
            }
        }
        let places = orders.iter().map(|order| inverse(order)).collect();
        RowOrders {
            levels,
            sorted: orders,
            places,
        }
    }

    pub(crate) fn write<W: Write>(&self, out: &mut SnapshotWriter<W>) -> io::Result<()> {
        out.ints(Section::Levels, &self.levels)?;
        out.ints(Section::Orders, &self.sorted.concat())
    }

    /// Writes the order vectors of groups, given as their member rows.
    pub(crate) fn write_groups<W: Write>(
        &self,
        out: &mut SnapshotWriter<W>,
        (starts_section, orders_section): (Section, Section),
        groups: &[Vec<u32>],
    ) -> io::Result<()> {
        let mut starts = vec![0];
        let mut vectors = Vec::new();
        let mut members_so_far = 0;
        for members in groups {
            members_so_far += members.len() as u64;
            starts.push(members_so_far);
            for places in &self.places {
                let at = vectors.len();
                vectors.extend_from_slice(members);
                vectors[at..].sort_unstable_by_key(|row| places[*row as usize]);
            }
        }
        out.longs(starts_section, &starts)?;
        out.ints(orders_section, &vectors)
    }
}

/// Converts an index of a row, creator, tag or day to its number in the file.
pub(crate) fn row_number(at: usize) -> u32 {
    u32::try_from(at).expect("the platform has far fewer than 2^32 islands")
}

fn inverse(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    for (place, row) in order.iter().enumerate() {
        places[*row as usize] = row_number(place);
    }
    places
}

/// Writes concatenated texts and the end of each.
pub(crate) fn write_texts<W: Write>(
    out: &mut SnapshotWriter<W>,
    (text_section, ends_section): (Section, Section),
    texts: impl Iterator<Item = impl AsRef<[u8]>>,
) -> io::Result<()> {
    let mut all = Vec::new();
    let mut ends = vec![0];
    for text in texts {
        all.extend_from_slice(text.as_ref());
        ends.push(all.len() as u64);
    }
    out.section(text_section, &all)?;
    out.longs(ends_section, &ends)
}
