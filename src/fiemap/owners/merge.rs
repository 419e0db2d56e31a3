//! Ranges with their owners in a readable form: each reported once, and joined with the next range if that continues
//! for every owner. A merge sees the ranges of one file, so addresses are compared as numbers of one address space.

use super::owner::{Held, Part, Stats};
use std::collections::{HashMap, HashSet};

/// The number of ranges remembered so that each is reported once; a file that shares more within itself may repeat
/// some.
const REMEMBERED: usize = 1 << 20;

/// Ranges with more owners are not compared.
const COMPARED: usize = 1000;

/// Takes ranges in the order of a file, joins them and passes them on.
pub(super) struct Merge<'a> {
    each: &'a mut dyn FnMut(&Held),
    waiting: Option<Held>,
    told: HashSet<(u64, u64, u64)>,
    /// By subvolume and inode: whether the owner holds some of the file's own ranges.
    holders: HashMap<(Option<u64>, u64), bool>,
    stats: Stats,
}

impl<'a> Merge<'a> {
    pub(super) fn new(each: &'a mut dyn FnMut(&Held)) -> Self {
        Merge { each, waiting: None, told: HashSet::new(), holders: HashMap::new(), stats: Stats::default() }
    }

    /// Whether a range was not reported yet. `within` distinguishes ranges of one compressed extent.
    pub(super) fn is_new(&mut self, physical: u64, within: u64, length: u64) -> bool {
        self.told.len() >= REMEMBERED || self.told.insert((physical, within, length))
    }

    /// The next range.
    pub(super) fn push(&mut self, next: Held) {
        match &mut self.waiting {
            Some(last) if goes_on(last, &next) => {
                last.length += next.length;
                last.owners.iter_mut().zip(&next.owners).for_each(|(owner, more)| owner.length += more.length);
            }
            _ => {
                self.flush();
                self.waiting = Some(next);
            }
        }
    }

    /// Reports the remaining range.
    pub(super) fn finish(mut self) -> Stats {
        self.flush();
        let all = self.holders.len() as u64;
        let holders = self.holders.values().filter(|holds_this| **holds_this).count() as u64;
        Stats { holders, other_holders: all - holders, ..self.stats }
    }

    fn flush(&mut self) {
        if let Some(held) = self.waiting.take() {
            self.stats.ranges += 1;
            self.stats.missed += held.missed;
            for owner in &held.owners {
                *self.holders.entry((owner.subvolume, owner.inode)).or_default() |= owner.part == Part::This;
            }
            (self.each)(&held);
        }
    }
}

/// Whether `next` continues `last` in the file, on the device, and in every owner.
fn goes_on(last: &Held, next: &Held) -> bool {
    let adjoins = |a: (u64, u64), b: (u64, u64), length: u64| {
        a.0.checked_add(length) == Some(b.0) && a.1.checked_add(length) == Some(b.1)
    };
    !last.encoded
        && !next.encoded
        && last.missed + next.missed == 0
        && last.owners.len() <= COMPARED
        && last.owners.len() == next.owners.len()
        && adjoins((last.logical, last.physical), (next.logical, next.physical), last.length)
        && last.owners.iter().zip(&next.owners).all(|(a, b)| {
            (a.inode, a.subvolume, a.part) == (b.inode, b.subvolume, b.part)
                && adjoins((a.logical, a.physical), (b.logical, b.physical), a.length)
        })
}

#[cfg(test)]
mod tests {
    use super::super::owner::{Name, Owner};
    use super::*;

    fn held(logical: u64, physical: u64, owners: &[(u64, u64)]) -> Held {
        let owner = |&(inode, logical): &(u64, u64)| Owner {
            names: [Name::Unknown].into(),
            inode,
            subvolume: None,
            logical,
            physical,
            length: 10,
            part: Part::This,
        };
        let owners = owners.iter().map(owner).collect();
        Held { logical, physical, length: 10, encoded: false, owners, missed: 0 }
    }

    fn merged(all: Vec<Held>) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        let mut each = |held: &Held| out.push((held.logical, held.length));
        let mut merge = Merge::new(&mut each);
        all.into_iter().for_each(|held| merge.push(held));
        merge.finish();
        out
    }

    #[test]
    fn ranges_are_joined_where_every_owner_goes_on() {
        assert_eq!(merged(vec![held(0, 100, &[(1, 0), (2, 50)]), held(10, 110, &[(1, 10), (2, 60)])]), [(0, 20)]);
        assert_eq!(merged(vec![held(0, 100, &[(1, 0), (2, 50)]), held(10, 110, &[(1, 10), (2, 70)])]).len(), 2);
        assert_eq!(merged(vec![held(0, 100, &[(1, 0)]), held(10, 110, &[(1, 10), (2, 0)])]).len(), 2);
        assert_eq!(merged(vec![held(0, 100, &[(1, 0)]), held(10, 200, &[(1, 10)])]).len(), 2);
    }
}
