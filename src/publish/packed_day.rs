//! Compact encoding of the rows of a day, for a publish of a year of days in memory.
//!
//! A daily row takes about 16 bytes instead of 80. Islands are divided into ranges, and the rows of each
//! range are found directly: ranges are converted from rows by day to rows by island one after the
//! other.

use crate::dataset::{CcuRow, DailyRow, Day, Metrics};
use crate::model::SortField;

use super::row_orders::row_number;

/// Islands per range: few enough that the rows of all their days fit in the CPU cache.
pub(crate) const RANGE_ISLANDS: usize = 256;
/// Most decimals are hundredths, which are packed into one or two bytes.
const HUNDREDTHS: f64 = 100.0;
/// Maximum of hundredths that are packed so.
const PACKED_MAX: f64 = 4_294_967_295.0;

/// Row of one island on a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DayRow {
    /// Row of a daily file.
    Daily(Metrics),
    /// Row of a ccu file, if there is no daily one.
    Ccu(Option<u64>),
}

impl DayRow {
    /// Returns the nine metrics; a ccu row only has the peak.
    pub(crate) fn metrics(&self) -> Metrics {
        match self {
            DayRow::Daily(metrics) => *metrics,
            DayRow::Ccu(peak) => Metrics::new([*peak, None, None, None, None, None], [None; 3]),
        }
    }

    pub(crate) fn peak(&self) -> Option<u64> {
        match self {
            DayRow::Daily(metrics) => metrics.count(SortField::PeakCcu),
            DayRow::Ccu(peak) => *peak,
        }
    }
}

/// Packed rows of a day.
#[derive(Debug)]
pub(crate) struct PackedDay {
    bytes: Box<[u8]>,
    /// Offset of each range's rows, and the end of the last one.
    starts: Box<[u32]>,
}

impl PackedDay {
    /// Packs a day. `islands` is the number of islands in the catalogue.
    pub(crate) fn new(day: &Day, islands: usize) -> PackedDay {
        let ranges = islands.div_ceil(RANGE_ISLANDS);
        let mut bytes = Vec::with_capacity(day.daily.len() * 20 + day.ccu.len() * 4);
        let mut starts = Vec::with_capacity(ranges + 1);
        let mut daily = day.daily.iter().peekable();
        let mut ccu = day.ccu.iter().peekable();
        for range in 0..ranges {
            starts.push(row_number(bytes.len()));
            let mut next = row_number(range * RANGE_ISLANDS);
            let end = row_number((range + 1) * RANGE_ISLANDS);
            loop {
                let daily_row = daily.peek().filter(|row| row.island < end);
                let ccu_row = ccu.peek().filter(|row| row.island < end);
                let ccu_first = match (daily_row, ccu_row) {
                    (None, None) => break,
                    (Some(_), None) => false,
                    (None, Some(_)) => true,
                    (Some(daily), Some(ccu)) => ccu.island < daily.island,
                };
                next = if ccu_first {
                    pack_ccu(&mut bytes, next, ccu.next().copied())
                } else {
                    pack_daily(&mut bytes, next, daily.next())
                };
            }
        }
        starts.push(row_number(bytes.len()));
        PackedDay {
            bytes: bytes.into(),
            starts: starts.into(),
        }
    }

    /// Iterates over the rows of a range, by island ascending.
    pub(crate) fn range(&self, range: usize) -> DayRows<'_> {
        let (from, to) = (self.starts[range], self.starts[range + 1]);
        DayRows {
            bytes: &self.bytes[from as usize..to as usize],
            next: row_number(range * RANGE_ISLANDS),
        }
    }

    /// Iterates over all rows, by island ascending.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, DayRow)> + '_ {
        (0..self.starts.len() - 1).flat_map(|range| self.range(range))
    }

    /// Returns the row of an island.
    pub(crate) fn row(&self, island: usize) -> Option<DayRow> {
        let mut rows = self.range(island / RANGE_ISLANDS);
        rows.find(|(found, _)| *found as usize == island)
            .map(|(_, row)| row)
    }
}

/// Iterator over packed rows.
pub(crate) struct DayRows<'a> {
    bytes: &'a [u8],
    /// Lowest island that the next row can belong to.
    next: u32,
}

impl Iterator for DayRows<'_> {
    type Item = (u32, DayRow);

    fn next(&mut self) -> Option<(u32, DayRow)> {
        if self.bytes.is_empty() {
            return None;
        }
        let head = self.number();
        let island = self.next + island_number(head >> 1);
        self.next = island + 1;
        let row = if head & 1 == 1 {
            DayRow::Ccu(self.number().checked_sub(1))
        } else {
            self.daily()
        };
        Some((island, row))
    }
}

impl DayRows<'_> {
    fn daily(&mut self) -> DayRow {
        let flags = self.number();
        let counts = std::array::from_fn(|at| (flags >> at & 1 == 1).then(|| self.number()));
        let decimals = std::array::from_fn(|at| match flags >> (6 + 2 * at) & 3 {
            0 => None,
            1 => Some(from_hundredths(self.number())),
            _ => Some(self.float()),
        });
        DayRow::Daily(Metrics::new(counts, decimals))
    }

    /// Reads a varint: seven bits per byte, lowest first; the highest bit marks a continuation.
    fn number(&mut self) -> u64 {
        let mut number = 0;
        for (at, byte) in self.bytes.iter().enumerate() {
            number |= u64::from(byte & 0x7F) << (7 * at);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[at + 1..];
                return number;
            }
        }
        unreachable!("a packed number has an end")
    }

    fn float(&mut self) -> f64 {
        let (float, rest) = self.bytes.split_first_chunk().expect("packed whole");
        self.bytes = rest;
        f64::from_le_bytes(*float)
    }
}

