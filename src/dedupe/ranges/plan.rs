//! Decides the fate of Btrfs extents with parts that were found elsewhere. Pure.
//!
//! An extent is freed when no reference to any part of it remains. If all parts that files use were found elsewhere,
//! the extent is released by sharing alone. Otherwise the rest must be rewritten first, which takes space. The cheapest
//! extents are rewritten first, as long as more is freed than rewritten over all extents that are decided together. An
//! extent that something outside the scope holds stays: moving the other references would free nothing and undo their
//! sharing with it.

use crate::monitor::Pinned;

/// Whether something outside the scope holds the extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// Nothing does.
    Nothing,
    /// Only root can find out.
    Unknown,
    /// Something does.
    Something,
}

/// An extent with the facts for its decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighed {
    /// Bytes on the disk that are freed with it.
    pub(super) disk: u64,
    /// Bytes of it that files in scope use and that were not found elsewhere.
    pub(super) rest: u64,
    /// Who else holds it.
    pub(super) outside: Outside,
    /// Whether the rest can be moved at all.
    pub(super) movable: bool,
}

/// The decision about an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// All used parts were found elsewhere: share them.
    Cover,
    /// Share the found parts, and rewrite the rest.
    Rewrite,
    /// Keep the extent.
    Leave(Pinned),
}

/// Rewriting an extent must free more bytes than its length on the disk divided by this number.
const LEAST_PART: u64 = 64;

/// Decides over all extents together.
pub(super) fn decide(extents: &[Weighed]) -> Vec<Decision> {
    let gain = |extent: &Weighed| extent.disk.saturating_sub(extent.rest);
    let is_worth_it = |extent: &Weighed| gain(extent) > extent.disk / LEAST_PART;
    let mut decisions: Vec<_> = extents
        .iter()
        .map(|extent| match extent {
            Weighed { outside: Outside::Something, .. } => Decision::Leave(Pinned::Held),
            Weighed { movable: false, .. } => Decision::Leave(Pinned::Immovable),
            Weighed { rest: 0, .. } => Decision::Cover,
            Weighed { outside: Outside::Unknown, .. } => Decision::Leave(Pinned::PerhapsHeld),
            _ => Decision::Leave(Pinned::Costly),
        })
        .collect();
    let costly = |number: &usize| decisions[*number] == Decision::Leave(Pinned::Costly);
    let mut order: Vec<_> = (0..extents.len()).filter(costly).filter(|&n| is_worth_it(&extents[n])).collect();
    // Ordered by the bytes freed for each byte rewritten: a/b > c/d as a·d > c·b.
    order.sort_by(|&a, &b| {
        let (a, b) = (&extents[a], &extents[b]);
        let ratio = |one: &Weighed, two: &Weighed| u128::from(gain(one)) * u128::from(two.rest);
        ratio(b, a).cmp(&ratio(a, b))
    });
    let (mut freed, mut rewritten) = (0_u64, 0_u64);
    for number in order {
        (freed, rewritten) = (freed + gain(&extents[number]), rewritten + extents[number].rest);
        if freed <= rewritten {
            break;
        }
        decisions[number] = Decision::Rewrite;
    }
    decisions
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(disk: u64, rest: u64) -> Weighed {
        Weighed { disk, rest, outside: Outside::Nothing, movable: true }
    }

    #[test]
    fn an_extent_is_covered_rewritten_or_left() {
        let held = Weighed { outside: Outside::Something, ..extent(100, 0) };
        let perhaps = |rest| Weighed { outside: Outside::Unknown, ..extent(100, rest) };
        let decisions = decide(&[extent(100, 0), extent(100, 40), held, perhaps(0), perhaps(1)]);
        let left = |why| Decision::Leave(why);
        assert_eq!(
            decisions,
            [Decision::Cover, Decision::Rewrite, left(Pinned::Held), Decision::Cover, left(Pinned::PerhapsHeld)]
        );
        assert_eq!(decide(&[extent(100, 50)]), [left(Pinned::Costly)]);
        assert_eq!(decide(&[extent(100, 0), extent(100, 99)]), [Decision::Cover, left(Pinned::Costly)]);
        assert_eq!(decide(&[extent(100, 10), extent(100, 60)]), [Decision::Rewrite; 2], "they are weighed together");
    }

    proptest! {
        #[test]
        fn more_is_always_freed_than_rewritten(sizes in prop::collection::vec((1..200_u64, 0..200_u64), 0..30)) {
            let extents: Vec<_> = sizes.iter().map(|&(disk, rest)| extent(disk, rest)).collect();
            let decisions = decide(&extents);
            let (mut freed, mut rewritten) = (0, 0);
            let mut best_left = 0.0_f64;
            for (extent, decision) in extents.iter().zip(&decisions) {
                let gain = extent.disk.saturating_sub(extent.rest);
                match decision {
                    Decision::Cover => prop_assert_eq!(extent.rest, 0),
                    Decision::Rewrite => {
                        prop_assert!(gain > 0);
                        freed += gain;
                        rewritten += extent.rest;
                    }
                    Decision::Leave(_) if gain > extent.disk / LEAST_PART => {
                        best_left = best_left.max(gain as f64 / extent.rest as f64);
                    }
                    Decision::Leave(_) => {}
                }
            }
            prop_assert!(freed > rewritten || rewritten == 0);
            prop_assert!(best_left <= 1.0, "what frees more than it costs is never left: {}", best_left);
        }
    }
}
