//! Writing of the CSV files of CONTRACT section 3. The written rows are read back unchanged.

use std::io::{self, Write};

use super::rows::{Cell, FileKind};

/// Writes the header of a file. It has all columns of its kind, including the optional ones.
pub fn write_csv_header(out: &mut impl Write, kind: FileKind) -> io::Result<()> {
    writeln!(out, "{}", kind.columns().0.join(","))
}

/// Writes a file: its header and its rows.
pub fn write_csv<'c>(
    out: &mut impl Write,
    kind: FileKind,
    rows: impl IntoIterator<Item: IntoIterator<Item = Cell<'c>>>,
) -> io::Result<()> {
    write_csv_header(out, kind)?;
    rows.into_iter().try_for_each(|row| write_csv_row(out, row))
}

/// Writes a row.
pub fn write_csv_row<'c>(
    out: &mut impl Write,
    cells: impl IntoIterator<Item = Cell<'c>>,
) -> io::Result<()> {
    for (at, cell) in cells.into_iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        match cell {
            Cell::Code(code) => out.write_all(code.text().as_str().as_bytes())?,
            Cell::Text(text) => write_text(out, text.unwrap_or_default())?,
            Cell::Tags(tags) => write_text(out, tags)?,
            Cell::Count(Some(count)) => {
                out.write_all(itoa::Buffer::new().format(count).as_bytes())?;
            }
            // The shortest digits that parse to the same number, never with an exponent.
            Cell::Decimal(Some(decimal)) => write!(out, "{decimal}")?,
            Cell::Time(time) => write!(out, "{}", time.0)?,
            Cell::Count(None) | Cell::Decimal(None) => {}
        }
    }
    out.write_all(b"\n")
}

/// Writes a text, in quotes if it contains a character of the format.
fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    if text.contains([',', '"', '\r', '\n']) {
        write!(out, "\"{}\"", text.replace('"', "\"\""))
    } else {
        out.write_all(text.as_bytes())
    }
}
