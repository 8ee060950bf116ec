//! Rows by group, in final order: the tags, creators and tools that islands can be filtered by.

use std::borrow::Cow;

use zerocopy::little_endian::U32;

use super::error::SnapshotError;
use super::file::SnapshotFile;
use super::format::Section;
use super::row_set::RowSet;
use super::throttle::yield_point;
use super::views::{U32Slice, U64Slice};
use crate::model::{SortField, SortOrder};

/// Orderings of one set of rows: each sort field in both directions.
pub(crate) const ORDERINGS: usize = SortField::ALL.len() * SortOrder::ALL.len();
/// A group with more than this share of the rows is also stored as a set.
const LARGE_SHARE: usize = 16;

/// The row vectors of a family of groups, such as the tags: for each group, its rows in all
/// [`ORDERINGS`].
#[derive(Debug)]
pub(crate) struct Groups {
    starts: U64Slice,
    orders: U32Slice,
    /// The members of each large group, by group.
    large: Vec<(usize, RowSet)>,
    rows: usize,
}

impl Groups {
    pub(crate) fn open(
        file: &SnapshotFile,
        (starts, orders): (Section, Section),
        rows: usize,
    ) -> Result<Groups, SnapshotError> {
        let vectors = file.positions(orders, rows)?;
        if !vectors.len().is_multiple_of(ORDERINGS) {
            return Err(orders.malformed("its length is not a multiple of the orderings"));
        }
        let mut groups = Groups {
            starts: file.bounds(starts, vectors.len() / ORDERINGS)?,
            orders: vectors,
            large: Vec::new(),
            rows,
        };
        for group in 0..groups.len() {
            yield_point(group);
            let members = groups.rows(group, 0);
            if members.len() > rows / LARGE_SHARE {
                let set = RowSet::new(rows, members.iter().map(|row| row.get()));
                groups.large.push((group, set));
            }
        }
        Ok(groups)
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn rows(&self, group: usize, ordering: usize) -> &[U32] {
        let (start, end) = (self.starts.index(group), self.starts.index(group + 1));
        let from = start * ORDERINGS + ordering * (end - start);
        &self.orders[from..from + end - start]
    }

    /// Returns the members of a group as a set, which is built if the group is small.
    pub(crate) fn set(&self, group: usize) -> Cow<'_, RowSet> {
        if let Ok(at) = self.large.binary_search_by_key(&group, |(group, _)| *group) {
            return Cow::Borrowed(&self.large[at].1);
        }
        let members = self.rows(group, 0).iter().map(|row| row.get());
        Cow::Owned(RowSet::new(self.rows, members))
    }
}

/// Returns the index of an ordering among the [`ORDERINGS`].
pub(crate) fn ordering(sort: SortField, order: SortOrder) -> usize {
    sort as usize * SortOrder::ALL.len() + order as usize
}
