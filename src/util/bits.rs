//! A bit for each number below a limit, shared by threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bits. Numbers beyond the limit have none: they cannot be set.
#[derive(Debug, Default)]
pub(crate) struct Bits(Vec<AtomicU64>);

impl Bits {
    /// `count` bits, none of them set.
    pub(crate) fn new(count: usize) -> Bits {
        Bits((0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets a bit.
    pub(crate) fn set(&self, number: usize) {
        if let Some(word) = self.0.get(number / 64) {
            word.fetch_or(1 << (number % 64), Ordering::Relaxed);
        }
    }

    /// Whether a bit is set.
    pub(crate) fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (number % 64) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_set_alone() {
        let bits = Bits::new(130);
        for number in [0, 64, 129, 1000] {
            bits.set(number);
        }
        let set: Vec<_> = (0..2000).filter(|number| bits.has(*number)).collect();
        assert_eq!(set, [0, 64, 129]);
    }
}
