//! `SnapshotError`: a published file that cannot be used.

use std::fmt::{self, Display};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::regular_file::with_path;
use crate::request::Payload;

/// A published file that cannot be used, or a body in it that must not be sent.
#[derive(Debug)]
pub enum SnapshotError {
    Io(io::Error),
    /// A part of the file is damaged, missing or of another version. The text names the part.
    Damaged(String),
}

impl SnapshotError {
    /// A part is missing, has the wrong length or points outside the file.
    pub(crate) fn malformed(part: impl Display, problem: impl Display) -> SnapshotError {
        SnapshotError::Damaged(format!("{part}: {problem}; publish again with --full"))
    }

    /// Adds the path of the file to the message.
    pub(crate) fn in_file(self, path: &Path) -> SnapshotError {
        match self {
            SnapshotError::Io(error) => SnapshotError::Io(with_path(path)(error)),
            SnapshotError::Damaged(problem) => {
                SnapshotError::Damaged(format!("{}: {problem}", path.display()))
            }
        }
    }

    /// Compares the checksum of a part with the one written with the data.
    pub(crate) fn expect_checksum(
        part: impl Display,
        written: u32,
        found: u32,
    ) -> Result<(), SnapshotError> {
        if written == found {
            return Ok(());
        }
        Err(SnapshotError::Damaged(format!(
            "{part} is damaged: checksum {found:08x}, written as {written:08x}; publish again with --full"
        )))
    }
}

/// Does work on what `path` names. A panic is an error too: it must not end the thread that loads
/// publishes, whatever they contain.
pub(super) fn catch_panics<T>(
    path: &Path,
    work: impl FnOnce() -> Result<T, SnapshotError>,
) -> Result<T, SnapshotError> {
    // The work shares no state that could be left half changed: all is dropped with its result.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("without a message");
        let problem =
            format!("loading it failed because of a fault of this program; panic: {text}");
        Err(SnapshotError::Damaged(problem).in_file(path))
    })
}

impl Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Io(error) => error.fmt(f),
            SnapshotError::Damaged(problem) => f.write_str(problem),
        }
    }
}

// `source` is not implemented: the message already contains the text of the inner error.
impl std::error::Error for SnapshotError {}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        SnapshotError::Io(error)
    }
}

/// The reason why a route has no response.
#[derive(Debug)]
pub enum Missing {
    /// It is not published.
    Payload(Payload),
    /// The payload does not have the island, the creator or the day.
    NotFound,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let overflow = |number: Option<u32>| number.expect("a number that is too large");
        let cases: [(&dyn Fn() -> u32, &str); 2] = [
            (&|| overflow(None), "a number that is too large"),
            (&|| panic!("{} of 3", 7), "7 of 3"),
        ];
        for (fails, text) in cases {
            let found = catch_panics(Path::new("p/m"), || Ok(fails())).unwrap_err();
            let found = found.to_string();
            assert!(
                found.starts_with("p/m: ") && found.ends_with(&format!("panic: {text}")),
                "{found}"
            );
        }
        assert_eq!(catch_panics(Path::new(""), || Ok(7)).unwrap(), 7);
    }
}
