//! Compact encoding of the rows of a day, for a publish of a year of days in memory.
//!
//! A daily row takes about 16 bytes instead of 80. Islands are divided into ranges, and the rows of
//! each range are found directly: ranges are converted from rows by day to rows by island one after
//! the other.

use std::iter;

use super::row_orders::row_number;
use crate::dataset::{Day, Metrics};
use crate::model::SortField;

/// Islands per range: few enough that the rows of all their days fit in the CPU cache.
pub(crate) const RANGE_ISLANDS: usize = 256;
/// Most decimals are hundredths, which are packed into one or two bytes.
const HUNDREDTHS: f64 = 100.0;

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
        let mut bytes = Vec::with_capacity(day.daily.len() * 20 + day.ccu.len() * 4);
        let mut starts = vec![0];
        let daily = day
            .daily
            .iter()
            .map(|row| (row.island, DayRow::Daily(row.metrics)));
        let ccu = day
            .ccu
            .iter()
            .map(|row| (row.island, DayRow::Ccu(row.peak_ccu)));
        let (mut daily, mut ccu) = (daily.peekable(), ccu.peekable());
        let mut rows = iter::from_fn(|| {
            let next_daily = daily.peek().map_or(u32::MAX, |(island, _)| *island);
            let is_first = |(island, _): &(u32, DayRow)| *island < next_daily;
            ccu.next_if(is_first).or_else(|| daily.next())
        })
        .peekable();
        for range in 0..islands.div_ceil(RANGE_ISLANDS) {
            let mut next = row_number(range * RANGE_ISLANDS);
            let end = row_number((range + 1) * RANGE_ISLANDS);
            while let Some((island, row)) = rows.next_if(|(island, _)| *island < end) {
                let is_ccu = matches!(row, DayRow::Ccu(_));
                pack(
                    &mut bytes,
                    u64::from(island - next) << 1 | u64::from(is_ccu),
                );
                match row {
                    DayRow::Daily(metrics) => pack_metrics(&mut bytes, &metrics),
                    DayRow::Ccu(peak) => pack(&mut bytes, peak.map_or(0, |peak| peak + 1)),
                }
                next = island + 1;
            }
            starts.push(row_number(bytes.len()));
        }
        PackedDay {
            bytes: bytes.into(),
            starts: starts.into(),
        }
    }

    /// Iterates over the rows of a range, by island ascending.
    pub(crate) fn range(&self, range: usize) -> impl Iterator<Item = (u32, DayRow)> {
        let mut bytes = &self.bytes[self.starts[range] as usize..self.starts[range + 1] as usize];
        // The lowest island that the next row can belong to.
        let mut next = row_number(range * RANGE_ISLANDS);
        iter::from_fn(move || {
            if bytes.is_empty() {
                return None;
            }
            let head = unpack(&mut bytes);
            let island = next + number_u32(head >> 1);
            next = island + 1;
            let row = if head & 1 == 1 {
                DayRow::Ccu(unpack(&mut bytes).checked_sub(1))
            } else {
                DayRow::Daily(unpack_metrics(&mut bytes))
            };
            Some((island, row))
        })
    }

    /// Iterates over all rows, by island ascending.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, DayRow)> {
        (0..self.starts.len() - 1).flat_map(|range| self.range(range))
    }

    /// Returns the row of an island.
    pub(crate) fn row(&self, island: usize) -> Option<DayRow> {
        let mut rows = self.range(island / RANGE_ISLANDS);
        rows.find_map(|(found, row)| (found as usize == island).then_some(row))
    }
}

/// Writes a word with one bit per metric that is not null, then the metrics. A decimal is its
/// hundredths times 2, or 1 and its eight bytes.
fn pack_metrics(bytes: &mut Vec<u8>, metrics: &Metrics) {
    let counts = SortField::ALL.map(|field| metrics.count(field));
    let decimals = metrics.decimals();
    let present = counts.iter().map(Option::is_some);
    let present = present.chain(decimals.iter().map(Option::is_some));
    let flags = present
        .rev()
        .fold(0, |flags, bit| flags << 1 | u64::from(bit));
    pack(bytes, flags);
    for count in counts.into_iter().flatten() {
        pack(bytes, count);
    }
    for decimal in decimals.into_iter().flatten() {
        if let Some(hundredths) = to_hundredths(decimal) {
            pack(bytes, u64::from(hundredths) << 1);
        } else {
            pack(bytes, 1);
            bytes.extend(decimal.to_le_bytes());
        }
    }
}

fn unpack_metrics(bytes: &mut &[u8]) -> Metrics {
    let flags = unpack(bytes);
    let is_present = |at: usize| flags >> at & 1 == 1;
    let counts = std::array::from_fn(|at| is_present(at).then(|| unpack(bytes)));
    let decimals = std::array::from_fn(|at| {
        is_present(counts.len() + at).then(|| match unpack(bytes) {
            1 => {
                let (decimal, rest) = bytes.split_first_chunk().expect("packed whole");
                *bytes = rest;
                f64::from_le_bytes(*decimal)
            }
            hundredths => from_hundredths(number_u32(hundredths >> 1)),
        })
    });
    Metrics::new(counts, decimals)
}

/// Writes a varint: seven bits per byte, lowest first; the highest bit marks a continuation.
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

fn unpack(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate() {
        number |= u64::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return number;
        }
    }
    unreachable!("a packed number has an end")
}

fn number_u32(number: u64) -> u32 {
    u32::try_from(number).expect("packed from 32 bits")
}

/// Returns the hundredths of a decimal if they convert back to the same number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "any other number does not convert back"
)]
fn to_hundredths(decimal: f64) -> Option<u32> {
    let hundredths = (decimal * HUNDREDTHS).round() as u32;
    (from_hundredths(hundredths).to_bits() == decimal.to_bits()).then_some(hundredths)
}

fn from_hundredths(hundredths: u32) -> f64 {
    f64::from(hundredths) / HUNDREDTHS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{CcuRow, DailyRow};

    #[test]
    fn packed_rows_are_unpacked_unchanged() {
        arbtest::arbtest(|u| {
            let islands: usize = u.int_in_range(1..=RANGE_ISLANDS * 3)?;
            let mut day = Day::default();
            let mut expected = Vec::new();
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
                    expected.push((island, DayRow::Ccu(peak_ccu)));
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
                    expected.push((island, DayRow::Daily(metrics)));
                }
            }
            let packed = PackedDay::new(&day, islands);
            let found: Vec<(u32, DayRow)> = packed.rows().collect();
            // Compares the bits too, since equal values may have different ones.
            assert_eq!(format!("{found:?}"), format!("{expected:?}"));
            for island in 0..islands {
                let row = expected.iter().find(|(other, _)| *other as usize == island);
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
