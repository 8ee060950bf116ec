//! The text around the rows of a list page.

use bytes::Bytes;

use super::error::SnapshotError;
use super::format::Section;
use crate::request::Page;

const PARTS: usize = 7;
/// The last byte of a row whose end is the one that many rows share. No JSON contains this byte.
const SHARED_END: u8 = 0;

/// The text of a list page without its rows: six parts between which rows and numbers are inserted,
/// and the end that many rows share.
#[derive(Debug)]
pub(crate) struct PageTemplate([Bytes; PARTS]);

impl PageTemplate {
    /// Decodes the templates of islands and creators from their section, where NUL separates the
    /// parts.
    pub(crate) fn pair(section: &Bytes) -> Result<[PageTemplate; 2], SnapshotError> {
        let parts = section.split(|byte| *byte == 0);
        let parts: Vec<Bytes> = parts.map(|part| section.slice_ref(part)).collect();
        let (templates, rest) = parts.as_chunks();
        match templates {
            [islands, creators] if rest.is_empty() => {
                Ok([islands, creators].map(|parts: &[Bytes; PARTS]| PageTemplate(parts.clone())))
            }
            _ => {
                Err(Section::PageTemplates.malformed("it does not have the parts of two templates"))
            }
        }
    }

    /// Returns the length of a page in bytes without making it.
    pub(crate) fn page_bytes(&self, rows: &[&[u8]], page: Page, total: u64) -> usize {
        let [.., end] = &self.0;
        let cut = rows.iter().filter(|row| is_cut(row)).count();
        let row_bytes: usize = rows.iter().map(|row| row.len()).sum();
        let commas = rows.len().saturating_sub(1);
        let digits = |number: u64| itoa::Buffer::new().format(number).len();
        let numbers = digits(total) + digits(page.limit.into()) + digits(page.offset);
        let parts: usize = self.0.iter().map(Bytes::len).sum();
        parts - end.len() + row_bytes - cut
            + cut * end.len()
            + commas
            + numbers
            + has_more(page, total).len()
    }

    /// Returns the JSON of a page.
    pub(crate) fn fill(&self, rows: &[&[u8]], page: Page, total: u64) -> Vec<u8> {
        let [
            open,
            before_total,
            before_more,
            before_limit,
            before_offset,
            close,
            end,
        ] = &self.0;
        touch(rows);
        let bytes = self.page_bytes(rows, page, total);
        // The mark at the end of a row is copied before it is removed.
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
        let mut digits = [itoa::Buffer::new(); 3];
        let [total_digits, limit_digits, offset_digits] = &mut digits;
        for (before, value) in [
            (before_total, total_digits.format(total)),
            (before_more, has_more(page, total)),
            (before_limit, limit_digits.format(page.limit)),
            (before_offset, offset_digits.format(page.offset)),
        ] {
            text.extend_from_slice(before);
            text.extend_from_slice(value.as_bytes());
        }
        text.extend_from_slice(close);
        debug_assert_eq!(text.len(), bytes);
        text
    }
}

/// Returns `true` if the end of a row is the one that it shares with others.
fn is_cut(row: &[u8]) -> bool {
    row.last() == Some(&SHARED_END)
}

/// Returns as JSON whether rows follow a page.
fn has_more(page: Page, total: u64) -> &'static str {
    let end = page.offset.saturating_add(page.limit.into());
    if end < total { "true" } else { "false" }
}

/// Reads a byte of every cache line of the rows, which are spread over memory: copied one after the
/// other, each would be waited for separately; touched first, they are loaded in parallel.
fn touch(rows: &[&[u8]]) {
    const LINE_BYTES: usize = 64;
    let lines = rows.iter().flat_map(|row| row.iter().step_by(LINE_BYTES));
    std::hint::black_box(lines.fold(0, |mixed, byte| mixed ^ byte));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::LIMIT_MAX;

    #[test]
    fn a_page_is_as_long_as_its_length_says() {
        let section = Bytes::from_static(
            b"{\"islands\":[\0],\"total\":\0,\"more\":\0,\"limit\":\0,\"offset\":\0}\0,\"end\":null}\0\
            {\0]\0a\0b\0c\0d\0e",
        );
        let [islands, creators] = PageTemplate::pair(&section).unwrap();
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
            let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            for template in [&islands, &creators] {
                let text = template.fill(&rows, page, total);
                assert_eq!(text.len(), template.page_bytes(&rows, page, total));
            }
            Ok(())
        });
    }
}