fn pack_daily(bytes: &mut Vec<u8>, next: u32, row: Option<&DailyRow>) -> u32 {
    let DailyRow { island, metrics } = row.expect("peeked at");
    pack(bytes, u64::from(island - next) << 1);
    let counts = SortField::ALL.map(|field| metrics.count(field));
    let decimals = [
        metrics.average_minutes_per_player(),
        metrics.retention_d1(),
        metrics.retention_d7(),
    ];
    let mut flags = 0;
    for (at, count) in counts.iter().enumerate() {
        flags |= u64::from(count.is_some()) << at;
    }
    for (at, decimal) in decimals.iter().enumerate() {
        let form = decimal.map_or(0, |decimal| 2 - u64::from(to_hundredths(decimal).is_some()));
        flags |= form << (6 + 2 * at);
    }
    pack(bytes, flags);
    for count in counts.into_iter().flatten() {
        pack(bytes, count);
    }
    for decimal in decimals.into_iter().flatten() {
        match to_hundredths(decimal) {
            Some(hundredths) => pack(bytes, hundredths),
            None => bytes.extend(decimal.to_le_bytes()),
        }
    }
    island + 1
}

fn pack_ccu(bytes: &mut Vec<u8>, next: u32, row: Option<CcuRow>) -> u32 {
    let CcuRow { island, peak_ccu } = row.expect("peeked at");
    pack(bytes, u64::from(island - next) << 1 | 1);
    pack(bytes, peak_ccu.map_or(0, |peak| peak + 1));
    island + 1
}

fn pack(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = number.to_le_bytes()[0] & 0x7F;
        number >>= 7;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

fn island_number(delta: u64) -> u32 {
    u32::try_from(delta).expect("islands are numbered in u32")
}

/// Returns the hundredths of a decimal if they convert back to the same number.
fn to_hundredths(decimal: f64) -> Option<u64> {
    let hundredths = (decimal * HUNDREDTHS).round();
    if !(0.0..=PACKED_MAX).contains(&hundredths) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number within 32 bits"
    )]
    let whole = hundredths as u64;
    (from_hundredths(whole).to_bits() == decimal.to_bits()).then_some(whole)
}

#[expect(clippy::cast_precision_loss, reason = "within 32 bits")]
fn from_hundredths(hundredths: u64) -> f64 {
    hundredths as f64 / HUNDREDTHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_are_unpacked_unchanged() {
        arbtest::arbtest(|u| {
            let islands: usize = u.int_in_range(1..=RANGE_ISLANDS * 3)?;
            let mut day = Day::default();
            let mut want = Vec::new();
            for island in 0..row_number(islands) {
                if u.ratio(2, 3)? {
                    continue;
                }
                let count = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
                    let bits: u32 = u.int_in_range(0..=53)?;
                    let low = u.arbitrary::<u64>()? & ((1 << bits) - 1);
                    Ok::<_, arbtest::arbitrary::Error>(u.ratio(3, 4)?.then_some(low))
                };
                if u.ratio(1, 3)? {
                    let peak_ccu = count(u)?;
                    day.ccu.push(CcuRow { island, peak_ccu });
                    want.push((island, DayRow::Ccu(peak_ccu)));
                } else {
                    let mut counts = [None; 6];
                    for place in &mut counts {
                        *place = count(u)?;
                    }
                    let mut decimals = [None; 3];
                    for place in &mut decimals {
                        *place = match u.int_in_range(0..=3)? {
                            0 => None,
                            1 => Some(f64::from(u.arbitrary::<u32>()?) / 100.0),
                            2 => Some(f64::from(u.arbitrary::<u16>()?) / 65_536.0),
                            _ => Some(f64::from_bits(u.arbitrary::<u64>()? >> 2)),
                        };
                    }
                    let metrics = Metrics::new(counts, decimals);
                    day.daily.push(DailyRow { island, metrics });
                    want.push((island, DayRow::Daily(metrics)));
                }
            }
            let packed = PackedDay::new(&day, islands);
            let found: Vec<(u32, DayRow)> = packed.rows().collect();
            // Compares the bits too, since equal values may have different ones.
            assert_eq!(format!("{found:?}"), format!("{want:?}"));
            for island in 0..islands {
                let row = want.iter().find(|(held, _)| *held as usize == island);
                let found = packed.row(island);
                assert_eq!(
                    format!("{found:?}"),
                    format!("{:?}", row.map(|(_, row)| row))
                );
            }
            Ok(())
        });
    }

    #[test]
    fn a_typical_row_takes_at_most_16_bytes() {
        let counts = [
            Some(58),
            Some(256),
            Some(16_741),
            Some(27),
            Some(369),
            Some(0),
        ];
        let metrics = Metrics::new(counts, [Some(65.39), Some(0.11), None]);
        let daily = vec![DailyRow { island: 7, metrics }];
        let day = Day { daily, ccu: vec![] };
        assert!(PackedDay::new(&day, 8).bytes.len() <= 16);
    }
}
