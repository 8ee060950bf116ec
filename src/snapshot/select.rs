//! Which rows a page of a list holds, and how many match in all.
//!
//! With any sort and at most one filter a page is a slice of a vector in final order, so it costs
//! O(limit) however many rows there are. Several conditions, a search among them, meet in one of two
//! ways. Where one of them leaves few rows, each is held against the others. Otherwise each is a set
//! of one bit a row: what is in all is counted, and the page is found by walking the smallest
//! vector in final order, or, where that is long and matches are rare in it, by their sort keys.

use std::borrow::Cow;
use std::ops::Range;

use super::groups::ordering_of;
use super::history::History;
use super::row_set::RowSet;
use super::search::Matches;
use super::views::IntsView;
use crate::model::CreatedIn;
use crate::request::{CreatorQuery, IslandQuery, Page};

/// Up to one row in so many is looked at for less than sets of all rows cost; or so many rows.
const FEW_SHARE: usize = 1024;
const FEW_LEAST: usize = 48;
/// What sorting one key costs in steps of a walk.
const STEPS_A_KEY: usize = 40;

/// The rows of a page and how many rows match in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The rows by number, in order.
    pub rows: Vec<u32>,
    /// How many match, on this page or another.
    pub total: u64,
}

impl Selection {
    const EMPTY: Selection = Selection {
        rows: Vec::new(),
        total: 0,
    };

    /// The page's slice of rows that are in final order already.
    fn of_sorted(rows: IntsView<'_>, page: Page) -> Selection {
        let range = window(rows.len(), page);
        Selection {
            rows: rows.slice(range).iter().collect(),
            total: rows.len() as u64,
        }
    }

    /// The page's slice of all that match, which come in final order.
    fn of_matches(matches: impl Iterator<Item = u32>, page: Page) -> Selection {
        let all: Vec<u32> = matches.collect();
        let range = window(all.len(), page);
        Selection {
            total: all.len() as u64,
            rows: all[range].to_vec(),
        }
    }

    /// The page's slice of all that match, given by distinct sort keys.
    fn of_keys(mut keys: Vec<u64>, page: Page) -> Selection {
        let range = window(keys.len(), page);
        let total = keys.len() as u64;
        if range.end < keys.len() {
            keys.select_nth_unstable(range.end);
        }
        if range.start > 0 {
            keys[..range.end].select_nth_unstable(range.start - 1);
        }
        keys[range.clone()].sort_unstable();
        Selection {
            rows: keys[range].iter().map(|key| row_of(*key)).collect(),
            total,
        }
    }
}

/// The row of a sort key, which is its low half.
fn row_of(key: u64) -> u32 {
    u32::try_from(key & u64::from(u32::MAX)).expect("masked to 32 bits")
}

/// Rows that are looked at one by one.
fn few(rows: usize) -> usize {
    (rows / FEW_SHARE).max(FEW_LEAST)
}

fn window(count: usize, page: Page) -> Range<usize> {
    let start = usize::try_from(page.offset).map_or(count, |offset| offset.min(count));
    start..start.saturating_add(page.limit as usize).min(count)
}

/// The filters of an island query, resolved to what the rows hold.
struct Filters {
    tag: Option<usize>,
    creator: Option<usize>,
    tool: Option<CreatedIn>,
}

impl Filters {
    /// `None` where a named tag or creator does not exist, so that nothing matches.
    fn resolve(history: &History, query: &IslandQuery) -> Option<Filters> {
        let tag = match &query.tag {
            Some(name) => Some(history.find_tag(name)?),
            None => None,
        };
        let creator = match &query.creator {
            Some(slug) => Some(history.find_creator(slug)?),
            None => None,
        };
        Some(Filters {
            tag,
            creator,
            tool: query.created_in,
        })
    }

    fn count(&self) -> usize {
        usize::from(self.tag.is_some())
            + usize::from(self.creator.is_some())
            + usize::from(self.tool.is_some())
    }

