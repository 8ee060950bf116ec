//! List pages, gathered from rows that were serialized when publishing.
//!
//! Which rows those are, is found in `select`.

use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;

use super::body::Encoded;
use super::cache::{ALLOCATION_BYTES, ByteCache, Keep};
use super::history::History;
use super::links::links;
use super::list_page::{Frame, ListPage};
use super::read_context::ReadContext;
use super::select::Selection;
use crate::request::{CreatorQuery, IslandQuery, Page};

/// A page is kept only if the texts of its query are no longer than this together. Longer ones find
/// nothing, since titles, tags and slugs are shorter; they would fill the cache with themselves.
const KEY_BYTES_MAX: usize = 1024;

impl History {
    /// A page of `/v1/islands`, and its links, which begin with `base_url`.
    pub(crate) fn island_page(
        &self,
        query: &IslandQuery,
        base_url: &str,
        context: ReadContext<'_>,
    ) -> (Encoded, Bytes) {
        let filters = [
            query.tag.is_some(),
            query.creator.is_some(),
            query.created_in.is_some(),
        ];
        let list = List {
            cache: &self.island_pages,
            frame: &self.island_frame,
            is_walk: query.folded.is_some() || filters.into_iter().filter(|is| *is).count() > 1,
            text_bytes: query.text_bytes(),
            page: query.page,
            select: || self.select_islands(query),
            row: |row| self.island_row(row),
            url: || format!("{base_url}/v1/islands?{}", query.to_query()),
        };
        self.page(query, &list, context)
    }

    /// A page of `/v1/creators`, and its links, which begin with `base_url`.
    pub(crate) fn creator_page(
        &self,
        query: &CreatorQuery,
        base_url: &str,
        context: ReadContext<'_>,
    ) -> (Encoded, Bytes) {
        let list = List {
            cache: &self.creator_pages,
            frame: &self.creator_frame,
            is_walk: query.folded.is_some(),
            text_bytes: query.text_bytes(),
            page: query.page,
            select: || self.select_creators(query),
            row: |row| self.creator_row(row),
            url: || format!("{base_url}/v1/creators?{}", query.to_query()),
        };
        self.page(query, &list, context)
    }

    /// A page from the cache, or a new one. If no content is needed, only the rows are found: the links and
    /// the length depend on them.
    fn page<'h, Q: Hash + Eq + Clone>(
        &'h self,
        query: &Q,
        list: &List<'_, Q, impl Fn() -> Selection, impl Fn(u32) -> &'h [u8], impl Fn() -> String>,
        context: ReadContext<'_>,
    ) -> (Encoded, Bytes) {
        let vacancy = match list.cache.get(query, context.client) {
            Ok(page) => return (page.choose(self.page_tags, context), page.links.clone()),
            Err(vacancy) => vacancy,
        };
        let found = (list.select)();
        let rows = || found.rows.iter().map(|row| (list.row)(*row));
        let links = links(list.page, found.total, &(list.url)());
        let bytes = list.frame.length(rows(), list.page, found.total);
        let omitted = self.page_tags.omitted(bytes, context.accepts_gzip);
        if !(context.needs_content)(&omitted.etag) {
            return (omitted, links);
        }
        let text = list.frame.fill(rows(), list.page, found.total);
        let page = Arc::new(ListPage::new(text, links, self.page_tags));
        let keep = if list.is_walk || context.accepts_gzip {
            Keep::AtOnce
        } else {
            Keep::WhenAskedAgain
        };
        if list.text_bytes <= KEY_BYTES_MAX {
            let key_bytes = list.text_bytes + 4 * ALLOCATION_BYTES;
            vacancy.fill(&page, page.bytes() + key_bytes, keep);
        }
        (page.choose(self.page_tags, context), page.links.clone())
    }
}

/// One of the two lists, and a query of it.
struct List<'a, Q, S, R, U> {
    cache: &'a ByteCache<Q, Arc<ListPage>>,
    frame: &'a Frame,
    /// Whether the rows are not simply a slice of a vector.
    is_walk: bool,
    /// What the texts of the query take.
    text_bytes: usize,
    page: Page,
    /// Finds the rows.
    select: S,
    /// The JSON of a row.
    row: R,
    /// The list's own address, up to the digits of the offset.
    url: U,
}
