//! Rows by group, in final order: the tags, the creators and the tools that islands can be filtered by.
//!
//! In: the vectors of a family of groups. Out: a group's rows in an ordering, or as a set.

use std::borrow::Cow;

use super::error::SnapshotError;
use super::file::{Section, SnapshotFile};
use super::pace::give_way;
use super::row_set::RowSet;
use super::views::{Ints, IntsView, Longs};
use crate::model::{SortField, SortOrder};

/// Orderings of one set of rows: each sort field in both directions.
pub(crate) const ORDERINGS: usize = SortField::ALL.len() * SortOrder::ALL.len();
/// A group with more than this share of the rows is also held as a set.
const LARGE_SHARE: usize = 16;

/// Row vectors of a family of groups (the tags, say): for each group, all [`ORDERINGS`] one after
/// the other.
#[derive(Debug)]
pub(crate) struct Groups {
    starts: Longs,
    orders: Ints,
    /// The members of each large group, by group.
    large: Vec<(usize, RowSet)>,
    rows: usize,
}

impl Groups {
    pub(crate) fn open(
        file: &SnapshotFile,
        starts: Section,
        orders: Section,
        rows: usize,
    ) -> Result<Groups, SnapshotError> {
        let orders = file.positions(orders, ORDERINGS, rows)?;
        let starts = file.bounds(starts, orders.len() / ORDERINGS)?;
        let mut groups = Groups {
            starts,
            orders,
            large: Vec::new(),
            rows,
        };
        for group in 0..groups.len() {
            give_way(group);
            let members = groups.rows(group, 0);
            if members.len() > rows / LARGE_SHARE {
                let set = RowSet::of(rows, members.iter());
                groups.large.push((group, set));
            }
        }
        Ok(groups)
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn rows(&self, group: usize, ordering: usize) -> IntsView<'_> {
        let (start, end) = (self.starts.index(group), self.starts.index(group + 1));
        let from = start * ORDERINGS + ordering * (end - start);
        self.orders.view().slice(from..from + end - start)
    }

    /// The members of a group as a set; gathered where the group is small.
    pub(crate) fn set(&self, group: usize) -> Cow<'_, RowSet> {
        match self.large.binary_search_by_key(&group, |(group, _)| *group) {
            Ok(at) => Cow::Borrowed(&self.large[at].1),
            Err(_) => Cow::Owned(RowSet::of(self.rows, self.rows(group, 0).iter())),
        }
    }
}

/// The ordering's place among a set's [`ORDERINGS`].
pub(crate) fn ordering_of(sort: SortField, order: SortOrder) -> usize {
    sort as usize * SortOrder::ALL.len() + order as usize
}
