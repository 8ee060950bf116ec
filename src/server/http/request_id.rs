//! `RequestId`: a number that names an answer, in its head and in the access log.

use ahash::RandomState;

use crate::observe::Count;

/// Sixteen hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(pub(crate) u64);

impl RequestId {
    /// The digits.
    pub(crate) fn digits(self) -> [u8; 16] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        std::array::from_fn(|at| {
            let digit = self.0 >> (60 - 4 * at) & 15;
            DIGITS[usize::try_from(digit).expect("below 16")]
        })
    }
}

/// One worker's numbers: none comes twice, and nobody can tell the next from those before.
#[derive(Debug)]
pub(crate) struct RequestIds {
    seed: u64,
    given: Count,
}

impl RequestIds {
    pub(crate) fn new() -> RequestIds {
        RequestIds {
            seed: RandomState::new().hash_one(0),
            given: Count::default(),
        }
    }

    /// The next number.
    #[inline]
    pub(crate) fn next(&self) -> RequestId {
        self.given.add(1);
        // The steps of SplitMix64, each of which can be undone: numbers that differ stay so.
        let step = self.given.get().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.seed.wrapping_add(step);
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        RequestId(bits ^ bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_comes_twice_and_its_digits_read_back() {
        let ids = RequestIds::new();
        let mut seen = HashSet::new();
        for _ in 0..100_000 {
            let id = ids.next();
            let digits = id.digits();
            let text = std::str::from_utf8(&digits).unwrap();
            assert_eq!(u64::from_str_radix(text, 16), Ok(id.0));
            assert!(seen.insert(id.0));
        }
    }
}
