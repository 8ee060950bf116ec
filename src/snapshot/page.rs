//! List pages, gathered from rows that were serialized when publishing.
//!
//! Which rows those are, is found in `select`.

use std::sync::Arc;

use bytes::Bytes;

use super::history::History;
use super::links::links;
use super::list_page::{ListPage, PageKey};
use crate::request::{CreatorQuery, IslandQuery};

impl History {
    /// A page of `/v1/islands`; `base_url` begins its links.
    pub(crate) fn island_page(&self, query: &IslandQuery, base_url: &str) -> Arc<ListPage> {
        self.cached(PageKey::Islands(query.clone()), || {
            let found = self.select_islands(query);
            let rows = found.rows.iter().map(|row| self.island_row(*row));
            let text = self.island_frame.fill(rows, query.page, found.total);
            let url_at = |offset| format!("{base_url}/v1/islands?{}", query.to_query(offset));
            (text, links(query.page, found.total, url_at))
        })
    }

    /// A page of `/v1/creators`.
    pub(crate) fn creator_page(&self, query: &CreatorQuery, base_url: &str) -> Arc<ListPage> {
        self.cached(PageKey::Creators(query.clone()), || {
            let found = self.select_creators(query);
            let rows = found.rows.iter().map(|creator| self.creator_row(*creator));
            let text = self.creator_frame.fill(rows, query.page, found.total);
            let url_at = |offset| format!("{base_url}/v1/creators?{}", query.to_query(offset));
            (text, links(query.page, found.total, url_at))
        })
    }

    fn cached(&self, key: PageKey, assemble: impl FnOnce() -> (Vec<u8>, Bytes)) -> Arc<ListPage> {
        if let Some(page) = self.page_cache.get(&key) {
            return page;
        }
        let (text, links) = assemble();
        let page = Arc::new(ListPage::new(text, links, self.stamp.published));
        self.page_cache.insert(key, Arc::clone(&page), page.bytes());
        page
    }
}
