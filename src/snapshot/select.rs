//! Selection of the rows of a list page, and the number of all matches.
//!
//! With any sort and at most one filter by groups, a page is a slice of a vector in final order: O(limit)
//! at any number of rows. Other conditions are combined in one of two ways. If one of them leaves few
//! rows, the others are checked for each of these. Otherwise each is a bit set: the members of all are
//! counted, and the page is found by walking the smallest vector in final order or, where that is long
//! and matches are rare in it, by the sort keys of the matches.

use std::borrow::Cow;
use std::ops::Range;

use zerocopy::little_endian::U32;

use super::condition::Condition;
use super::history::History;
use super::row_set::RowSet;
use crate::request::{ListQuery, Page};

/// If a condition leaves at most one row in `FEW_SHARE`, or at most `FEW_MIN`, its rows are checked one by one, which
/// costs less than sets of all rows.
const FEW_SHARE: usize = 1024;
const FEW_MIN: usize = 48;
/// The cost of sorting one key in steps of a walk.
const STEPS_PER_KEY: usize = 40;

/// The rows of a page and the number of all matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedRows {
    /// The rows by number, in order.
    pub rows: Vec<u32>,
    /// The number of matches on all pages.
    pub total: u64,
}

impl SelectedRows {
    fn new(rows: Vec<u32>, total: usize) -> SelectedRows {
        SelectedRows {
            rows,
            total: total as u64,
        }
    }

    /// Returns a page of a vector in final order that has all matches.
    fn slice_of(order: &[U32], page: Page) -> SelectedRows {
        let rows = order[window(order.len(), page)].iter();
        SelectedRows::new(rows.map(|row| row.get()).collect(), order.len())
    }

    /// Returns a page of matches that come in final order.
    fn of_matches(matches: impl Iterator<Item = u32>, page: Page) -> SelectedRows {
        let all: Vec<u32> = matches.collect();
        SelectedRows::new(all[window(all.len(), page)].to_vec(), all.len())
    }

    /// Returns a page, which is not empty, of matches given by distinct sort keys.
    fn of_keys(mut keys: Vec<u64>, page: Page) -> SelectedRows {
        let range = window(keys.len(), page);
        if range.end < keys.len() {
            keys.select_nth_unstable(range.end);
        }
        // The range is not empty: with its first key in place, all keys before the page come
        // before it.
        keys[..range.end].select_nth_unstable(range.start);
        keys[range.clone()].sort_unstable();
        let rows = keys[range].iter().map(|key| row_of(*key)).collect();
        SelectedRows::new(rows, keys.len())
    }
}

/// Returns the row of a sort key, its low half.
fn row_of(key: u64) -> u32 {
    u32::try_from(key & u64::from(u32::MAX)).expect("masked to 32 bits")
}

/// Returns `true` if so many of all rows are not checked one by one.
fn are_many(rows: usize, all: usize) -> bool {
    rows > (all / FEW_SHARE).max(FEW_MIN)
}

/// Returns `true` if sorting the keys of all matches costs less than walking an order to the end of a page. A walk
/// begins at the nearer end of the order.
fn is_walk_long(order: usize, page: &Range<usize>, matches: usize) -> bool {
    let walked = page.end.min(matches - page.start);
    walked * (order / matches) > matches * STEPS_PER_KEY
}

/// Returns the positions of a page among `count` matches.
fn window(count: usize, page: Page) -> Range<usize> {
    let start = usize::try_from(page.offset).map_or(count, |offset| offset.min(count));
    start..start.saturating_add(page.limit as usize).min(count)
}

