//! Sets of ranges: sorted, disjoint, half-open. Pure.

use std::ops::Range;

/// A range of a file in bytes.
pub(crate) type Bytes = Range<u64>;

/// Adds a range to a set; ranges that overlap or touch become one. In ascending order this only looks at the last one.
pub(crate) fn push(set: &mut Vec<Bytes>, range: Bytes) {
    if range.is_empty() {
        return;
    }
    match set.last_mut() {
        Some(last) if last.start > range.start => insert(set, range),
        Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
        _ => set.push(range),
    }
}

/// Adds a range anywhere in a set.
fn insert(set: &mut Vec<Bytes>, range: Bytes) {
    let first = set.partition_point(|part| part.end < range.start);
    let behind = set.partition_point(|part| part.start <= range.end);
    let joined = set[first..behind].iter().fold(range, |all, part| all.start.min(part.start)..all.end.max(part.end));
    set.splice(first..behind, [joined]);
}

/// What of `set` lies in `range`.
pub(crate) fn within<'s>(set: &'s [Bytes], range: &Bytes) -> impl Iterator<Item = Bytes> + use<'s> {
    let Range { start, end } = *range;
    let first = set.partition_point(|part| part.end <= start);
    set[first..]
        .iter()
        .take_while(move |part| part.start < end)
        .map(move |part| part.start.max(start)..part.end.min(end))
}

/// What of `set` is not in `without`.
pub(crate) fn subtract(set: &[Bytes], without: &[Bytes]) -> Vec<Bytes> {
    let mut rest = Vec::new();
    for range in set {
        let mut at = range.start;
        for gap in within(without, range) {
            push(&mut rest, at..gap.start);
            at = gap.end;
        }
        push(&mut rest, at..range.end);
    }
    rest
}

/// The bytes of a set.
pub(crate) fn length<'r>(set: impl IntoIterator<Item = &'r Bytes>) -> u64 {
    set.into_iter().map(|range| range.end - range.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set_of(bits: &[bool]) -> Vec<Bytes> {
        let mut set = Vec::new();
        bits.iter().enumerate().filter(|(_, bit)| **bit).for_each(|(at, _)| push(&mut set, at as u64..at as u64 + 1));
        set
    }

    proptest! {
        #[test]
        fn sets_are_what_a_list_of_bytes_would_be(
            a in prop::collection::vec(any::<bool>(), 40),
            b in prop::collection::vec(any::<bool>(), 40),
            start in 0..40_u64,
            length_ in 1..40_u64,
        ) {
            let (set, other) = (set_of(&a), set_of(&b));
            let both: Vec<_> = a.iter().zip(&b).map(|(a, b)| *a && !b).collect();
            prop_assert_eq!(subtract(&set, &other), set_of(&both));
            let range = start..start + length_;
            let mut any_order = other.clone();
            set.iter().rev().for_each(|part| push(&mut any_order, part.clone()));
            let either: Vec<_> = a.iter().zip(&b).map(|(a, b)| *a || *b).collect();
            prop_assert_eq!(any_order, set_of(&either));
            let inside: Vec<_> = a.iter().enumerate().map(|(at, a)| *a && range.contains(&(at as u64))).collect();
            prop_assert_eq!(within(&set, &range).collect::<Vec<_>>(), set_of(&inside));
            prop_assert_eq!(length(&set), a.iter().filter(|a| **a).count() as u64);
        }
    }
}
