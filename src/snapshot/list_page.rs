//! List pages, assembled from rows that were serialized by the publish and the text around them.

use bytes::Bytes;
use memchr::memmem;

use super::body::{Compressor, Content, Encoded, EntityTag};
use super::history::History;
use super::service_bodies;
use crate::request::{Endpoint, KEY_MARK, ListQuery, Page};

/// Maximum length of a `Link` header (CONTRACT section 5), far above that of links with usual filters.
/// Clients choose the filters, each of which the header repeats four times, and proxies refuse responses
/// with long heads: nginx by default those above 4 KiB.
const LINKS_BYTES_MAX: usize = 2048;
/// Bytes of a link besides its address: punctuation, the longest relation and the longest offset.
const LINK_BYTES_MAX: usize = ">; rel=\"first\", <".len() + 20;

/// The last byte of a row whose end is the one that many rows share. No JSON contains this byte.
const SHARED_END: u8 = 0;

/// Reads a byte of every cache line of the rows, which are spread over memory: copied one after the
/// other, each would be waited for separately; touched first, they are loaded in parallel. Rows are
/// split after this, since that depends on their last bytes.
fn touch(rows: &[&[u8]]) {
    const LINE_BYTES: usize = 64;
    let mut mixed = 0;
    for row in rows {
        for line in row.chunks(LINE_BYTES) {
            mixed ^= line[0];
        }
        // It may be in one line more.
        mixed ^= row.last().copied().unwrap_or_default();
    }
    std::hint::black_box(mixed);
}

/// A page of `/v1/islands` or `/v1/creators`, whose rows are not selected yet.
#[derive(Debug)]
pub(super) struct ListPage<'a> {
    pub(super) history: &'a History,
    pub(super) endpoint: Endpoint,
    pub(super) query: &'a ListQuery,
    /// The start of each link.
    pub(super) base_url: &'a str,
    pub(super) accepts_gzip: bool,
}

impl ListPage<'_> {
    /// Selects the rows and assembles the page; only its links and length if no content is needed. The length of the
    /// gzip form is not known then.
    pub(super) fn read(self, etag: EntityTag, needs_content: bool) -> Encoded {
        let (history, query, page) = (self.history, self.query, self.query.page);
        let (selected, texts) = if self.endpoint == Endpoint::Creators {
            (history.select_creators(query), &history.creator_rows)
        } else {
            (history.select_islands(query), &history.rows)
        };
        let total = selected.total;
        let rows = selected.rows.iter().map(|at| texts.get(*at as usize));
        let rows: Vec<&[u8]> = rows.collect();
        if needs_content {
            touch(&rows);
        }
        let has_more = page.offset.saturating_add(page.limit.into()) < total;
        let start = service_bodies::list_start(self.endpoint);
        let end = service_bodies::list_end(&history.published, total, has_more, page);
        let bytes = start.len() + rows_bytes(&rows, &history.row_end) + end.len();
        // Even if the page is short: its entity tag is known before its length.
        let is_gzip = self.accepts_gzip;
        let content = if needs_content {
            let mut plain = Vec::with_capacity(bytes);
            plain.extend_from_slice(start.as_bytes());
            append_rows(&mut plain, &rows, &history.row_end);
            plain.extend_from_slice(end.as_bytes());
            if is_gzip {
                plain = Compressor::default().gzip(&plain);
            }
            Content::Whole(plain.into())
        } else {
            Content::Omitted((!is_gzip).then_some(bytes as u64))
        };
        let path = self.endpoint.label();
        let url = [self.base_url, path, "?", &query.to_query()].concat();
        Encoded {
            links: links(page, total, &url),
            is_costly: is_gzip || query.filters.len() > 1,
            ..Encoded::new(content, etag, is_gzip)
        }
    }
}

/// Returns a row in two parts: the second one is the shared end, or empty.
fn row_parts<'a>(row: &'a [u8], shared_end: &'a [u8]) -> [&'a [u8]; 2] {
    match row {
        [start @ .., SHARED_END] => [start, shared_end],
        _ => [row, &[]],
    }
}

/// Returns the length of what [`append_rows`] appends.
fn rows_bytes(rows: &[&[u8]], shared_end: &[u8]) -> usize {
    let row_bytes = |row: &&[u8]| {
        let [start, end] = row_parts(row, shared_end);
        start.len() + end.len()
    };
    rows.iter().map(row_bytes).sum::<usize>() + rows.len().saturating_sub(1)
}

/// Appends the rows of a page, with commas between them.
fn append_rows(out: &mut Vec<u8>, rows: &[&[u8]], shared_end: &[u8]) {
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let [start, end] = row_parts(row, shared_end);
        out.extend_from_slice(start);
        out.extend_from_slice(end);
    }
}

/// Returns the `Link` header of a page (RFC 8288): first, prev, next and last; `None` if it would be too
/// long.
fn links(page: Page, total: u64, url: &str) -> Option<Bytes> {
    let limit = u64::from(page.limit);
    let last = total.saturating_sub(1) / limit * limit;
    let next = page.offset.saturating_add(limit);
    // From beyond the end, the previous page is the last one.
    let previous = page.offset.saturating_sub(limit).min(last);
    let links = [
        (">; rel=\"first\", <", Some(0)),
        (">; rel=\"prev\", <", (page.offset > 0).then_some(previous)),
        (">; rel=\"next\", <", (next < total).then_some(next)),
        (">; rel=\"last\"", Some(last)),
    ];
    // Cached with the page, so the capacity is not to be much more than the length.
    let count = links.iter().filter(|(_, offset)| offset.is_some()).count();
    // A key that was sent as a filter by mistake is in no header either.
    if count * url.len() > LINKS_BYTES_MAX || memmem::find(url.as_bytes(), KEY_MARK).is_some() {
        return None;
    }
    let mut text = Vec::with_capacity(count * (url.len() + LINK_BYTES_MAX));
    text.push(b'<');
    let mut digits = itoa::Buffer::new();
    for (relation, offset) in links {
        let Some(offset) = offset else { continue };
        for part in [url, digits.format(offset), relation] {
            text.extend_from_slice(part.as_bytes());
        }
    }
    (text.len() <= LINKS_BYTES_MAX).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_left_out_where_they_would_be_too_long() {
        for (offset, count) in [(0, 3), (7, 4), (u64::MAX, 3)] {
            let page = Page { limit: 5, offset };
            let bytes = |url: &str| links(page, 100, url).map(|links| links.len());
            let rest = bytes("").unwrap();
            let longest = (LINKS_BYTES_MAX - rest) / count;
            let lengths = [0, 1, 300, longest];
            for length in lengths {
                let found = bytes(&"x".repeat(length));
                assert_eq!(found, Some(rest + count * length), "{offset} {length}");
            }
            for length in [longest + 1, LINKS_BYTES_MAX + 1, 8 * 1024] {
                assert_eq!(bytes(&"x".repeat(length)), None, "{offset} {length}");
            }
        }
    }

    #[test]
    fn the_rows_of_a_page_are_separated_and_their_shared_end_is_inserted() {
        let rows: [&[u8]; 3] = [b"{\"a\":1\0", b"{}", b"{\"b\":2\0"];
        let end = b",\"end\":null}";
        let joined = |count| {
            let mut out = Vec::new();
            append_rows(&mut out, &rows[..count], end);
            assert_eq!(out.len(), rows_bytes(&rows[..count], end), "{count}");
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            joined(3),
            "{\"a\":1,\"end\":null},{},{\"b\":2,\"end\":null}"
        );
        assert_eq!(joined(1), "{\"a\":1,\"end\":null}");
        assert_eq!(joined(0), "");
    }
}
