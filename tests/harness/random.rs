//! The random choices of a test. They come from a seed, so that a failed test can be repeated.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// The seed for choosing the moments.
pub(crate) fn seed() -> u64 {
    let set = env::var("PLEACH_TEST_SEED").ok();
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| u64::from(time.subsec_micros()));
    set.map_or_else(clock, |number| number.parse().expect("PLEACH_TEST_SEED is a number"))
}

/// Pseudo-random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number, from 0 to 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The next number, from 0 to `end` without it.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.fraction() * end as f64) as usize).min(end.saturating_sub(1))
    }

    /// One of these.
    pub(crate) fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}
