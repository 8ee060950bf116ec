//! Writer of the CSV files of CONTRACT section 3. The written rows are read back unchanged.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use csv::QuoteStyle;

use super::rows::FileKind;
use super::rows::{Island, Metrics, Profile};
use crate::calendar::UnixSeconds;
use crate::model::{CreatedIn, CreatorSlug, IslandCode, SortField};

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 16;

/// Writer of rows of one kind, implemented for CSV and JSON.
pub trait RowWriter {
    /// Writes a row of islands.csv.
    fn island(&mut self, island: &Island) -> io::Result<()>;
    /// Writes a row of creators.csv.
    fn profile(&mut self, profile: &Profile) -> io::Result<()>;
    /// Writes a row of a daily file.
    fn day(&mut self, code: IslandCode, metrics: &Metrics) -> io::Result<()>;
    /// Writes a row of a ccu file.
    fn peak(&mut self, code: IslandCode, peak_ccu: Option<u64>) -> io::Result<()>;
    /// Writes a row of a live file.
    fn players(&mut self, code: IslandCode, players: u64) -> io::Result<()>;
    /// Writes a row of platform.csv.
    fn point(&mut self, time: UnixSeconds, players: u64) -> io::Result<()>;
}

/// A CSV file that is being written. It has all columns of its kind, including the optional ones.
#[derive(Debug)]
pub struct CsvWriter<W: Write> {
    out: csv::Writer<W>,
    field: String,
}

impl<W: Write> RowWriter for CsvWriter<W> {
    fn island(&mut self, island: &Island) -> io::Result<()> {
        self.text(island.code.text().as_str())?;
        self.text(&island.title)?;
        self.text(island.creator.as_ref().map_or("", CreatorSlug::as_str))?;
        self.text(island.created_in.map_or("", CreatedIn::as_str))?;
        self.text(&island.tags.join("|"))?;
        self.end()
    }

    fn profile(&mut self, profile: &Profile) -> io::Result<()> {
        self.text(profile.slug.as_str())?;
        self.text(profile.name.as_deref().unwrap_or_default())?;
        self.count(profile.followers)?;
        self.count(profile.following)?;
        self.count(profile.lifetime_plays)?;
        self.end()
    }

    fn day(&mut self, code: IslandCode, metrics: &Metrics) -> io::Result<()> {
        self.text(code.text().as_str())?;
        for field in SortField::ALL {
            self.count(metrics.count(field))?;
        }
        // The shortest digits that parse to the same number, never with an exponent.
        self.show(metrics.average_minutes_per_player())?;
        self.show(metrics.retention_d1())?;
        self.show(metrics.retention_d7())?;
        self.end()
    }

    fn peak(&mut self, code: IslandCode, peak_ccu: Option<u64>) -> io::Result<()> {
        self.text(code.text().as_str())?;
        self.count(peak_ccu)?;
        self.end()
    }

    fn players(&mut self, code: IslandCode, players: u64) -> io::Result<()> {
        self.peak(code, Some(players))
    }

    fn point(&mut self, time: UnixSeconds, players: u64) -> io::Result<()> {
        self.show(Some(time.0))?;
        self.count(Some(players))?;
        self.end()
    }
}

impl<W: Write> CsvWriter<W> {
    /// Creates a file and writes its header.
    pub fn begin(kind: FileKind, out: W) -> io::Result<CsvWriter<W>> {
        // Numbers and codes never need quotes, so they are not searched for characters to quote.
        let quotes = match kind {
            FileKind::Islands | FileKind::Creators => QuoteStyle::Necessary,
            _ => QuoteStyle::Never,
        };
        let mut out = csv::WriterBuilder::new()
            .quote_style(quotes)
            .buffer_capacity(BUFFER)
            .from_writer(out);
        out.write_record(kind.columns().0)?;
        let field = String::new();
        Ok(CsvWriter { out, field })
    }

    /// Flushes the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        Ok(self.out.write_field(text)?)
    }

    fn count(&mut self, count: Option<u64>) -> io::Result<()> {
        let mut figures = itoa::Buffer::new();
        let text = count.map_or("", |count| figures.format(count));
        Ok(self.out.write_field(text)?)
    }

    fn show(&mut self, value: Option<impl Display>) -> io::Result<()> {
        self.field.clear();
        if let Some(value) = value {
            write!(self.field, "{value}").map_err(io::Error::other)?;
        }
        Ok(self.out.write_field(&self.field)?)
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(self.out.write_record(None::<&[u8]>)?)
    }
}
