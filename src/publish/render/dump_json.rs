//! JSON of the dumps: an array of objects with the columns of the CSV files, one object per line.

use std::io::{self, Write};

use super::json::Object;
use crate::dataset::{Cell, FileKind};

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 16;

/// A JSON file that is written row by row.
pub(crate) struct DumpJsonWriter<W> {
    kind: FileKind,
    out: W,
    /// Buffered rows.
    rows: Vec<u8>,
    is_empty: bool,
}

impl<W: Write> DumpJsonWriter<W> {
    pub(crate) fn begin(kind: FileKind, out: W) -> DumpJsonWriter<W> {
        DumpJsonWriter {
            kind,
            out,
            rows: Vec::with_capacity(BUFFER + BUFFER / 4),
            is_empty: true,
        }
    }

    /// Writes a row.
    pub(crate) fn row<'c>(&mut self, cells: impl IntoIterator<Item = Cell<'c>>) -> io::Result<()> {
        let separator = if self.is_empty { b"[\n" } else { b",\n" };
        self.is_empty = false;
        self.rows.extend_from_slice(separator);
        let row = Object::new(&mut self.rows);
        row.members(self.kind.columns().0, cells).end();
        if self.rows.len() >= BUFFER {
            self.out.write_all(&self.rows)?;
            self.rows.clear();
        }
        Ok(())
    }

    /// Closes the array, flushes the buffer and returns the underlying writer.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let end: &[u8] = if self.is_empty { b"[]\n" } else { b"\n]\n" };
        self.rows.extend_from_slice(end);
        self.out.write_all(&self.rows)?;
        Ok(self.out)
    }
}
