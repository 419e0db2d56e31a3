//! Runs of inode numbers, visited in ascending order: shares for threads, and which runs contain an inode. Pure, no
//! I/O.

use crate::util::pool;
use std::ops::Range;

/// The fewest inodes that are worth a thread.
const FEWEST: u64 = 4096;

/// Cuts runs with `count` inodes into shares for the threads of the calling pool.
pub(super) fn cut(runs: &[Range<u64>], count: u64) -> Vec<Vec<Range<u64>>> {
    cut_by(runs, (count / (pool::threads() as u64 * 4)).max(FEWEST))
}

/// Runs of at most about `share` inodes.
fn cut_by(runs: &[Range<u64>], share: u64) -> Vec<Vec<Range<u64>>> {
    let (mut segments, mut segment, mut room) = (Vec::new(), Vec::new(), share);
    for run in runs {
        let mut rest = run.clone();
        while !rest.is_empty() {
            let end = rest.end.min(rest.start.saturating_add(room));
            segment.push(rest.start..end);
            room -= end - rest.start;
            rest.start = end;
            if room == 0 {
                segments.push(std::mem::take(&mut segment));
                room = share;
            }
        }
    }
    segments.extend((!segment.is_empty()).then_some(segment));
    segments
}

/// Runs of inodes, visited in order.
pub(super) struct Cursor<'a> {
    runs: &'a [Range<u64>],
    /// The present run; `None` before the first call.
    at: Option<usize>,
}

/// Where an inode lies among runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// In a run.
    Within,
    /// Before this run.
    Before(u64),
    /// Behind all runs.
    End,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(runs: &'a [Range<u64>]) -> Self {
        Cursor { runs, at: None }
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.runs.first().map(|run| run.start)
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.runs.last().map(|run| run.end - 1)
    }

    pub(super) fn reach(&mut self, inode: u64) -> Reached {
        let mut at = self.at.unwrap_or_else(|| self.runs.partition_point(|run| run.end <= inode));
        while self.runs.get(at).is_some_and(|run| run.end <= inode) {
            at += 1;
        }
        self.at = Some(at);
        match self.runs.get(at) {
            Some(run) if run.start <= inode => Reached::Within,
            Some(run) => Reached::Before(run.start),
            None => Reached::End,
        }
    }

    /// The next inode for which the answer is another one than for the last inode that was asked for.
    fn changes_at(&self, last: u64) -> u64 {
        match self.runs.get(self.at.unwrap_or(0)) {
            Some(run) if run.start > last => run.start,
            Some(run) => run.end,
            None => u64::MAX,
        }
    }
}

/// Which lists of runs contain an inode, for inodes in ascending order. It takes a step for each run, not for each
/// inode.
pub(super) struct Members<'a> {
    cursors: Vec<Cursor<'a>>,
    lists: Vec<usize>,
    /// The first inode with another answer.
    until: u64,
}

impl<'a> Members<'a> {
    pub(super) fn new(lists: &'a [Vec<Range<u64>>]) -> Self {
        Members { cursors: lists.iter().map(|runs| Cursor::new(runs)).collect(), lists: Vec::new(), until: 0 }
    }

    /// Goes to an inode. Returns whether its lists may be others than before.
    pub(super) fn reach(&mut self, inode: u64) -> bool {
        if inode < self.until {
            return false;
        }
        self.lists.clear();
        self.until = u64::MAX;
        for (list, cursor) in self.cursors.iter_mut().enumerate() {
            if cursor.reach(inode) == Reached::Within {
                self.lists.push(list);
            }
            self.until = self.until.min(cursor.changes_at(inode));
        }
        true
    }

    /// The lists that contain the inode, in ascending order.
    pub(super) fn lists(&self) -> &[usize] {
        &self.lists
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn inodes_are_found_in_their_runs() {
        let runs = [3..5, 9..10];
        let mut cursor = Cursor::new(&runs);
        assert_eq!(cursor.reach(1), Reached::Before(3));
        assert_eq!(cursor.reach(4), Reached::Within);
        assert_eq!(cursor.reach(5), Reached::Before(9));
        assert_eq!(cursor.reach(10), Reached::End);
    }

    #[test]
    fn runs_have_a_first_and_a_last_inode() {
        let runs = [3..5, 9..10];
        assert_eq!((Cursor::new(&runs).first(), Cursor::new(&runs).last()), (Some(3), Some(9)));
        assert_eq!((Cursor::new(&[]).first(), Cursor::new(&[]).last()), (None, None));
    }

    #[test]
    fn the_lists_are_new_only_where_a_run_begins_or_ends() {
        let lists = [vec![3..6, 9..10]];
        let mut members = Members::new(&lists);
        let changes: Vec<u64> = (1..12).filter(|inode| members.reach(*inode)).collect();
        assert_eq!(changes, [1, 3, 6, 9, 10]);
    }

    #[test]
    fn each_thread_has_some_shares_that_are_worth_it() {
        let shares = |count| {
            let pool = pool::Pool::start(2).unwrap();
            pool.install(|| cut(&[0..1, 1..count], count)).iter().map(Vec::len).sum::<usize>()
        };
        assert_eq!((shares(800_000), shares(2 * FEWEST), shares(FEWEST)), (9, 3, 2));
    }

    #[test]
    fn runs_are_cut_into_even_shares() {
        let runs = [1..4, 10..11, 20..26];
        let shares = |share| cut_by(&runs, share).iter().map(|runs| format!("{runs:?}")).collect::<Vec<_>>();
        assert_eq!(shares(4), ["[1..4, 10..11]", "[20..24]", "[24..26]"]);
        assert_eq!(shares(100), [format!("{runs:?}")]);
        assert!(cut_by(&[], 4).is_empty());
    }

    proptest! {
        #[test]
        fn lists_are_those_with_a_run_around_the_inode(
            starts in prop::collection::vec(prop::collection::btree_set(0u64..80, 0..10), 0..5),
            wanted in prop::collection::btree_set(0u64..80, 0..40),
        ) {
            let runs = |starts: &std::collections::BTreeSet<u64>| {
                let bounds: Vec<u64> = starts.iter().copied().collect();
                bounds.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect::<Vec<_>>()
            };
            let lists: Vec<_> = starts.iter().map(runs).collect();
            let mut members = Members::new(&lists);
            for inode in wanted {
                members.reach(inode);
                let expected = (0..lists.len()).filter(|list| lists[*list].iter().any(|run| run.contains(&inode)));
                prop_assert_eq!(members.lists(), expected.collect::<Vec<_>>());
            }
        }
    }
}
