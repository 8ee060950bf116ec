//! List pages, gathered from rows that were serialized when publishing.
//!
//! Which rows those are, is found in `select`.

use super::body::{Content, Encoded, Found, gzip};
use super::history::History;
use super::links::links;
use super::list_page::Frame;
use super::read_context::ReadContext;
use super::response_cache::Keep;
use super::select::Selection;
use crate::request::{CreatorQuery, IslandQuery, Page};

impl History {
    /// A page of `/v1/islands`, and when it is kept. Its links begin with `base_url`.
    pub(crate) fn island_page(
        &self,
        query: &IslandQuery,
        base_url: &str,
        context: ReadContext<'_>,
    ) -> (Found, Keep) {
        let filters = [
            query.tag.is_some(),
            query.creator.is_some(),
            query.created_in.is_some(),
        ];
        let filters = filters.into_iter().filter(|is| *is).count();
        let list = List {
            frame: &self.island_frame,
            is_walk: query.folded.is_some() || filters > 1,
            page: query.page,
            found: self.select_islands(query),
            row: |row| self.island_row(row),
            url: format!("{base_url}/v1/islands?{}", query.to_query()),
        };
        self.page(&list, context)
    }

    /// A page of `/v1/creators`, and when it is kept. Its links begin with `base_url`.
    pub(crate) fn creator_page(
        &self,
        query: &CreatorQuery,
        base_url: &str,
        context: ReadContext<'_>,
    ) -> (Found, Keep) {
        let list = List {
            frame: &self.creator_frame,
            is_walk: query.folded.is_some(),
            page: query.page,
            found: self.select_creators(query),
            row: |row| self.creator_row(row),
            url: format!("{base_url}/v1/creators?{}", query.to_query()),
        };
        self.page(&list, context)
    }

    /// Puts a page together, unless no content is needed: the links and the length are those of its rows.
    fn page<'h>(
        &self,
        list: &List<'_, impl Fn(u32) -> &'h [u8]>,
        context: ReadContext<'_>,
    ) -> (Found, Keep) {
        let List {
            frame, page, found, ..
        } = list;
        let rows = || found.rows.iter().map(|row| (list.row)(*row));
        let bytes = frame.length(rows(), *page, found.total);
        let omitted = self.page_tags.omitted(bytes, context.accepts_gzip);
        let body = if (context.needs_content)(&omitted.etag) {
            let text = frame.fill(rows(), *page, found.total);
            let text = if omitted.gzip { gzip(&text) } else { text };
            Encoded {
                content: Content::Whole(text.into()),
                ..omitted
            }
        } else {
            omitted
        };
        let keep = if list.is_walk || body.gzip {
            Keep::Always
        } else {
            Keep::OnSecondRequest
        };
        let links = Some(links(*page, found.total, &list.url));
        (Found { body, links }, keep)
    }
}

/// A page of one of the two lists.
struct List<'a, R> {
    frame: &'a Frame,
    /// Whether the rows are not simply a slice of a vector.
    is_walk: bool,
    page: Page,
    found: Selection,
    /// Returns the JSON of a row.
    row: R,
    /// The list's own address, up to the digits of the offset.
    url: String,
}
