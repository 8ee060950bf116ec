//! List pages, assembled from rows that were serialized by the publish.

use bytes::Bytes;

use super::body::{Content, Encoded, ReadContext, gzip};
use super::file::Texts;
use super::history::History;
use super::page_template::PageTemplate;
use super::response_cache::Admission;
use super::select::SelectedRows;
use crate::request::{LIMIT_MAX, Page, Route};

/// Shorter pages are not compressed: gzip's own bytes would outweigh the savings.
const GZIP_BYTES_MIN: usize = 256;
/// Bytes of a link besides its address: punctuation, the longest relation and the longest offset.
const LINK_BYTES_MAX: usize = ", <>; rel=\"first\"".len() + 20;

/// A page of one of the two lists.
pub(super) struct ListPage<'a> {
    template: &'a PageTemplate,
    rows: &'a Texts,
    page: Page,
    selected: SelectedRows,
    /// The address of the list up to the digits of the offset.
    url: String,
    /// Whether the rows are not simply a slice of a vector.
    is_computed: bool,
}

impl History {
    /// Selects the rows of a page of `/v1/islands` or `/v1/creators`; `None` for another route. Links
    /// begin with `base_url`.
    pub(super) fn find_list(&self, route: &Route, base_url: &str) -> Option<ListPage<'_>> {
        Some(match route {
            Route::Islands(query) => {
                let filters = usize::from(query.tag.is_some())
                    + usize::from(query.creator.is_some())
                    + usize::from(query.created_in.is_some());
                ListPage {
                    template: &self.island_template,
                    rows: &self.rows,
                    page: query.page,
                    selected: self.select_islands(query),
                    url: format!("{base_url}/v1/islands?{}", query.to_query()),
                    is_computed: query.folded.is_some() || filters > 1,
                }
            }
            Route::Creators(query) => ListPage {
                template: &self.creator_template,
                rows: &self.creator_rows,
                page: query.page,
                selected: self.select_creators(query),
                url: format!("{base_url}/v1/creators?{}", query.to_query()),
                is_computed: query.folded.is_some(),
            },
            _ => return None,
        })
    }

    /// Assembles a page; only its links and length if no content is needed. The length of the gzip
    /// form is not known then. Also returns when to cache it.
    pub(super) fn list_page(
        &self,
        list: &ListPage<'_>,
        context: ReadContext<'_>,
    ) -> (Encoded, Admission) {
        let (page, total) = (list.page, list.selected.total);
        let mut rows: [&[u8]; LIMIT_MAX as usize] = [&[]; LIMIT_MAX as usize];
        let mut count = 0;
        for (text, row) in rows.iter_mut().zip(&list.selected.rows) {
            *text = list.rows.get(*row as usize);
            count += 1;
        }
        let rows = &rows[..count];
        let bytes = list.template.page_bytes(rows, page, total);
        let is_gzip = context.accepts_gzip && bytes >= GZIP_BYTES_MIN;
        let etag = self.page_tags[usize::from(is_gzip)];
        let page_content = if (context.needs_content)(&etag) {
            let text = list.template.fill(rows, page, total);
            Content::Whole(if is_gzip { gzip(&text) } else { text }.into())
        } else {
            Content::Omitted((!is_gzip).then_some(bytes as u64))
        };
        let admission = if list.is_computed || is_gzip {
            Admission::Immediate
        } else {
            Admission::OnSecondRequest
        };
        let body = Encoded {
            content: page_content,
            etag,
            gzip: is_gzip,
            links: Some(links(page, total, &list.url)),
        };
        (body, admission)
    }
}

/// Returns the `Link` header of a page (RFC 8288): first, prev, next and last.
fn links(page: Page, total: u64, url: &str) -> Bytes {
    let limit = u64::from(page.limit);
    let last = total.saturating_sub(1) / limit * limit;
    let next = page.offset.saturating_add(limit);
    // From beyond the end, the previous page is the last one.
    let previous = page.offset.saturating_sub(limit).min(last);
    let links = [
        ("first", Some(0)),
        ("prev", (page.offset > 0).then_some(previous)),
        ("next", (next < total).then_some(next)),
        ("last", Some(last)),
    ];
    // Cached with the page, so the capacity is not to be much more than the length.
    let count = links.iter().filter(|(_, offset)| offset.is_some()).count();
    let mut text = Vec::with_capacity(count * (url.len() + LINK_BYTES_MAX));
    let mut digits = itoa::Buffer::new();
    for (relation, offset) in links {
        let Some(offset) = offset else { continue };
        let open = if text.is_empty() { "<" } else { ", <" };
        let digits = digits.format(offset);
        for part in [open, url, digits, ">; rel=\"", relation, "\""] {
            text.extend_from_slice(part.as_bytes());
        }
    }
    text.into()
}
