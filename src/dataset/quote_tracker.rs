//! QuoteTracker of a CSV file that RFC 4180 does not allow: text behind the quote that closes a field.
//!
//! The CSV reader takes such text as a part of the field. It is the trace of a stray quote before it,
//! which made one field of everything up to the next quote, whole rows among it.

/// Follows the quotes of a file from one piece of it to the next.
#[derive(Debug)]
pub(super) struct QuoteTracker {
    /// Whether the bytes that come next are in a quoted field.
    is_inside: bool,
    /// Whether the last byte was a quote within a quoted field, so that the next one tells what it was.
    is_undecided: bool,
    last: u8,
}

impl QuoteTracker {
    pub(super) fn new() -> QuoteTracker {
        QuoteTracker {
            is_inside: false,
            is_undecided: false,
            last: b'\n',
        }
    }

    /// Goes on to a piece of the file. To be called before [`QuoteTracker::meet`] for its quotes. Says whether
    /// its first byte is text behind a closing quote.
    pub(super) fn begin(&mut self, piece: &[u8]) -> bool {
        let first = piece.first().filter(|_| self.is_undecided);
        first.is_some_and(|first| *first != b'"' && self.close(*first))
    }

    /// Goes on to the quote at a place of the piece, each in its turn. Says whether the byte behind it is
    /// text behind a closing quote.
    pub(super) fn meet(&mut self, piece: &[u8], place: usize) -> bool {
        if self.is_undecided {
            // The second of a pair, which stands for one quote in the field.
            self.is_undecided = false;
            return false;
        }
        if !self.is_inside {
            let before = match place {
                0 => self.last,
                // A byte order mark is no part of the first field.
                3 if self.last == b'\n' && piece.starts_with(b"\xEF\xBB\xBF") => b'\n',
                _ => piece[place - 1],
            };
            self.is_inside = matches!(before, b',' | b'\n' | b'\r');
            return false;
        }
        self.is_undecided = true;
        let next = piece.get(place + 1);
        next.is_some_and(|next| *next != b'"' && self.close(*next))
    }

    /// Ends a piece of the file.
    pub(super) fn end(&mut self, piece: &[u8]) {
        self.last = *piece.last().unwrap_or(&self.last);
    }

    fn close(&mut self, next: u8) -> bool {
        self.is_inside = false;
        self.is_undecided = false;
        !matches!(next, b',' | b'\n' | b'\r')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where text follows a closing quote, read in pieces of this length.
    fn strays(text: &str, length: usize) -> Vec<usize> {
        let mut quotes = QuoteTracker::new();
        let mut found = Vec::new();
        for (at, piece) in text.as_bytes().chunks(length).enumerate() {
            let base = at * length;
            if quotes.begin(piece) {
                found.push(base);
            }
            for place in memchr::memchr_iter(b'"', piece) {
                if quotes.meet(piece, place) {
                    found.push(base + place + 1);
                }
            }
            quotes.end(piece);
        }
        found
    }

    #[test]
    fn text_behind_a_closing_quote_is_found_however_the_file_is_cut() {
        for (text, want) in [
            ("a,b\n1,2\n", &[][..]),
            ("\"a\",\"b\"\r\n\"\",\"\"\"\"\n", &[]),
            ("\"a,\nb\"\"\",c", &[]),
            // A quote within an unquoted field is a letter.
            ("a\"b\"c,d\"\n5\" x,\n", &[]),
            ("\"a\"b,c\n", &[3]),
            ("1,\"stray,x\n2,\"Run, hide\",y\n", &[14]),
            ("\"a\" ,\"b\"\"\"c\n", &[3, 10]),
        ] {
            for length in 1..=text.len() {
                assert_eq!(strays(text, length), want, "{text:?} by {length}");
            }
        }
        assert_eq!(strays("\u{feff}\"a\"b", 64), [6]);
    }
}
