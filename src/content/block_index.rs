//! The index of block hashes: where a block with this hash was seen. A flat table of open addressing, made once, of 16
//! bytes a place; it never grows, and it keeps one place for a hash, so repeated data cannot flood it.
//!
//! Which blocks are kept depends on their content alone (the hash is 0 modulo N), so that equal blocks of two files are
//! both kept or both not. What a hit means is for `scan.rs`: a hash is a hint, bytes decide.

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the file.
    pub(crate) file: u32,
    /// The number of the block in the file.
    pub(crate) block: u32,
}

/// Bytes of one place.
const SLOT: u64 = 16;

/// The table.
pub(crate) struct Index {
    /// The hash, and the place: the file's number plus one, so that a slot of zeros is free; then the block's.
    slots: Vec<[u64; 2]>,
    used: usize,
    modulus: u64,
}

impl Index {
    /// A table of at most `memory` bytes for data of so many blocks. It is full at three quarters.
    pub(crate) fn new(memory: u64, blocks: u64) -> Index {
        let slots = (memory / SLOT).min(blocks.saturating_mul(4) / 3 + 64).max(64);
        let modulus = blocks.div_ceil(Self::limit_of(slots)).max(1);
        // Zeroed memory from the allocator: pages that are never used are never there.
        Index { slots: vec![[0; 2]; slots as usize], used: 0, modulus }
    }

    /// N: one block in so many is kept, on average.
    pub(crate) fn modulus(&self) -> u64 {
        self.modulus
    }

    /// Whether a block with this hash is kept.
    pub(crate) fn keeps(&self, hash: u64) -> bool {
        hash.is_multiple_of(self.modulus)
    }

    /// Where a block with this hash was seen.
    pub(crate) fn find(&self, hash: u64) -> Option<Place> {
        let slot = self.slots[self.slot_of(hash)];
        (slot[1] != 0).then(|| Place { file: (slot[1] >> 32) as u32 - 1, block: slot[1] as u32 })
    }

    /// Notes where a block with this hash was seen, in place of what was known of it. A full table takes no new hash.
    pub(crate) fn put(&mut self, hash: u64, place: Place) {
        let at = self.slot_of(hash);
        if self.slots[at][1] == 0 {
            if self.used as u64 >= Self::limit_of(self.slots.len() as u64) {
                return;
            }
            self.used += 1;
        }
        self.slots[at] = [hash, (u64::from(place.file) + 1) << 32 | u64::from(place.block)];
    }

    fn limit_of(slots: u64) -> u64 {
        slots / 4 * 3
    }

    /// The slot that holds this hash, or the free one where it belongs. There is always a free one.
    fn slot_of(&self, hash: u64) -> usize {
        let mut at = ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize;
        while self.slots[at][1] != 0 && self.slots[at][0] != hash {
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        at
    }
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
                index.put(hash, Place { file, block });
                model.insert(hash, Place { file, block });
            }
            for hash in 0..50_u64 {
                let hash = hash << 58 | hash;
                prop_assert_eq!(index.find(hash), model.get(&hash).copied());
            }
        }
    }
}
