//! The scale: the positions and labels of the marks on an axis.

use crate::util::text;

/// Offsets for the marks of an axis of this length: multiples of a power of two, from 0 on. At most `wished` marks
/// besides the one at 0, and usually at least half as many.
pub(crate) fn ticks(longest: u64, wished: usize) -> Vec<u64> {
    let step = longest.div_ceil(wished.max(1) as u64).checked_next_power_of_two().unwrap_or(1 << 63);
    (0..).map_while(|n: u64| n.checked_mul(step)).take_while(|at| *at <= longest).collect()
}

/// A size without a redundant fraction: `64 MiB`, `1.5 GiB`, `0`.
pub(crate) fn label(bytes: u64) -> String {
    if bytes == 0 { "0".into() } else { text::size(bytes).replace(".0 ", " ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stand_at_round_offsets() {
        assert_eq!(ticks(256 << 20, 4), [0, 64 << 20, 128 << 20, 192 << 20, 256 << 20]);
        assert_eq!(ticks(200 << 20, 4), [0, 64 << 20, 128 << 20, 192 << 20]);
        assert_eq!(ticks(1, 4), [0, 1]);
        assert_eq!(ticks(u64::MAX, 1), [0, 1 << 63]);
        assert!((3..=5).contains(&ticks(u64::MAX, 4).len()));
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(label(0), "0");
        assert_eq!(label(64 << 20), "64 MiB");
        assert_eq!(label(1536 << 20), "1.5 GiB");
    }
}
