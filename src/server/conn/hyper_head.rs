//! Response heads as hyper writes them, and everything that [`TimedIo`](super::timed_io) assumes of hyper.
//!
//! Hyper gets responses without a body and without headers except `connection`. It is assumed that:
//!
//! - it writes each head with one call, whole; only `100 Continue` may come before it in the same call;
//! - it handles no further request before `poll_flush` is ready;
//! - a head is the status line, then at most these lines in this order: `connection`, `content-length: 0`,
//!   `date`, then the empty line;
//! - a head for which no response was made is the response to a request that hyper cannot parse, and the last
//!   one of its connection.
//!
//! The version of hyper is pinned, and tests run these assumptions against hyper alone. A head of another form
//! closes its connection and is counted: a response with two lengths would let a client read one response as two.

/// The start of a head that precedes a response (RFC 9110 section 15.2.1).
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 ";
const CONNECTION: &[u8] = b"connection: ";
const EMPTY_BODY: &[u8] = b"content-length: 0\r\n";
const DATE: &[u8] = b"date: ";
const DATE_BYTES: usize = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n".len();

/// The parts of a head that a response keeps.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HyperHead<'h> {
    /// With its line break.
    pub(super) status_line: &'h [u8],
    /// The line `connection`, or nothing.
    pub(super) connection: &'h [u8],
    /// The line `date` and the empty line.
    pub(super) date: &'h [u8],
}

impl<'h> HyperHead<'h> {
    /// Splits a head; `None` if it has another form than expected.
    #[inline]
    pub(super) fn parse(head: &'h [u8]) -> Option<HyperHead<'h>> {
        let (status_line, rest) = head.split_at(line_end(head)?);
        let end = if rest.starts_with(CONNECTION) {
            line_end(rest)?
        } else {
            0
        };
        let (connection, rest) = rest.split_at(end);
        let date = rest.strip_prefix(EMPTY_BODY).unwrap_or(rest);
        let is_date =
            date.len() == DATE_BYTES && date.starts_with(DATE) && date.ends_with(b"\r\n\r\n");
        is_date.then_some(HyperHead {
            status_line,
            connection,
            date,
        })
    }
}

/// The end of the first line, behind its line break. Lines are short: a search by vectors takes longer to begin.
fn line_end(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|byte| *byte == b'\n');
    end.map(|at| at + 1)
}

/// Returns the status of a head that hyper writes by itself.
pub(super) fn status(head: &[u8]) -> u16 {
    let digits = head.get(9..12).unwrap_or_default();
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    digits.parse().unwrap_or(400)
}

#[cfg(test)]
#[path = "hyper_head_tests.rs"]
mod tests;
