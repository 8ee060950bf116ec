//! Kinds of dataset files and their columns; types of their rows, with all fields parsed and all codes
//! resolved; and rows written as CSV, which are read back unchanged.

use std::io::{self, Write};

use crate::calendar::UnixSeconds;
use crate::model::{CreatedIn, CreatorSlug, IslandCode, METRIC_NAMES, SortField};

/// The dumps that repeat the rows of many days: the name, the kind of the rows, which follow a date, and the number of
/// newest held days; all of them if `None`. Where a dataset contains these files, they are not read.
pub const WHOLE_FILES: [(&str, FileKind, Option<usize>); 3] = [
    ("history.csv.gz", FileKind::Daily, None),
    ("last30days.csv.gz", FileKind::Daily, Some(30)),
    ("ccu.csv.gz", FileKind::Ccu, None),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Islands,
    Creators,
    Daily,
    Ccu,
    Live,
    Platform,
}

const DAILY: [&str; 10] = {
    let mut names = ["code"; 10];
    names.split_at_mut(1).1.copy_from_slice(&METRIC_NAMES);
    names
};

impl FileKind {
    /// Returns the column names, of which the first ones are required, and the number of those. Code
    /// refers to a column by its position here.
    pub(crate) fn columns(self) -> (&'static [&'static str], usize) {
        match self {
            FileKind::Islands => (&["code", "title", "creator", "createdIn", "tags"], 5),
            FileKind::Creators => {
                let names = &["slug", "name", "followers", "following", "lifetimePlays"];
                (names, 1)
            }
            FileKind::Daily => (&DAILY, DAILY.len()),
            FileKind::Ccu => (&["code", "peakCCU"], 2),
            FileKind::Live => (&["code", "players"], 2),
            FileKind::Platform => (&["time", "players"], 2),
        }
    }
}

