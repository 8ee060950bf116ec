//! Reproducible random numbers.

/// A linear congruential generator, whose step is one multiplication.
#[derive(Default)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number of 31 bits.
    pub(crate) fn next(&mut self) -> usize {
        let state = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = state.wrapping_add(1);
        (self.0 >> 33) as usize
    }
}
