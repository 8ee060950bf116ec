//! The text of list pages around their rows.

use std::iter::once;

use bytes::Bytes;

use super::error::SnapshotError;
use super::format::Section;

/// Bytes of both templates, parts of which are repeated with each row. They have less than a kilobyte.
const TEMPLATES_BYTES_MAX: usize = 4 * 1024;

/// The last byte of a row whose end is the one that many rows share. No JSON contains this byte.
const SHARED_END: u8 = 0;

/// The text of a list page without its rows: six parts between which rows and numbers are inserted,
/// and the end that many rows share.
#[derive(Debug)]
pub(crate) struct PageTemplate([Bytes; 7]);

impl PageTemplate {
    /// Decodes the templates of islands and creators from their section, where NUL separates the
    /// parts.
    pub(crate) fn pair(section: &Bytes) -> Result<[PageTemplate; 2], SnapshotError> {
        if section.len() > TEMPLATES_BYTES_MAX {
            let problem = format!("it has more than {TEMPLATES_BYTES_MAX} bytes");
            return Err(Section::PageTemplates.malformed(&problem));
        }
        let parts = section.split(|byte| *byte == 0);
        let parts: Vec<Bytes> = parts.map(|part| section.slice_ref(part)).collect();
        match parts.as_chunks() {
            ([islands, creators], []) => Ok([
                PageTemplate(islands.clone()),
                PageTemplate(creators.clone()),
            ]),
            _ => {
                Err(Section::PageTemplates.malformed("it does not have the parts of two templates"))
            }
        }
    }

    /// Returns the pieces of a page in order. The numbers are the total, whether rows follow, the
    /// limit and the offset.
    pub(super) fn pieces<'a>(
        &'a self,
        rows: &'a [&'a [u8]],
        numbers: [&'a str; 4],
    ) -> impl Iterator<Item = &'a [u8]> {
        let [open, before_numbers @ .., close, shared_end] = &self.0;
        let rows = rows.iter().enumerate().flat_map(move |(at, row)| {
            let comma: &[u8] = if at > 0 { b"," } else { b"" };
            match row.strip_suffix(&[SHARED_END]) {
                Some(start) => [comma, start, shared_end],
                None => [comma, row, b""],
            }
        });
        let numbers = before_numbers.iter().zip(numbers);
        let numbers = numbers.flat_map(|(before, number)| [before, number.as_bytes()]);
        once(&open[..])
            .chain(rows)
            .chain(numbers)
            .chain(once(&close[..]))
    }
}