/// Returns the rows that meet every condition; there is at least one.
fn intersection(conditions: &[Condition<'_>]) -> RowSet {
    // From the last filter on: the first set is changed, that of a search is built, and that of a group may be stored
    // and would be copied.
    let sets = conditions.iter().rev().map(Condition::set);
    let all = sets.reduce(|all, other| {
        let mut all = all.into_owned();
        all.intersect(&other);
        Cow::Owned(all)
    });
    all.expect("a query without a condition has a vector in final order")
        .into_owned()
}

impl History {
    pub fn select_islands(&self, query: &ListQuery) -> SelectedRows {
        let page = query.page;
        let Some(conditions) = Condition::all(self, query) else {
            return SelectedRows::slice_of(&[], page);
        };
        let vectors = conditions
            .iter()
            .filter_map(|one| one.in_order(query.sort, query.order));
        let smallest = vectors.min_by_key(|rows| rows.len());
        let rows = smallest.unwrap_or_else(|| self.in_order(query.sort, query.order));
        let Some(rarest) = conditions.iter().min_by_key(|one| one.max_len()) else {
            return SelectedRows::slice_of(rows, page);
        };
        if conditions.len() == 1 && smallest.is_some() {
            return SelectedRows::slice_of(rows, page);
        }
        if are_many(rarest.max_len(), self.rows.len()) {
            return self.select_from(&intersection(&conditions), rows, query);
        }
        let others = conditions.iter().filter(|one| !std::ptr::eq(*one, rarest));
        let rows = rarest.rows();
        let rows = rows.filter(|row| others.clone().all(|one| one.contains(*row)));
        let mut keys: Vec<u64> = rows
            .map(|row| self.sort_key(row, query.sort, query.order))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        SelectedRows::of_matches(keys.into_iter().map(row_of), page)
    }

    /// Selects a page of the members of `set`, all of which are in `order`.
    fn select_from(&self, set: &RowSet, order: &[U32], query: &ListQuery) -> SelectedRows {
        let total = set.len();
        let range = window(total, query.page);
        if range.is_empty() {
            return SelectedRows::new(Vec::new(), total);
        }
        if is_walk_long(order.len(), &range, total) {
            let key = |row| self.sort_key(row, query.sort, query.order);
            return SelectedRows::of_keys(set.iter().map(key).collect(), query.page);
        }
        SelectedRows::new(set.ordered(order, range, total), total)
    }

    /// Selects the rows of a page of `/v1/creators`. Creators are numbered in list order.
    pub fn select_creators(&self, query: &ListQuery) -> SelectedRows {
        let creators = self.creator_rows.len();
        let needle = query.search().map(|(_, folded)| folded);
        let number = |at: usize| u32::try_from(at).expect("creators are numbered in u32");
        let Some(needle) = needle.filter(|folded| !folded.is_empty()) else {
            let rows = window(creators, query.page).map(number).collect();
            return SelectedRows::new(rows, creators);
        };
        SelectedRows::of_matches(self.slugs.containing(needle).map(number), query.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_48_rows_or_one_in_1024_are_checked_one_by_one() {
        for (all, few) in [(48, 48), (5_000, 48), (50_176, 49), (307_200, 300)] {
            assert!(!are_many(0, all) && !are_many(few, all), "{all}");
            assert!(are_many(few + 1, all) && are_many(all + 1, all), "{all}");
        }
    }

    #[test]
    fn an_order_is_walked_unless_40_steps_for_each_key_are_fewer() {
        // The first of ten matches among 4,000 rows is found after 400 of them; ten keys cost as much.
        assert!(!is_walk_long(4_000, &(0..1), 10));
        assert!(is_walk_long(4_000, &(0..2), 10));
        assert!(is_walk_long(4_010, &(0..1), 10));
        // The last one is found from the other end.
        assert!(!is_walk_long(4_000, &(9..10), 10));
        assert!(is_walk_long(4_000, &(8..10), 10));
        // With many matches, any page is near.
        assert!(!is_walk_long(300_000, &(800..1_000), 300_000));
        assert!(!is_walk_long(300_000, &(0..200), 3_000));
        assert!(is_walk_long(300_000, &(1_400..1_600), 3_000));
    }
}
