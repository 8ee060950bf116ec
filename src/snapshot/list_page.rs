//! A list page: the text around its rows, and its entity tags.

use bytes::Bytes;

use super::body::{Content, Encoded, EntityTag};
use super::error::SnapshotError;
use crate::calendar::UnixSeconds;
use crate::request::{LIMIT_MAX, Page};

/// Pieces of a frame.
const FRAME_PIECES: usize = 7;
/// Stands at the end of a row for the end that it shares with others. No JSON holds this byte.
const SHARED_END: u8 = 0;
/// Shorter pages are sent as they are: gzip's own bytes would eat what it saves.
const GZIP_BYTES_MIN: usize = 256;

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

    /// The length of a page's JSON in bytes, without making it.
    pub(crate) fn length<'a>(
        &self,
        rows: impl Iterator<Item = &'a [u8]>,
        page: Page,
        total: u64,
    ) -> usize {
        let end = self.end().len();
        let row_bytes = |row: &[u8]| {
            if is_cut(row) {
                row.len() - 1 + end
            } else {
                row.len()
            }
        };
        let (count, bytes) = rows.fold((0, 0), |(count, bytes), row| {
            (count + 1, bytes + row_bytes(row))
        });
        let commas = usize::saturating_sub(count, 1);
        let digits = |number: u64| itoa::Buffer::new().format(number).len();
        let figures = digits(total) + digits(page.limit.into()) + digits(page.offset);
        let pieces: usize = self.0.iter().map(Bytes::len).sum();
        pieces - end + bytes + commas + figures + more(page, total).len()
    }

    /// The end that many rows share.
    fn end(&self) -> &[u8] {
        &self.0[FRAME_PIECES - 1]
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
        let bytes = self.length(rows.iter().copied(), page, total);
        // A row is cut of the mark at its end after it was copied.
        let mut text = Vec::with_capacity(bytes + 1);
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
        let mut figures = itoa::Buffer::new();
        text.extend_from_slice(after_rows);
        text.extend_from_slice(figures.format(total).as_bytes());
        text.extend_from_slice(after_total);
        text.extend_from_slice(more(page, total).as_bytes());
        text.extend_from_slice(after_more);
        text.extend_from_slice(figures.format(page.limit).as_bytes());
        text.extend_from_slice(after_limit);
        text.extend_from_slice(figures.format(page.offset).as_bytes());
        text.extend_from_slice(close);
        debug_assert_eq!(text.len(), bytes);
        text
    }
}

/// Whether the end of a row is the one that it shares with others.
fn is_cut(row: &[u8]) -> bool {
    row.last() == Some(&SHARED_END)
}

/// Whether rows follow a page, as JSON.
fn more(page: Page, total: u64) -> &'static str {
    let end = page.offset.saturating_add(page.limit.into());
    if end < total { "true" } else { "false" }
}

/// Reads a byte of every cache line of the rows. They lie anywhere in memory: copied one after the
/// other, each is waited for by itself; touched first, they come all at once.
fn touch(rows: &[&[u8]]) {
    const LINE_BYTES: usize = 64;
    let lines = rows.iter().flat_map(|row| row.iter().step_by(LINE_BYTES));
    std::hint::black_box(lines.fold(0, |mixed, byte| mixed ^ byte));
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

impl PageTags {
    /// The form that is sent of a page of that many bytes, without its content: whether it is gzip, and its
    /// entity tag. The length is known of the identity form only.
    pub(crate) fn omitted(self, plain_bytes: usize, accepts_gzip: bool) -> Encoded {
        let gzip = accepts_gzip && plain_bytes >= GZIP_BYTES_MIN;
        Encoded {
            content: Content::Omitted((!gzip).then_some(plain_bytes as u64)),
            etag: if gzip { self.gzip } else { self.plain },
            gzip,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_as_long_as_its_length_says() {
        let section = Bytes::from_static(
            b"{\"islands\":[\0],\"total\":\0,\"more\":\0,\"limit\":\0,\"offset\":\0}\0,\"end\":null}\0\
            {\0]\0a\0b\0c\0d\0e",
        );
        let (islands, creators) = Frame::pair(&section).unwrap();
        arbtest::arbtest(|u| {
            let mut rows: Vec<Vec<u8>> = Vec::new();
            for _ in 0..u.int_in_range(0..=LIMIT_MAX)? {
                let mut row = vec![b'x'; u.int_in_range(1..=40)?];
                if u.arbitrary()? {
                    row.push(SHARED_END);
                }
                rows.push(row);
            }
            let page = Page {
                limit: u.int_in_range(1..=LIMIT_MAX)?,
                offset: u.arbitrary()?,
            };
            let total = u.arbitrary()?;
            for frame in [&islands, &creators] {
                let rows = || rows.iter().map(Vec::as_slice);
                let text = frame.fill(rows(), page, total);
                assert_eq!(text.len(), frame.length(rows(), page, total));
            }
            Ok(())
        });
    }
}
