//! A list page as it is kept: the text around its rows, both forms, its links.

use std::sync::OnceLock;

use bytes::Bytes;

use super::body::{Encoded, EntityTag, gzip};
use super::error::SnapshotError;
use crate::calendar::UnixSeconds;
use crate::request::{LIMIT_MAX, Page};

/// Pieces of a frame.
const FRAME_PIECES: usize = 7;
/// Stands at the end of a row for the end that it shares with others. No JSON holds this byte.
const SHARED_END: u8 = 0;
/// The longest `total`, `hasMore`, `limit` and `offset`.
const FIGURES_BYTES_MAX: usize = 20 + 5 + 3 + 20;

/// The text of a page that is not in its rows: six pieces between which rows and numbers go, and the
/// end that many rows share.
#[derive(Debug)]
pub(crate) struct Frame([Bytes; FRAME_PIECES]);

impl Frame {
    /// Both frames out of their section, where NULs separate the pieces.
    pub(crate) fn pair(section: &Bytes) -> Result<(Frame, Frame), SnapshotError> {
        let pieces: Vec<Bytes> = section
            .split(|byte| *byte == 0)
            .map(|piece| section.slice_ref(piece))
            .collect();
        let (islands, creators) = pieces.split_at(pieces.len().min(FRAME_PIECES));
        let frame = |pieces: &[Bytes]| {
            let pieces = <[Bytes; FRAME_PIECES]>::try_from(pieces.to_vec());
            pieces.map(Frame).map_err(|found| {
                SnapshotError::malformed("section Frames", format!("{} pieces", found.len()))
            })
        };
        Ok((frame(islands)?, frame(creators)?))
    }

    /// A page's JSON: the rows between the pieces.
    pub(crate) fn fill<'a>(
        &self,
        rows: impl Iterator<Item = &'a [u8]>,
        page: Page,
        total: u64,
    ) -> Vec<u8> {
        let [
            open,
            after_rows,
            after_total,
            after_more,
            after_limit,
            close,
            end,
        ] = &self.0;
        let mut held: [&[u8]; LIMIT_MAX as usize] = [&[]; LIMIT_MAX as usize];
        let mut count = 0;
        for (place, row) in held.iter_mut().zip(rows) {
            *place = row;
            count += 1;
        }
        let rows = &held[..count];
        touch(rows);
        let pieces: usize = self.0.iter().map(Bytes::len).sum();
        let is_cut = |row: &[u8]| row.last() == Some(&SHARED_END);
        let row_bytes = |row: &&[u8]| 1 + row.len() + if is_cut(row) { end.len() } else { 0 };
        let row_bytes: usize = rows.iter().map(row_bytes).sum();
        let mut text = Vec::with_capacity(pieces + row_bytes + FIGURES_BYTES_MAX);
        text.extend_from_slice(open);
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            text.extend_from_slice(row);
            if is_cut(row) {
                text.pop();
                text.extend_from_slice(end);
            }
        }
        let has_more = page.offset.saturating_add(u64::from(page.limit)) < total;
        let mut figures = itoa::Buffer::new();
        text.extend_from_slice(after_rows);
        text.extend_from_slice(figures.format(total).as_bytes());
        text.extend_from_slice(after_total);
        text.extend_from_slice(if has_more { b"true" } else { b"false" });
        text.extend_from_slice(after_more);
        text.extend_from_slice(figures.format(page.limit).as_bytes());
        text.extend_from_slice(after_limit);
        text.extend_from_slice(figures.format(page.offset).as_bytes());
        text.extend_from_slice(close);
        text
    }
}

/// Reads a byte of every cache line of the rows. They lie anywhere in memory: copied one after the
/// other, each is waited for by itself; touched first, they come all at once.
fn touch(rows: &[&[u8]]) {
    const LINE_BYTES: usize = 64;
    let lines = rows.iter().flat_map(|row| row.iter().step_by(LINE_BYTES));
    std::hint::black_box(lines.fold(0, |mixed, byte| mixed ^ byte));
}

/// An assembled page. Its gzip form is made when first asked for.
#[derive(Debug)]
pub(crate) struct ListPage {
    plain: Encoded,
    gzip: OnceLock<Option<Encoded>>,
    pub(crate) links: Bytes,
}

/// The entity tags of a snapshot's pages. A page is made of nothing but the payload and the query, so
/// all pages share the payload's: for one address, another tag is another page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageTags {
    plain: EntityTag,
    gzip: EntityTag,
}

impl PageTags {
    pub(crate) fn new(published: UnixSeconds, checksum: u32) -> PageTags {
        PageTags {
            plain: EntityTag::new(published, checksum, false),
            gzip: EntityTag::new(published, checksum, true),
        }
    }
}

impl ListPage {
    pub(crate) fn new(text: Vec<u8>, links: Bytes, tags: PageTags) -> ListPage {
        ListPage {
            plain: Encoded {
                bytes: text.into(),
                etag: tags.plain,
                gzip: false,
            },
            gzip: OnceLock::new(),
            links,
        }
    }

    /// What the page takes in a cache. The gzip form, at most half as long again, comes later: its
    /// room is counted now.
    pub(crate) fn bytes(&self) -> usize {
        self.plain.bytes.len() * 3 / 2 + self.links.len()
    }

    pub(crate) fn choose(&self, tags: PageTags, accepts_gzip: bool) -> Encoded {
        if !accepts_gzip {
            return self.plain.clone();
        }
        let packed = self.gzip.get_or_init(|| {
            let bytes = gzip(&self.plain.bytes);
            (!bytes.is_empty()).then(|| Encoded {
                bytes: bytes.into(),
                etag: tags.gzip,
                gzip: true,
            })
        });
        packed.as_ref().unwrap_or(&self.plain).clone()
    }
}
