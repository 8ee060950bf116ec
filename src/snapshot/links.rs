//! The `Link` header of a list page (RFC 8288): first, prev, next and last.

use bytes::Bytes;

use crate::request::Page;

/// What a link has beside its address: punctuation, the longest relation and the longest offset.
const LINK_BYTES_MAX: usize = ", <>; rel=\"first\"".len() + 20;

/// The links of a page, whose own address is `url` and its offset.
pub(crate) fn links(page: Page, total: u64, url: &str) -> Bytes {
    let limit = u64::from(page.limit);
    let last = total.saturating_sub(1) / limit * limit;
    let next = page.offset.saturating_add(limit);
    // From beyond the end, the way back is the last page.
    let previous = page.offset.saturating_sub(limit).min(last);
    let links = [
        ("first", Some(0)),
        ("prev", (page.offset > 0).then_some(previous)),
        ("next", (next < total).then_some(next)),
        ("last", Some(last)),
    ];
    // Kept with the page: no room is to be left over where the address is long.
    let count = links.iter().filter(|(_, offset)| offset.is_some()).count();
    let mut text = Vec::with_capacity(count * (url.len() + LINK_BYTES_MAX));
    let mut figures = itoa::Buffer::new();
    for (relation, offset) in links {
        let Some(offset) = offset else { continue };
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        text.push(b'<');
        text.extend_from_slice(url.as_bytes());
        text.extend_from_slice(figures.format(offset).as_bytes());
        text.extend_from_slice(b">; rel=\"");
        text.extend_from_slice(relation.as_bytes());
        text.push(b'"');
    }
    text.into()
}
