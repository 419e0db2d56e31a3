//! How many snapshots must go until enough space is free: the decisions alone. `until` carries them out.

use super::keep::Free;
use super::stats::Freed;
use crate::error::Result;
use crate::usage::Bound;

/// The bytes that should be free on a filesystem of this size.
pub(super) fn wanted(free: Free, total: u64) -> u64 {
    match free {
        Free::Bytes(bytes) => bytes,
        Free::Percent(percent) => (total as f64 * percent / 100.0) as u64,
    }
}

/// The fewest of the first snapshots that free the missing bytes together; all, if these are too few. `freed` finds out
/// how many bytes this many of them free.
///
/// # Errors
/// Those of `freed`.
pub(super) fn fewest(all: usize, missing: u64, mut freed: impl FnMut(usize) -> Result<u64>) -> Result<usize> {
    let (mut fewest, mut most) = (0, if missing > 0 { all } else { 0 });
    while fewest < most {
        let middle = usize::midpoint(fewest, most);
        if freed(middle)? >= missing {
            most = middle;
        } else {
            fewest = middle.saturating_add(1);
        }
    }
    Ok(fewest)
}

/// How exact the number of snapshots is that must go, if the space that they free is this exact: the more each frees,
/// the fewer must go.
pub(super) fn opposite(bound: Bound) -> Bound {
    match bound {
        Bound::AtLeast => Bound::AtMost,
        Bound::AtMost => Bound::AtLeast,
        Bound::Exact | Bound::About => bound,
    }
}

/// Why all snapshots that may go are too few, if they free this. `None` if they free the missing bytes.
pub(super) fn shortage(freed: &Freed, missing: u64) -> Option<&'static str> {
    (freed.bytes < missing).then_some(match freed.bound {
        Bound::Exact => OTHERS_KEPT,
        _ => "the rules keep all other snapshots; the space that these free is not known exactly",
    })
}

/// Why no further snapshot may go.
pub(super) const OTHERS_KEPT: &str = "the rules keep all other snapshots";

/// The state after an attempt to remove a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct After {
    /// Whether it is not a snapshot any more.
    pub(super) is_gone: bool,
    /// Whether its files are deleted too.
    pub(super) is_deleted: bool,
    /// Whether everything that was deleted is free.
    pub(super) is_settled: bool,
    /// The bytes that are still missing.
    pub(super) lacking: u64,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Enough is free.
    Stop,
    /// Another snapshot must go.
    Another,
    /// Nobody knows yet how much the last one frees, so no other one is removed for it.
    Wait,
    /// Other processes hold enough deleted files: they are free as soon as they are closed.
    Held,
}

impl After {
    /// Decides. `held` finds out how many bytes of files that were deleted meanwhile are held open.
    pub(super) fn next(self, held: impl FnOnce() -> u64) -> Next {
        match self {
            After { lacking: 0, .. } => Next::Stop,
            After { is_gone: false, .. } => Next::Another,
            After { is_settled: false, .. } | After { is_deleted: false, .. } => Next::Wait,
            After { lacking, .. } if held() >= lacking => Next::Held,
            _ => Next::Another,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn space_is_a_number_of_bytes_or_a_part_of_the_filesystem() {
        assert_eq!(wanted(Free::Bytes(17), 1000), 17);
        assert_eq!(wanted(Free::Percent(12.5), 1000), 125);
        assert_eq!(wanted(Free::Percent(0.1), 2000), 2);
    }

    #[test]
    fn no_more_snapshots_go_than_are_needed() {
        let sizes = [5_u64, 0, 7, 3];
        let asked = |missing| {
            let mut most = 0;
            let found = fewest(sizes.len(), missing, |number| {
                most = most.max(number);
                Ok(sizes[..number].iter().sum())
            });
            assert!(most <= sizes.len());
            found.unwrap()
        };
        let expected = [(0, 0), (1, 1), (5, 1), (6, 3), (12, 3), (13, 4), (15, 4), (16, 4), (u64::MAX, 4)];
        for (missing, number) in expected {
            assert_eq!(asked(missing), number, "{missing}");
        }
        assert_eq!(fewest(0, 5, |_| Ok(0)).unwrap(), 0);
        assert!(fewest(3, 5, |_| Err(Error::failed("look"))).is_err());
        assert_eq!(fewest(3, 0, |_| Err(Error::failed("look"))).unwrap(), 0, "nothing need be known");
    }

    #[test]
    fn the_space_of_a_plan_is_enough_if_it_is_exactly_what_is_missing() {
        let freed = |bound| Freed { bytes: 10, bound, ..Freed::default() };
        assert_eq!(shortage(&freed(Bound::Exact), 10), None);
        assert_eq!(shortage(&freed(Bound::Exact), 11), Some(OTHERS_KEPT));
        for bound in [Bound::About, Bound::AtLeast, Bound::AtMost] {
            assert!(shortage(&freed(bound), 11).unwrap().ends_with("is not known exactly"));
        }
    }

    #[test]
    fn the_more_a_snapshot_frees_the_fewer_must_go() {
        let bounds = [Bound::AtLeast, Bound::AtMost, Bound::Exact, Bound::About];
        assert_eq!(bounds.map(opposite), [Bound::AtMost, Bound::AtLeast, Bound::Exact, Bound::About]);
    }

    #[test]
    fn another_snapshot_goes_only_if_the_space_of_the_last_one_is_known() {
        let after = After { is_gone: true, is_deleted: true, is_settled: true, lacking: 10 };
        assert_eq!(after.next(|| 9), Next::Another);
        assert_eq!(after.next(|| 10), Next::Held);
        assert_eq!(After { lacking: 0, ..after }.next(|| 0), Next::Stop);
        assert_eq!(After { is_settled: false, ..after }.next(|| 0), Next::Wait);
        assert_eq!(After { is_deleted: false, ..after }.next(|| 0), Next::Wait);
        // It could not be removed: the next one may.
        assert_eq!(After { is_gone: false, is_deleted: false, ..after }.next(|| 10), Next::Another);
        assert_eq!(After { lacking: 0, is_gone: false, is_settled: false, ..after }.next(|| 0), Next::Stop);
    }
}
