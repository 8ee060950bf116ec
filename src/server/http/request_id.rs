//! `RequestId`: a number that names an answer, in its head and in the access log.

use ahash::RandomState;

use crate::observe::LocalCounter;

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

/// Rounds of mixing: with three, some structure of the count could still be seen.
const ROUNDS: u32 = 4;

/// One worker's numbers: a count, mixed with what nobody outside knows, so that a number tells neither
/// the next one nor how many answers there were. None comes twice.
#[derive(Debug)]
pub(crate) struct RequestIds {
    secret: RandomState,
    given: LocalCounter,
}

impl RequestIds {
    pub(crate) fn new() -> RequestIds {
        RequestIds {
            secret: RandomState::new(),
            given: LocalCounter::default(),
        }
    }

    /// The next number.
    #[inline]
    pub(crate) fn next(&self) -> RequestId {
        self.given.add(1);
        self.mix(self.given.get())
    }

    /// A Feistel network: whatever its rounds do, it can be undone by who knows the secret, so counts
    /// that differ stay different.
    fn mix(&self, count: u64) -> RequestId {
        let (mut left, mut right) = (count >> 32, count & u64::from(u32::MAX));
        for round in 0..ROUNDS {
            let mixed = self.secret.hash_one((round, right)) >> 32;
            (left, right) = (right, left ^ mixed);
        }
        RequestId(left << 32 | right)
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
