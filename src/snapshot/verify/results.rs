//! The hashes of content that was read already, by its place on the disk. So renamed and deduplicated files are not
//! read again, and damage is found for each of them. Bounded: the latest results stay.

use crate::content::hash::versions::Digest;
use crate::extents::address_space::{AddressSpace, SpaceId};
use crate::extents::streamed::Layout;
use crate::fs::status::Status;
use crate::util::mutex::lock;
use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, PoisonError};

/// How many results of each class a generation holds, at about 150 bytes each. Two generations are kept.
const GENERATION: usize = 1 << 15;
/// Files of at least this size, in bytes, are a class of their own, so that many small files do not displace them.
const LARGE: u64 = 1 << 20;

/// Where a file's data lies, and everything else that decides its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    data: Data,
    space: Option<SpaceId>,
    size: u64,
    /// With compressed extents, the hash that the file should have: these do not show where their data begins.
    claim: Option<[u8; 32]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Data {
    Layout(Layout),
    /// It has no addresses. Device and inode number.
    Inode(u64, u64),
}

impl Place {
    /// The place of a file with this status, address space and layout (if it has them), and hash in its record.
    pub(super) fn new(status: &Status, space: Option<AddressSpace>, layout: Option<Layout>, claim: [u8; 32]) -> Place {
        let data = layout.map_or(Data::Inode(status.dev, status.ino), Data::Layout);
        let claim = layout.filter(|layout| layout.is_encoded).map(|_| claim);
        Place { data, space: space.map(AddressSpace::id), size: status.size, claim }
    }

    /// The space of its addresses.
    pub(super) fn space(&self) -> Option<SpaceId> {
        self.space
    }
}

/// Table for places. Shared by threads.
#[derive(Debug, Default)]
pub(super) struct Results {
    results: Mutex<Table>,
    changed: Condvar,
}

/// The state of a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// Its content.
    Read(Digest),
    /// Another thread is reading it.
    InProgress,
    /// Nothing. It is in progress from now on, until [`Results::put`] or [`Results::give_up`].
    Yours,
}

#[derive(Debug, Default)]
struct Table {
    small: Generations,
    large: Generations,
    in_progress: HashSet<Place>,
}

#[derive(Debug, Default)]
struct Generations {
    present: HashMap<Place, Digest>,
    last: HashMap<Place, Digest>,
}

impl Results {
    /// The state of a place.
    pub(super) fn ask(&self, place: &Place) -> Answer {
        lock(&self.results).ask(place)
    }

    /// The same, once no other thread is reading it. To prevent a deadlock, the caller has nothing in progress.
    pub(super) fn wait(&self, place: &Place) -> Answer {
        let is_in_progress = |results: &mut Table| results.in_progress.contains(place);
        let results = self.changed.wait_while(lock(&self.results), is_in_progress);
        results.unwrap_or_else(PoisonError::into_inner).ask(place)
    }

    /// Adds a result.
    pub(super) fn put(&self, place: Place, digest: Digest) {
        let mut results = lock(&self.results);
        results.in_progress.remove(&place);
        results.class(&place).put(place, digest);
        drop(results);
        self.changed.notify_all();
    }

    /// Ends the progress without a result.
    pub(super) fn give_up(&self, place: &Place) {
        lock(&self.results).in_progress.remove(place);
        self.changed.notify_all();
    }
}

impl Table {
    fn ask(&mut self, place: &Place) -> Answer {
        let class = self.class(place);
        let found = class.present.get(place).or_else(|| class.last.get(place)).copied();
        match found {
            Some(digest) => {
                // A result that is used stays.
                class.put(*place, digest);
                Answer::Read(digest)
            }
            None if self.in_progress.insert(*place) => Answer::Yours,
            None => Answer::InProgress,
        }
    }

    fn class(&mut self, place: &Place) -> &mut Generations {
        if place.size < LARGE { &mut self.small } else { &mut self.large }
    }
}

impl Generations {
    fn put(&mut self, place: Place, digest: Digest) {
        if self.present.len() >= GENERATION {
            self.last = std::mem::take(&mut self.present);
        }
        self.present.insert(place, digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> Place {
        Place::new(&Status { ino: number, ..Status::default() }, None, None, [0; 32])
    }

    #[test]
    fn the_latest_results_stay_and_memory_is_bounded() {
        let results = Results::default();
        let digest = Digest::Hash([7; 32]);
        for number in 0..3 * GENERATION as u64 {
            assert!(matches!(results.ask(&place(number)), Answer::Yours));
            results.put(place(number), digest);
            // One that is used now and then stays.
            assert!(matches!(results.ask(&place(0)), Answer::Read(_)));
        }
        assert!(matches!(results.ask(&place(1)), Answer::Yours));
        let results = lock(&results.results);
        assert!(results.small.present.len() + results.small.last.len() <= 2 * GENERATION);
    }

    #[test]
    fn a_place_in_progress_is_waited_for() {
        let results = Results::default();
        assert!(matches!(results.ask(&place(1)), Answer::Yours));
        assert!(matches!(results.ask(&place(1)), Answer::InProgress));
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| results.wait(&place(1)));
            results.put(place(1), Digest::Hash([7; 32]));
            assert!(matches!(waiting.join().unwrap(), Answer::Read(_)));
        });
        assert!(matches!(results.ask(&place(2)), Answer::Yours));
        results.give_up(&place(2));
        assert!(matches!(results.wait(&place(2)), Answer::Yours), "its turn");
    }
}