    /// The smallest vector among the filters', in final order; all rows where there is no filter.
    fn smallest<'h>(&self, history: &'h History, ordering: usize) -> IntsView<'h> {
        let vectors = [
            self.creator
                .map(|creator| history.creator_rows(creator, ordering)),
            self.tag.map(|tag| history.tag_rows(tag, ordering)),
            self.tool.map(|tool| history.tool_rows(tool, ordering)),
        ];
        let smallest = vectors.into_iter().flatten().min_by_key(|rows| rows.len());
        smallest.unwrap_or_else(|| history.all_rows(ordering))
    }

    fn pass(&self, history: &History, row: u32) -> bool {
        self.tag.is_none_or(|tag| history.row_has_tag(row, tag))
            && self
                .creator
                .is_none_or(|creator| history.row_has_creator(row, creator))
            && self.tool.is_none_or(|tool| history.row_has_tool(row, tool))
    }

    /// The rows that pass every filter and are in `found`; there is one condition at least.
    fn set(&self, history: &History, found: Option<&Matches<'_>>) -> RowSet {
        let sets = [
            found.map(|found| Cow::Owned(found.set())),
            self.creator.map(|creator| history.creator_set(creator)),
            self.tag.map(|tag| history.tag_set(tag)),
            self.tool.map(|tool| history.tool_set(tool)),
        ];
        let meet = |all: Cow<'_, RowSet>, other: Cow<'_, RowSet>| {
            let mut all = all.into_owned();
            all.intersect(&other);
            Cow::Owned(all)
        };
        let in_all = sets.into_iter().flatten().reduce(meet);
        in_all
            .expect("a caller with no condition has a vector in final order")
            .into_owned()
    }
}

impl History {
    /// The rows of a page of `/v1/islands`.
    pub fn select_islands(&self, query: &IslandQuery) -> Selection {
        let Some(filters) = Filters::resolve(self, query) else {
            return Selection::EMPTY;
        };
        let smallest = filters.smallest(self, ordering_of(query.sort, query.order));
        let few = few(self.island_rows());
        let Some(needle) = &query.folded else {
            if filters.count() <= 1 {
                return Selection::of_sorted(smallest, query.page);
            }
            if smallest.len() <= few {
                let matches = smallest.iter().filter(|row| filters.pass(self, *row));
                return Selection::of_matches(matches, query.page);
            }
            return self.select_from(&filters.set(self, None), smallest, query);
        };
        let found = self.titles.find(needle);
        if smallest.len().min(found.at_most()) > few {
            return self.select_from(&filters.set(self, Some(&found)), smallest, query);
        }
        if smallest.len() <= found.at_most() {
            let matches = smallest
                .iter()
                .filter(|row| filters.pass(self, *row) && found.is_in(*row));
            return Selection::of_matches(matches, query.page);
        }
        let rows = found.rows().filter(|row| filters.pass(self, *row));
        let mut keys: Vec<u64> = rows
            .map(|row| self.sort_key(row, query.sort, query.order))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        Selection::of_matches(keys.into_iter().map(row_of), query.page)
    }

    /// The page of what is in `set`, all of which is in `order`.
    fn select_from(&self, set: &RowSet, order: IntsView<'_>, query: &IslandQuery) -> Selection {
        let total = set.len();
        let range = window(total, query.page);
        if range.is_empty() {
            return Selection {
                rows: Vec::new(),
                total: total as u64,
            };
        }
        // Matches up to the end of the page, from whichever end is nearer, and the rows between them.
        let matches = range.end.min(total - range.start);
        if matches * (order.len() / total) > total * STEPS_A_KEY {
            let key = |row| self.sort_key(row, query.sort, query.order);
            return Selection::of_keys(set.iter().map(key).collect(), query.page);
        }
        Selection {
            rows: set.ordered(order, range, total),
            total: total as u64,
        }
    }

    /// The rows of a page of `/v1/creators`; creators are numbered in list order.
    pub fn select_creators(&self, query: &CreatorQuery) -> Selection {
        let Some(needle) = &query.folded else {
            let range = window(self.creator_count(), query.page);
            let number = |at: usize| u32::try_from(at).expect("creators are numbered in u32");
            return Selection {
                rows: range.map(number).collect(),
                total: self.creator_count() as u64,
            };
        };
        let found = self.slugs.find(needle);
        if found.at_most() <= few(self.creator_count()) {
            let mut rows: Vec<u32> = found.rows().collect();
            rows.sort_unstable();
            rows.dedup();
            return Selection::of_matches(rows.into_iter(), query.page);
        }
        let set = found.set();
        let total = set.len();
        Selection {
            rows: set.ascending(window(total, query.page)),
            total: total as u64,
        }
    }
}
