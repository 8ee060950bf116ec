//! Pseudorandom numbers that are derived from an input, and so are reproducible.

use zlib_rs::crc32::crc32;

/// A xorshift generator.
pub struct Draws(u64);

impl Draws {
    pub fn of(input: &[u8]) -> Draws {
        Draws(u64::from(crc32(0, input)) << 1 | 1)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }

    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}
