//! Ranges, cut into pieces of the length of a buffer.

use std::ops::Range;

/// Cuts ranges at multiples of the length of a buffer.
pub(super) fn pieces(ranges: &[Range<u64>], buffer: usize) -> impl Iterator<Item = Range<u64>> {
    let buffer = (buffer as u64).max(1);
    ranges.iter().flat_map(move |range| {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let end = range.end.min((at / buffer + 1) * buffer);
            let piece = at..end;
            at = end;
            (!piece.is_empty()).then_some(piece)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_begin_at_multiples_of_the_buffer() {
        let all: Vec<_> = pieces(&[5..20, 30..31, 40..60], 10).collect();
        assert_eq!(all, [5..10, 10..20, 30..31, 40..50, 50..60]);
        assert_eq!(pieces(&[], 10).count(), 0);
    }
}
