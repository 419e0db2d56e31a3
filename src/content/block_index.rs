//! An index of block hashes: the place where a block with a given hash was seen. It is a hash table with open
//! addressing and 16 bytes per slot. It never grows, and it stores one place per hash, so repeated data cannot fill it.
//!
//! The hash alone decides whether a block is stored (it must be 0 modulo N), so equal blocks of two files are either
//! both stored or both skipped. A hit is only a hint: the callers compare bytes.

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the file.
    pub(crate) file: u32,
    /// The number of the block in the file.
    pub(crate) block: u32,
}

/// Bytes per slot.
const SLOT: u64 = 16;

/// The table.
pub(crate) struct Index {
    /// The hash, and the place: the number of the file plus one, so that a slot of zeros is free, and the number of
    /// the block.
    slots: Vec<[u64; 2]>,
    used: usize,
    modulus: u64,
}

impl Index {
    /// A table of at most `memory` bytes for data of this many blocks. It is full at three quarters.
    pub(crate) fn new(memory: u64, blocks: u64) -> Index {
        let slots = (memory / SLOT).min(blocks.saturating_mul(4) / 3 + 64).max(64);
        let modulus = blocks.div_ceil(Self::limit_of(slots)).max(1);
        // The allocator provides zeroed memory, so unused pages take no memory.
        Index { slots: vec![[0; 2]; slots as usize], used: 0, modulus }
    }

    /// The same empty table for a larger N, a multiple of some N of an earlier table: whatever it stores, the earlier
    /// table stored too.
    pub(crate) fn with_modulus(self, modulus: u64) -> Index {
        debug_assert!(self.used == 0, "the stored hashes are of another N");
        Index { modulus: modulus.max(1), ..self }
    }

    /// N: on average one of N blocks is stored.
    pub(crate) fn modulus(&self) -> u64 {
        self.modulus
    }

    /// Whether a block with this hash is stored.
    pub(crate) fn keeps(&self, hash: u64) -> bool {
        hash.is_multiple_of(self.modulus)
    }

    /// Where a block with this hash was seen.
    pub(crate) fn find(&self, hash: u64) -> Option<Place> {
        place_in(self.slots[self.slot_of(hash)])
    }

    /// Stores where a block with this hash was seen and replaces an earlier place, which is returned. A full table
    /// accepts no new hash.
    pub(crate) fn put(&mut self, hash: u64, place: Place) -> Option<Place> {
        let at = self.slot_of(hash);
        let earlier = place_in(self.slots[at]);
        if earlier.is_none() {
            if self.used as u64 >= Self::limit_of(self.slots.len() as u64) {
                return None;
            }
            self.used += 1;
        }
        self.slots[at] = [hash, (u64::from(place.file) + 1) << 32 | u64::from(place.block)];
        earlier
    }

    /// All stored hashes with their places, nearly in the order of the hashes. Another table takes them up faster in
    /// this order than in any other.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, Place)> {
        self.slots.iter().filter_map(|slot| Some((slot[0], place_in(*slot)?)))
    }

    fn limit_of(slots: u64) -> u64 {
        slots / 4 * 3
    }

    /// The slot that holds this hash, or the free slot where it belongs. There is always a free slot.
    fn slot_of(&self, hash: u64) -> usize {
        let mut at = ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize;
        while self.slots[at][1] != 0 && self.slots[at][0] != hash {
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        at
    }
}

/// The place in a slot, unless the slot is free.
fn place_in(slot: [u64; 2]) -> Option<Place> {
    (slot[1] != 0).then(|| Place { file: (slot[1] >> 32) as u32 - 1, block: slot[1] as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn the_table_stays_within_its_memory_and_chooses_n_for_the_data() {
        let blocks = (64 << 30) / 4096;
        let index = Index::new(64 << 20, blocks);
        assert!(index.slots.len() as u64 * SLOT <= 64 << 20);
        assert_eq!(index.modulus(), 6);
        assert_eq!(Index::new(256 << 20, 1000).modulus(), 1);
    }

    #[test]
    fn a_full_table_takes_no_more_and_still_answers() {
        let mut index = Index::new(1024, 1 << 20);
        for n in 0..1000_u64 {
            index.put(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), Place { file: 0, block: n as u32 });
        }
        assert_eq!(index.used, 48);
        assert_eq!(index.find(0), Some(Place { file: 0, block: 0 }));
        assert_eq!(index.find(12345), None);
    }

    proptest! {
        #[test]
        fn it_answers_as_a_map_does(puts in prop::collection::vec((0..50_u64, any::<u32>(), 0..u32::MAX), 0..200)) {
            let mut index = Index::new(1 << 20, 1000);
            let mut model = HashMap::new();
            for (hash, block, file) in puts {
                let hash = hash << 58 | hash;
                let earlier = index.put(hash, Place { file, block });
                prop_assert_eq!(earlier, model.insert(hash, Place { file, block }));
            }
            prop_assert_eq!(&index.entries().collect::<HashMap<_, _>>(), &model);
            for hash in 0..50_u64 {
                let hash = hash << 58 | hash;
                prop_assert_eq!(index.find(hash), model.get(&hash).copied());
            }
        }
    }
}
