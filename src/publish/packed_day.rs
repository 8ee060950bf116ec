//! Compact encoding of the rows of a day, for a publish of a year of days in memory.
//!
//! A daily row takes about 16 bytes instead of 80. Islands are divided into ranges, and the rows of
//! each range are found directly: ranges are converted from rows by day to rows by island one after
//! the other.

use std::iter;

use crate::calendar::UtcDay;
use crate::dataset::{DayRow, Metrics};
use crate::model::SortField;

/// Islands per range: few enough that the rows of all their days fit in the CPU cache.
pub(crate) const RANGE_ISLANDS: usize = 64;
/// Number of metrics that are counts, which come before the decimals.
const COUNTS: usize = SortField::ALL.len();

/// Converts a number of rows or a position to 32 bits.
pub(crate) fn to_u32(at: usize) -> u32 {
    u32::try_from(at).expect("the platform has far fewer than 2^32 islands")
}

#[derive(Debug)]
pub(crate) struct PackedDay {
    pub(crate) day: UtcDay,
    bytes: Box<[u8]>,
    /// Offset of each range's rows, and the end of the last one.
    starts: Box<[u32]>,
}

impl PackedDay {
    /// Packs the rows of a day, by island ascending. `islands` is the number of islands in the
    /// catalogue.
    pub(crate) fn new(day: UtcDay, rows: &[DayRow], islands: usize) -> PackedDay {
        let mut bytes = Vec::with_capacity(rows.len() * 16);
        let mut starts = vec![0];
        let mut rows = rows.iter().peekable();
        for range in 0..islands.div_ceil(RANGE_ISLANDS) {
            let mut next = to_u32(range * RANGE_ISLANDS);
            let end = to_u32((range + 1) * RANGE_ISLANDS);
            while let Some(row) = rows.next_if(|row| row.island < end) {
                let skipped = u64::from(row.island - next);
                pack(&mut bytes, skipped << 1 | u64::from(row.is_daily));
                for (place, value) in row.metrics.0[..values(row.is_daily)].iter().enumerate() {
                    pack(&mut bytes, to_number(place, *value));
                }
                next = row.island + 1;
            }
            starts.push(to_u32(bytes.len()));
        }
        PackedDay {
            day,
            bytes: bytes.into(),
            starts: starts.into(),
        }
    }

    /// Iterates over the rows of a range, by island ascending.
    pub(crate) fn range(&self, range: usize) -> impl Iterator<Item = DayRow> {
        let mut bytes = &self.bytes[self.starts[range] as usize..self.starts[range + 1] as usize];
        // The lowest island that the next row can belong to.
        let mut next = to_u32(range * RANGE_ISLANDS);
        iter::from_fn(move || {
            if bytes.is_empty() {
                return None;
            }
            let head = unpack(&mut bytes);
            let (island, is_daily) = (next + index(head >> 1), head & 1 == 1);
            next = island + 1;
            let mut metrics = Metrics::NULL;
            for (place, value) in metrics.0[..values(is_daily)].iter_mut().enumerate() {
                *value = from_number(place, unpack(&mut bytes));
            }
            Some(DayRow {
                island,
                is_daily,
                metrics,
            })
        })
    }

    /// Iterates over all rows, by island ascending.
    pub(crate) fn rows(&self) -> impl Iterator<Item = DayRow> {
        (0..self.starts.len() - 1).flat_map(|range| self.range(range))
    }
}

/// Returns the number of metrics that are packed: a row of a ccu file has only the first.
fn values(is_daily: bool) -> usize {
    if is_daily { 9 } else { 1 }
}

/// Returns a value as a number that is small for most values: 0 for a null, a count plus 1; of a decimal twice its
/// hundredths plus 1, or twice its bits plus 2 if it has more digits. The sign bit of a decimal is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "any other number of hundredths does not convert back"
)]
fn to_number(place: usize, value: u64) -> u64 {
    if place < COUNTS || value == u64::MAX {
        return value.wrapping_add(1);
    }
    let hundredths = (f64::from_bits(value) * 100.0).round() as u32;
    if from_hundredths(hundredths) == value {
        u64::from(hundredths) * 2 + 1
    } else {
        value * 2 + 2
    }
}

fn from_number(place: usize, number: u64) -> u64 {
    if place < COUNTS || number == 0 {
        number.wrapping_sub(1)
    } else if number % 2 == 1 {
        from_hundredths(index(number / 2))
    } else {
        number / 2 - 1
    }
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

#[inline]
fn unpack(bytes: &mut &[u8]) -> u64 {
    // Most numbers have one byte.
    if let [byte @ ..0x80, rest @ ..] = *bytes {
        *bytes = rest;
        return u64::from(*byte);
    }
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

fn index(number: u64) -> u32 {
    u32::try_from(number).expect("packed from 32 bits")
}

/// Returns the bits of a decimal.
fn from_hundredths(hundredths: u32) -> u64 {
    (f64::from(hundredths) / 100.0).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_are_unpacked_unchanged() {
        arbtest::arbtest(|u| {
            let islands: usize = u.int_in_range(1..=RANGE_ISLANDS * 3)?;
            let mut expected = Vec::new();
            for island in 0..to_u32(islands) {
                if u.ratio(2, 3)? {
                    continue;
                }
                let count = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
                    let bits: u32 = u.int_in_range(0..=53)?;
                    let low = u.arbitrary::<u64>()? & ((1 << bits) - 1);
                    Ok::<_, arbtest::arbitrary::Error>(u.ratio(3, 4)?.then_some(low))
                };
                let is_daily = u.ratio(2, 3)?;
                let metrics = if is_daily {
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
                    Metrics::new(counts, decimals)
                } else {
                    Metrics::of_peak(count(u)?)
                };
                expected.push(DayRow {
                    island,
                    is_daily,
                    metrics,
                });
            }
            let packed = PackedDay::new(UtcDay(1), &expected, islands);
            let found: Vec<DayRow> = packed.rows().collect();
            // Compares the bits too, since equal values may have different ones.
            assert_eq!(format!("{found:?}"), format!("{expected:?}"));
            for range in 0..islands.div_ceil(RANGE_ISLANDS) {
                let of_range = |row: &&DayRow| row.island as usize / RANGE_ISLANDS == range;
                let expected: Vec<&DayRow> = expected.iter().filter(of_range).collect();
                let found: Vec<DayRow> = packed.range(range).collect();
                assert_eq!(format!("{found:?}"), format!("{expected:?}"));
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
        let row = DayRow {
            island: 7,
            is_daily: true,
            metrics,
        };
        assert!(PackedDay::new(UtcDay(1), &[row], 8).bytes.len() <= 16);
    }
}
