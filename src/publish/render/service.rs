//! Templates of list pages.

use crate::calendar::UnixSeconds;

/// Text around the rows of list pages, in parts terminated by NUL: islands, then creators. The last part
/// is the common end of rows, which creators do not have.
pub(crate) fn page_templates(published: UnixSeconds, island_end: &[u8]) -> Vec<u8> {
    let pieces = |name: &str| {
        format!(
            "{{\"{name}\":[\0],\"meta\":{{\"generatedAt\":\"{published}\",\"total\":\0,\"hasMore\":\0,\"limit\":\0,\"offset\":\0}}}}"
        )
    };
    let mut out = pieces("islands").into_bytes();
    out.push(0);
    out.extend_from_slice(island_end);
    out.extend_from_slice(format!("\0{}\0", pieces("creators")).as_bytes());
    out
}