/// A field of a row that is written: text in CSV, a value in JSON. A null is an empty field.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    Code(IslandCode),
    Text(Option<&'a str>),
    Tags(&'a str),
    Count(Option<u64>),
    Decimal(Option<f64>),
    Time(UnixSeconds),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Island {
    pub code: IslandCode,
    /// Title as written; may be empty.
    pub title: Box<str>,
    pub creator: Option<CreatorSlug>,
    pub created_in: Option<CreatedIn>,
    /// Genre tags as written, in their order, joined by `|`; empty for none. Not split, since 300,000 of
    /// them stay in memory.
    pub tags: Box<str>,
}

impl Island {
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.split_terminator('|')
    }

    pub fn cells(&self) -> [Cell<'_>; 5] {
        [
            Cell::Code(self.code),
            Cell::Text(Some(&self.title)),
            Cell::Text(self.creator.as_ref().map(CreatorSlug::as_str)),
            Cell::Text(self.created_in.map(CreatedIn::as_str)),
            Cell::Tags(&self.tags),
        ]
    }
}

/// A row of creators.csv. All members except the slug are optional.
#[derive(Debug, PartialEq, Eq)]
pub struct Profile {
    pub slug: CreatorSlug,
    pub name: Option<Box<str>>,
    pub followers: Option<u64>,
    pub following: Option<u64>,
    /// Total plays of all its islands.
    pub lifetime_plays: Option<u64>,
}

impl Profile {
    pub fn cells(&self) -> [Cell<'_>; 5] {
        [
            Cell::Text(Some(self.slug.as_str())),
            Cell::Text(self.name.as_deref()),
            Cell::Count(self.followers),
            Cell::Count(self.following),
            Cell::Count(self.lifetime_plays),
        ]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayRow {
    /// Position in [`super::Catalogue::islands`].
    pub island: u32,
    /// Whether it is a row of a daily file. A row of a ccu file has only the peak.
    pub is_daily: bool,
    pub metrics: Metrics,
}

impl DayRow {
    pub fn peak_ccu(&self) -> Option<u64> {
        self.metrics.count(SortField::PeakCcu)
    }
}

/// The nine metrics of an island on a day: six counts, and the bits of three decimals. A null is all ones and not
/// `None`, since a year of the platform has 22 million of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics(pub(crate) [u64; 9]);

impl Metrics {
    pub const NULL: Metrics = Metrics([u64::MAX; 9]);

    /// Creates metrics from the six counts in the order of [`SortField::ALL`] (each at most 2^53 - 1),
    /// then average minutes per player and the retention after one and after seven days.
    pub fn new(counts: [Option<u64>; 6], decimals: [Option<f64>; 3]) -> Metrics {
        let bits = decimals.map(|decimal| decimal.map(f64::to_bits));
        let mut metrics = Metrics::NULL;
        for (to, value) in metrics.0.iter_mut().zip(counts.iter().chain(&bits)) {
            *to = value.unwrap_or(u64::MAX);
        }
        metrics
    }

    fn value(&self, place: usize) -> Option<u64> {
        let value = self.0[place];
        (value != u64::MAX).then_some(value)
    }

    pub fn count(&self, field: SortField) -> Option<u64> {
        self.value(field as usize)
    }

    /// Returns average minutes per player, and the retention after one and after seven days.
    pub fn decimals(&self) -> [Option<f64>; 3] {
        [6, 7, 8].map(|place| self.value(place).map(f64::from_bits))
    }

    /// Creates the metrics of a row of a ccu file.
    pub fn of_peak(peak_ccu: Option<u64>) -> Metrics {
        Metrics::new([peak_ccu, None, None, None, None, None], [None; 3])
    }

    /// Returns the fields of a daily row.
    pub fn cells<'c>(&self, code: IslandCode) -> impl Iterator<Item = Cell<'c>> {
        std::iter::once(Cell::Code(code)).chain(self.metric_cells())
    }

    /// Returns the fields of a daily row behind the code.
    pub(crate) fn metric_cells<'c>(&self) -> impl Iterator<Item = Cell<'c>> {
        (0..self.0.len()).map(|place| match self.value(place) {
            count if place < SortField::ALL.len() => Cell::Count(count),
            bits => Cell::Decimal(bits.map(f64::from_bits)),
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct LiveStep {
    /// Time of the step, a multiple of 600.
    pub time: UnixSeconds,
    /// Island position and players, nulls left out, by island ascending.
    pub players: Vec<(u32, u64)>,
}

impl LiveStep {
    /// Returns the total players of the step. A sum of counts may exceed 2^64.
    pub fn total(&self) -> u128 {
        let players = self.players.iter().map(|(_, players)| u128::from(*players));
        players.sum()
    }
}

/// Writes the header of a file. It has all columns of its kind, including the optional ones.
pub fn write_csv_header(out: &mut impl Write, kind: FileKind) -> io::Result<()> {
    writeln!(out, "{}", kind.columns().0.join(","))
}

/// Writes a file. Of each row, the first cells are written, as many as the kind has columns.
pub fn write_csv<'c>(
    out: &mut impl Write,
    kind: FileKind,
    rows: impl IntoIterator<Item: IntoIterator<Item = Cell<'c>>>,
) -> io::Result<()> {
    write_csv_header(out, kind)?;
    let columns = kind.columns().0.len();
    let mut rows = rows.into_iter();
    rows.try_for_each(|row| write_csv_row(out, row.into_iter().take(columns)))
}

pub fn write_csv_row<'c>(
    out: &mut impl Write,
    cells: impl IntoIterator<Item = Cell<'c>>,
) -> io::Result<()> {
    for (at, cell) in cells.into_iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        match cell {
            Cell::Code(code) => out.write_all(&code.text())?,
            Cell::Text(text) => write_text(out, text.unwrap_or_default())?,
            Cell::Tags(tags) => write_text(out, tags)?,
            Cell::Count(Some(count)) => {
                out.write_all(itoa::Buffer::new().format(count).as_bytes())?;
            }
            Cell::Decimal(Some(decimal)) => write_decimal(out, decimal)?,
            Cell::Time(time) => write!(out, "{}", time.0)?,
            Cell::Count(None) | Cell::Decimal(None) => {}
        }
    }
    out.write_all(b"\n")
}

/// Writes the shortest digits that parse to the same number, never with an exponent.
fn write_decimal(out: &mut impl Write, decimal: f64) -> io::Result<()> {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(decimal);
    if text.contains('e') {
        return write!(out, "{decimal}");
    }
    out.write_all(text.strip_suffix(".0").unwrap_or(text).as_bytes())
}

/// Writes a text, in quotes if it contains a character of the format.
fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    if text.contains([',', '"', '\r', '\n']) {
        write!(out, "\"{}\"", text.replace('"', "\"\""))
    } else {
        out.write_all(text.as_bytes())
    }
}
