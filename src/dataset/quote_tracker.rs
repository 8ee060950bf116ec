//! Detection of quotes that RFC 4180 does not allow: text after the closing quote of a field.
//!
//! The CSV parser takes such text as part of the field. It is the sign of a stray quote earlier in the
//! file, which made one field of everything up to the next quote, possibly with whole rows.

/// State of the quotes of a file, kept from one chunk to the next.
#[derive(Debug)]
pub(super) struct QuoteTracker {
    /// Whether the next bytes are in a quoted field.
    is_inside: bool,
    /// Whether the last byte was a quote in a quoted field: the next byte decides whether it closed the
    /// field.
    is_undecided: bool,
    /// The last byte of the chunk before; `None` at the beginning of the file.
    last: Option<u8>,
}

impl QuoteTracker {
    pub(super) fn new() -> QuoteTracker {
        QuoteTracker {
            is_inside: false,
            is_undecided: false,
            last: None,
        }
    }

    /// Begins a chunk of the file, before [`QuoteTracker::meet`] is called for its quotes. Returns
    /// whether its first byte is text after a closing quote.
    pub(super) fn begin(&mut self, piece: &[u8]) -> bool {
        let first = piece.first().filter(|_| self.is_undecided);
        first.is_some_and(|first| *first != b'"' && self.close(*first))
    }

    /// Processes the quote at a position of the chunk; quotes must be passed in order. Returns whether
    /// the next byte is text after a closing quote.
    pub(super) fn meet(&mut self, piece: &[u8], place: usize) -> bool {
        if self.is_undecided {
            // The second of a pair, which encodes one quote.
            self.is_undecided = false;
            return false;
        }
        if !self.is_inside {
            let before = match place {
                0 => self.last.unwrap_or(b'\n'),
                // A byte order mark at the beginning of the file is not part of the first field.
                3 if self.last.is_none() && piece.starts_with(b"\xEF\xBB\xBF") => b'\n',
                _ => piece[place - 1],
            };
            self.is_inside = matches!(before, b',' | b'\n' | b'\r');
            return false;
        }
        self.is_undecided = true;
        let next = piece.get(place + 1);
        next.is_some_and(|next| *next != b'"' && self.close(*next))
    }

    /// Ends a chunk of the file.
    pub(super) fn end(&mut self, piece: &[u8]) {
        self.last = piece.last().copied().or(self.last);
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

    /// Offsets of text after a closing quote, when read in chunks of this length.
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
    fn text_after_a_closing_quote_is_found_at_every_chunk_size() {
        for (text, want) in [
            ("a,b\n1,2\n", &[][..]),
            ("\"a\",\"b\"\r\n\"\",\"\"\"\"\n", &[]),
            ("\"a,\nb\"\"\",c", &[]),
            // A quote within an unquoted field is an ordinary character.
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
