//! A list page as it is kept: the text around its rows, both forms, its links, its cache key.

use std::sync::OnceLock;

use bytes::Bytes;

use super::body::{Encoded, EntityTag, gzip};
use super::error::SnapshotError;
use crate::calendar::UnixSeconds;
use crate::request::{CreatorQuery, IslandQuery, Page};

/// Pieces of a frame.
const FRAME_PIECES: usize = 6;

/// The text around the rows of a page: six pieces between which rows and numbers go.
#[derive(Debug)]
pub(crate) struct Frame([Bytes; FRAME_PIECES]);

impl Frame {
    /// Both frames out of their section, where NULs separate the twelve pieces.
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
        ] = &self.0;
        let mut text = Vec::with_capacity(512 * page.limit as usize);
        text.extend_from_slice(open);
        for (at, row) in rows.enumerate() {
            if at > 0 {
                text.push(b',');
            }
            text.extend_from_slice(row);
        }
        let has_more = page.offset.saturating_add(u64::from(page.limit)) < total;
        text.extend_from_slice(after_rows);
        text.extend_from_slice(total.to_string().as_bytes());
        text.extend_from_slice(after_total);
        text.extend_from_slice(if has_more { b"true" } else { b"false" });
        text.extend_from_slice(after_more);
        text.extend_from_slice(page.limit.to_string().as_bytes());
        text.extend_from_slice(after_limit);
        text.extend_from_slice(page.offset.to_string().as_bytes());
        text.extend_from_slice(close);
        text
    }
}

/// What an assembled page is remembered by: the normalized query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PageKey {
    Islands(IslandQuery),
    Creators(CreatorQuery),
}

/// An assembled page. Its gzip form is made when first asked for.
#[derive(Debug)]
pub(crate) struct ListPage {
    plain: Encoded,
    gzip: OnceLock<Option<Encoded>>,
    pub(crate) links: Bytes,
}

impl ListPage {
    pub(crate) fn new(text: Vec<u8>, links: Bytes, published: UnixSeconds) -> ListPage {
        let etag = EntityTag::new(published, crc32fast::hash(&text), false);
        let plain = Encoded {
            bytes: text.into(),
            etag,
            gzip: false,
        };
        ListPage {
            plain,
            gzip: OnceLock::new(),
            links,
        }
    }

    /// What the page takes in a cache. The gzip form, at most half as long again, comes later: its
    /// room is counted now.
    pub(crate) fn bytes(&self) -> usize {
        self.plain.bytes.len() * 3 / 2 + self.links.len()
    }

    pub(crate) fn choose(&self, published: UnixSeconds, accepts_gzip: bool) -> Encoded {
        if !accepts_gzip {
            return self.plain.clone();
        }
        let packed = self.gzip.get_or_init(|| {
            let bytes = gzip(&self.plain.bytes);
            let crc = crc32fast::hash(&self.plain.bytes);
            let etag = EntityTag::new(published, crc, true);
            (!bytes.is_empty()).then(|| Encoded {
                bytes: bytes.into(),
                etag,
                gzip: true,
            })
        });
        packed.as_ref().unwrap_or(&self.plain).clone()
    }
}
