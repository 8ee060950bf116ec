//! [`Condition`]: a filter of a query, applied to the islands of a history.

use std::borrow::Cow;
use std::ops::Range;

use zerocopy::little_endian::U32;

use super::history::{Groups, History, ordering};
use super::row_set::RowSet;
use super::search::Matches;
use crate::model::{SortField, SortOrder};
use crate::request::{Filter, ListQuery};

pub(crate) enum Condition<'h> {
    /// The row is in a group, given by its family and number.
    Group(&'h Groups, usize),
    /// The rank of the row's value of a field is in a range, which does not contain 0, the rank of null.
    Ranks(&'h History, SortField, Range<u32>),
    /// The title of the row contains a text.
    Title(Box<Matches<'h>>),
}

impl<'h> Condition<'h> {
    /// Returns the conditions of a query; `None` if one names a group that does not exist, so that nothing matches.
    pub(crate) fn all(history: &'h History, query: &'h ListQuery) -> Option<Vec<Condition<'h>>> {
        let mut conditions = Vec::with_capacity(query.filters.len());
        for (_, filter) in &query.filters {
            conditions.push(match filter {
                Filter::Group(grouping, name) => {
                    let groups = &history.groups[*grouping as usize];
                    Condition::Group(groups, groups.find(name)?)
                }
                Filter::Search { folded, .. } if folded.is_empty() => continue,
                Filter::Search { folded, .. } => {
                    Condition::Title(Box::new(history.titles.find(folded)))
                }
                Filter::AtLeast(field, count) => {
                    let start = history.first_rank(|value| value >= *count);
                    Condition::Ranks(history, *field, start..u32::MAX)
                }
                Filter::AtMost(field, count) => {
                    let end = history.first_rank(|value| value > *count);
                    Condition::Ranks(history, *field, 1..end)
                }
            });
        }
        Some(conditions)
    }

    /// Returns an upper bound of the number of matching rows.
    pub(crate) fn max_len(&self) -> usize {
        match self {
            Condition::Group(groups, group) => groups.rows(*group, 0).len(),
            Condition::Ranks(history, field, ranks) => {
                between(history, (*field, SortOrder::Asc), ranks).len()
            }
            Condition::Title(found) => found.max_len(),
        }
    }

    pub(crate) fn contains(&self, row: u32) -> bool {
        match self {
            Condition::Group(groups, group) => groups.contain(row, *group),
            Condition::Ranks(history, field, ranks) => {
                ranks.contains(&history.ranks(*field)[row as usize].get())
            }
            Condition::Title(found) => found.contains(row),
        }
    }

    /// Returns the matching rows in no order, possibly repeated.
    pub(crate) fn rows(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        let rows = match self {
            Condition::Group(groups, group) => groups.rows(*group, 0),
            Condition::Ranks(history, field, ranks) => {
                between(history, (*field, SortOrder::Asc), ranks)
            }
            Condition::Title(found) => return Box::new(found.rows()),
        };
        Box::new(rows.iter().map(|row| row.get()))
    }

    /// Returns the matching rows in final order if they are stored so.
    pub(crate) fn in_order(&self, sort: SortField, order: SortOrder) -> Option<&'h [U32]> {
        match self {
            Condition::Group(groups, group) => Some(groups.rows(*group, ordering(sort, order))),
            Condition::Ranks(history, field, ranks) => {
                (*field == sort).then(|| between(history, (sort, order), ranks))
            }
            Condition::Title(_) => None,
        }
    }

    /// Returns the matching rows as a set, which is built if it is not stored.
    pub(crate) fn set(&self) -> Cow<'h, RowSet> {
        match self {
            Condition::Group(groups, group) => groups.set(*group),
            Condition::Ranks(history, field, ranks) => {
                let all = (0..).zip(history.ranks(*field));
                let rows = all.filter(|(_, rank)| ranks.contains(&rank.get()));
                Cow::Owned(RowSet::new(history.rows.len(), rows.map(|(row, _)| row)))
            }
            Condition::Title(found) => Cow::Owned(found.set()),
        }
    }
}

/// Returns the rows whose rank of a field is in a range, in an order by this field.
fn between<'h>(
    history: &'h History,
    (field, order): (SortField, SortOrder),
    ranks: &Range<u32>,
) -> &'h [U32] {
    let rows = history.in_order(field, order);
    let rank = |row: &U32| history.ranks(field)[row.get() as usize].get();
    // Nulls have the rank 0, and come last in both directions.
    let is_before = |row: &U32, bound: u32| match order {
        SortOrder::Asc => (1..bound).contains(&rank(row)),
        SortOrder::Desc => rank(row) >= bound,
    };
    let ends =
        [ranks.start, ranks.end].map(|bound| rows.partition_point(|row| is_before(row, bound)));
    // In descending order, the end of the range comes first. In a damaged file, rows may be in any order.
    &rows[ends[0].min(ends[1])..ends[0].max(ends[1])]
}
