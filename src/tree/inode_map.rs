//! Remembers a value for each inode with several names until its last name was found. Memory is bounded, because a
//! source can contain any number of inodes with other names outside it.
//!
//! An index with 16 bytes per inode (extendible hashing, in pages) leads to the encoded values. The first part of both
//! is in memory. The rest is in unnamed files in a directory of the caller's filesystem.

use crate::fs::spill::Spill;
use crate::fs::status::{Status, Time};
use rustix::io::{Errno, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;

mod index;
mod values;

use index::Index;
use values::Values;

/// How much of the index is in memory: enough for about 2.5 million inodes.
const INDEX_MEMORY: usize = 60 << 20;
/// How much of the values is in memory: those of about 15,000 inodes.
const VALUES_MEMORY: usize = 4 << 20;

/// An inode during a run. If a new file gets the number of a deleted one, it is another inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
pub(crate) struct Identity {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    /// When the inode was created, or another time that distinguishes it from an earlier inode with the same number.
    pub(crate) since: Time,
}

impl Identity {
    /// The identity of an inode with this status. If there is no creation time, the change time is used. Then names
    /// that were found before and after a change count as two files, which is safe.
    pub(crate) fn of(status: &Status) -> Identity {
        Identity { dev: status.dev, ino: status.ino, since: status.btime.unwrap_or(status.ctime) }
    }
}

/// Values by inode.
#[derive(Debug)]
pub(crate) struct InodeMap<T> {
    index: Index,
    values: Values,
    hasher: RandomState,
    value: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> InodeMap<T> {
    /// An empty map.
    pub(crate) fn new(spill: Spill) -> Self {
        Self::with_memory(spill, INDEX_MEMORY, VALUES_MEMORY)
    }

    fn with_memory(spill: Spill, index: usize, values: usize) -> Self {
        let spill = std::sync::Arc::new(spill);
        let (index, values) = (Index::new(std::sync::Arc::clone(&spill), index), Values::new(spill, values));
        InodeMap { index, values, hasher: RandomState::new(), value: PhantomData }
    }

    /// The value of an inode.
    ///
    /// # Errors
    /// Errors of the files that hold the parts not in memory. The same applies to all other methods.
    pub(crate) fn get(&self, inode: &Identity) -> Result<Option<T>> {
        Ok(self.find(inode)?.map(|(_, value)| value))
    }

    /// Sets the value of an inode.
    pub(crate) fn insert(&mut self, inode: &Identity, value: &T) -> Result<()> {
        let bytes = postcard::to_stdvec(&(inode, value)).map_err(|_| Errno::OVERFLOW)?;
        let hash = self.hasher.hash_one(inode);
        match self.find(inode)? {
            Some((place, _)) => match self.values.replace(place, &bytes)? {
                moved if moved == place => Ok(()),
                moved => {
                    self.index.remove(hash, place)?;
                    self.index.insert(hash, moved)
                }
            },
            None => {
                let place = self.values.add(&bytes)?;
                self.index.insert(hash, place)
            }
        }
    }

    /// Removes and returns the value of an inode.
    pub(crate) fn remove(&mut self, inode: &Identity) -> Result<Option<T>> {
        let Some((place, value)) = self.find(inode)? else { return Ok(None) };
        self.index.remove(self.hasher.hash_one(inode), place)?;
        self.values.free(place)?;
        Ok(Some(value))
    }

    /// Passes every value to `each`, in any order, and empties the map.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(T)) -> Result<()> {
        for page in 0..self.index.pages() {
            for place in self.index.places(page)? {
                each(self.read(place)?.1);
            }
        }
        self.index.clear();
        self.values.clear();
        Ok(())
    }

    fn find(&self, inode: &Identity) -> Result<Option<(u64, T)>> {
        for place in self.index.find(self.hasher.hash_one(inode))? {
            let (found, value) = self.read(place)?;
            if found == *inode {
                return Ok(Some((place, value)));
            }
        }
        Ok(None)
    }

    fn read(&self, place: u64) -> Result<(Identity, T)> {
        // The value was written a moment ago, so different content means that the disk is damaged.
        self.values.read(place, |bytes| postcard::from_bytes(bytes).map_err(|_| Errno::IO))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn inode(number: u64) -> Identity {
        Identity { dev: number % 3, ino: number / 3, since: Time { seconds: 7, nanos: 9 } }
    }

    fn value(number: u64) -> Vec<u8> {
        vec![number as u8; (number % 700) as usize]
    }

    fn map(index: usize, values: usize) -> (InodeMap<Vec<u8>>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let spill = Spill::into(Some(File::open(dir.path()).unwrap().into()));
        (InodeMap::with_memory(spill, index, values), dir)
    }

    #[test]
    fn what_was_put_in_is_found_in_memory_and_on_disk() {
        for (index, values) in [(1 << 20, 1 << 20), (8192, 5000), (0, 0)] {
            let (mut map, dir) = map(index, values);
            for number in 0..10_000 {
                map.insert(&inode(number), &value(number)).unwrap();
            }
            for number in (0..10_000).step_by(3) {
                assert_eq!(map.remove(&inode(number)).unwrap(), Some(value(number)));
                assert_eq!(map.remove(&inode(number)).unwrap(), None);
            }
            for number in (1..10_000).step_by(3) {
                map.insert(&inode(number), &value(number * 31)).unwrap();
            }
            for number in 0..10_000 {
                let expected = match number % 3 {
                    0 => None,
                    1 => Some(value(number * 31)),
                    _ => Some(value(number)),
                };
                assert_eq!(map.get(&inode(number)).unwrap(), expected, "{number}");
            }
            let mut left = 0;
            map.drain(|_| left += 1).unwrap();
            assert_eq!((left, map.get(&inode(1)).unwrap()), (6666, None));
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the files have no names");
        }
    }

    #[test]
    fn an_inode_costs_a_few_bytes_of_memory() {
        let (mut map, _dir) = map(INDEX_MEMORY, VALUES_MEMORY);
        let count = 300_000;
        for number in 0..count {
            map.insert(&inode(number), &vec![7; 300]).unwrap();
        }
        let memory = map.index.memory() + map.values.memory() - VALUES_MEMORY.min(map.values.memory());
        assert!(memory / (count as usize) < 50, "{memory} bytes for {count}");
        assert!(map.values.memory() <= VALUES_MEMORY);
    }

    #[test]
    fn memory_has_a_limit_and_places_are_used_again() {
        let (mut map, _dir) = map(64 << 10, 10_000);
        for number in 0..50_000 {
            map.insert(&inode(number), &value(number)).unwrap();
            map.remove(&inode(number)).unwrap();
        }
        assert!(map.values.length() < 1 << 20, "{}", map.values.length());
        for number in 0..50_000 {
            map.insert(&inode(number), &Vec::new()).unwrap();
        }
        assert!(map.index.memory() < 80 << 10 && map.values.memory() <= 10_000);
        assert!((0..50_000).all(|number| map.get(&inode(number)).unwrap() == Some(Vec::new())));
    }

    #[test]
    fn a_number_that_was_used_again_is_another_inode() {
        let (mut map, _dir) = map(1 << 20, 1 << 20);
        let old = inode(7);
        let new = Identity { since: Time { seconds: 8, nanos: 0 }, ..old };
        map.insert(&old, &vec![1]).unwrap();
        assert_eq!(map.get(&new).unwrap(), None);
    }
}
