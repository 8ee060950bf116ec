//! Writer of the CSV files of CONTRACT section 3. The written rows are read back unchanged.

use std::io::{self, Write};

use super::rows::{Cell, FileKind};

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 16;

/// A CSV file that is being written. It has all columns of its kind, including the optional ones.
#[derive(Debug)]
pub struct CsvWriter<W: Write> {
    out: W,
    /// Buffered rows.
    rows: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// Creates a file without a header.
    pub fn rows_only(out: W) -> CsvWriter<W> {
        let rows = Vec::with_capacity(BUFFER + BUFFER / 4);
        CsvWriter { out, rows }
    }

    /// Creates a file and writes its header.
    pub fn begin(kind: FileKind, out: W) -> io::Result<CsvWriter<W>> {
        let mut file = CsvWriter::rows_only(out);
        let header = kind.columns().0.iter();
        file.row(header.map(|name| Cell::Text(Some(name))))?;
        Ok(file)
    }

    /// Flushes the file and returns the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&self.rows)?;
        Ok(self.out)
    }

    /// Writes a row.
    pub fn row<'c>(&mut self, cells: impl IntoIterator<Item = Cell<'c>>) -> io::Result<()> {
        let mut digits = itoa::Buffer::new();
        for (at, cell) in cells.into_iter().enumerate() {
            if at > 0 {
                self.rows.push(b',');
            }
            match cell {
                Cell::Code(code) => self.rows.extend_from_slice(code.text().as_str().as_bytes()),
                Cell::Text(text) => self.text(text.unwrap_or_default()),
                Cell::Tags(tags) => self.text(tags),
                Cell::Count(Some(count)) => {
                    self.rows.extend_from_slice(digits.format(count).as_bytes());
                }
                // The shortest digits that parse to the same number, never with an exponent.
                Cell::Decimal(Some(decimal)) => write!(self.rows, "{decimal}")?,
                Cell::Time(time) => write!(self.rows, "{}", time.0)?,
                Cell::Count(None) | Cell::Decimal(None) => {}
            }
        }
        self.rows.push(b'\n');
        if self.rows.len() >= BUFFER {
            self.out.write_all(&self.rows)?;
            self.rows.clear();
        }
        Ok(())
    }

    /// Writes a text, in quotes if it contains a character of the format.
    fn text(&mut self, text: &str) {
        if text.contains([',', '"', '\r', '\n']) {
            self.rows.push(b'"');
            self.rows
                .extend_from_slice(text.replace('"', "\"\"").as_bytes());
            self.rows.push(b'"');
        } else {
            self.rows.extend_from_slice(text.as_bytes());
        }
    }
}
