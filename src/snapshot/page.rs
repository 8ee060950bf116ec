//! List pages, gathered from rows that were serialized when publishing.
//!
//! A page costs O(limit) with any sort and at most one filter, however many rows there are: its
//! rows are a slice of a vector in final order. Several filters walk the smallest vector among
//! theirs; a search walks what the index found, or that vector where it is smaller.

use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;

use super::cache::{ByteCache, Keep};
use super::history::{History, ordering_of};
use super::links::links;
use super::list_page::ListPage;
use super::read::Asker;
use super::views::Ints;
use crate::model::CreatedIn;
use crate::request::{CreatorQuery, IslandQuery, Page};

/// The rows of a page and how many rows match in all.
struct Selection {
    rows: Vec<u32>,
    total: u64,
}

impl Selection {
    const EMPTY: Selection = Selection {
        rows: Vec::new(),
        total: 0,
    };

    /// The page's slice of rows that are in final order already.
    fn of_sorted(rows: &Ints, page: Page) -> Selection {
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
}

fn window(count: usize, page: Page) -> std::ops::Range<usize> {
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
    fn smallest(&self, history: &History, ordering: usize) -> Ints {
        let vectors = [
            self.creator
                .map(|creator| history.creator_rows(creator, ordering)),
            self.tag.map(|tag| history.tag_rows(tag, ordering)),
            self.tool.map(|tool| history.tool_rows(tool, ordering)),
        ];
        let smallest = vectors.into_iter().flatten().min_by_key(Ints::len);
        smallest.unwrap_or_else(|| history.all_rows(ordering))
    }

    fn pass(&self, history: &History, row: u32) -> bool {
        self.tag.is_none_or(|tag| history.row_has_tag(row, tag))
            && self
                .creator
                .is_none_or(|creator| history.row_has_creator(row, creator))
            && self.tool.is_none_or(|tool| history.row_has_tool(row, tool))
    }
}

impl History {
    /// A page of `/v1/islands`; `base_url` begins its links.
    pub(crate) fn island_page(
        &self,
        query: &IslandQuery,
        base_url: &str,
        asker: Asker,
    ) -> Arc<ListPage> {
        let filters = [
            query.tag.is_some(),
            query.creator.is_some(),
            query.created_in.is_some(),
        ];
        let is_walk = query.folded.is_some() || filters.into_iter().filter(|is| *is).count() > 1;
        page(&self.island_pages, query, is_walk, asker, || {
            let found = self.select_islands(query);
            let rows = found.rows.iter().map(|row| self.island_row(*row));
            let text = self.island_frame.fill(rows, query.page, found.total);
            let url = format!("{base_url}/v1/islands?{}", query.to_query());
            let links = links(query.page, found.total, &url);
            ListPage::new(text, links, self.page_tags)
        })
    }

    /// A page of `/v1/creators`.
    pub(crate) fn creator_page(
        &self,
        query: &CreatorQuery,
        base_url: &str,
        asker: Asker,
    ) -> Arc<ListPage> {
        page(
            &self.creator_pages,
            query,
            query.folded.is_some(),
            asker,
            || {
                let found = if let Some(needle) = &query.folded {
                    Selection::of_matches(self.slugs.matches(needle).into_iter(), query.page)
                } else {
                    let range = window(self.creator_count(), query.page);
                    let number =
                        |at: usize| u32::try_from(at).expect("creators are numbered in u32");
                    Selection {
                        rows: range.map(number).collect(),
                        total: self.creator_count() as u64,
                    }
                };
                let rows = found.rows.iter().map(|creator| self.creator_row(*creator));
                let text = self.creator_frame.fill(rows, query.page, found.total);
                let url = format!("{base_url}/v1/creators?{}", query.to_query());
                let links = links(query.page, found.total, &url);
                ListPage::new(text, links, self.page_tags)
            },
        )
    }

    fn select_islands(&self, query: &IslandQuery) -> Selection {
        let Some(filters) = Filters::resolve(self, query) else {
            return Selection::EMPTY;
        };
        let smallest = filters.smallest(self, ordering_of(query.sort, query.order));
        let Some(needle) = &query.folded else {
            if filters.count() <= 1 {
                return Selection::of_sorted(&smallest, query.page);
            }
            let matches = smallest.iter().filter(|row| filters.pass(self, *row));
            return Selection::of_matches(matches, query.page);
        };
        let found = self.titles.matches(needle);
        let mut keys: Vec<u64> = found
            .into_iter()
            .filter(|row| filters.pass(self, *row))
            .map(|row| self.sort_key(row, query.sort, query.order))
            .collect();
        let range = window(keys.len(), query.page);
        let total = keys.len() as u64;
        if range.end < keys.len() {
            keys.select_nth_unstable(range.end);
        }
        keys[..range.end].sort_unstable();
        // The low half of a sort key is the row.
        let row_of =
            |key: &u64| u32::try_from(key & u64::from(u32::MAX)).expect("masked to 32 bits");
        Selection {
            rows: keys[range].iter().map(row_of).collect(),
            total,
        }
    }
}

/// A page from the cache, or made. `is_walk` says that its rows are not simply a slice of a vector.
fn page<Q: Hash + Eq + Clone>(
    cache: &ByteCache<Q, Arc<ListPage>>,
    query: &Q,
    is_walk: bool,
    asker: Asker,
    make: impl FnOnce() -> ListPage,
) -> Arc<ListPage> {
    let keep = if is_walk || asker.accepts_gzip {
        Keep::AtOnce
    } else {
        Keep::WhenAskedAgain
    };
    let make = || Ok::<_, Infallible>(Arc::new(make()));
    let Ok(page) = cache.get_or_make(query, asker.client, keep, |page| page.bytes(), make);
    page
}
