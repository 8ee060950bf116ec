//! The `Link` header of a list page (RFC 8288): first, prev, next and last.

use std::fmt::Write;

use bytes::Bytes;

use crate::request::Page;

/// The links of a page. `url_at` gives the page's own address at another offset.
pub(crate) fn links(page: Page, total: u64, url_at: impl Fn(u64) -> String) -> Bytes {
    let limit = u64::from(page.limit);
    let last = total.saturating_sub(1) / limit * limit;
    let mut links = format!("<{}>; rel=\"first\"", url_at(0));
    let mut add = |offset: u64, rel: &str| {
        let _ = write!(links, ", <{}>; rel=\"{rel}\"", url_at(offset));
    };
    if page.offset > 0 {
        // From beyond the end, the way back is the last page.
        add(page.offset.saturating_sub(limit).min(last), "prev");
    }
    let next = page.offset.saturating_add(limit);
    if next < total {
        add(next, "next");
    }
    add(last, "last");
    links.into()
}
