//! List pages, gathered from rows that were serialized when publishing.
//!
//! Which rows those are, is found in `select`.

use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;

use super::asker::Asker;
use super::cache::{ByteCache, Keep};
use super::history::History;
use super::links::links;
use super::list_page::ListPage;
use crate::request::{CreatorQuery, IslandQuery};

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
        let is_walk = query.folded.is_some();
        page(&self.creator_pages, query, is_walk, asker, || {
            let found = self.select_creators(query);
            let rows = found.rows.iter().map(|creator| self.creator_row(*creator));
            let text = self.creator_frame.fill(rows, query.page, found.total);
            let url = format!("{base_url}/v1/creators?{}", query.to_query());
            let links = links(query.page, found.total, &url);
            ListPage::new(text, links, self.page_tags)
        })
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
