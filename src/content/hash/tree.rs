//! The hash of a file from its windows, hashed in any order by any thread. BLAKE3 is a tree: the values of a window's
//! grains are used to compare versions of a file, and the same values make the hash of the whole file.

use blake3::Hasher;
use blake3::hazmat::{HasherExt as _, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};
use std::collections::BTreeMap;

/// How much is read and hashed at once: a subtree of every larger file.
pub const WINDOW: u64 = 1 << 20;
/// The length of a grain, in bytes: a subtree of the window. A list has one value for each grain.
pub const GRAIN: usize = 16 << 10;

/// The value of a subtree that is not the whole file.
pub type Subtree = [u8; 32];

/// The value of the grain that begins at `offset` of a file.
fn grain(bytes: &[u8], offset: u64) -> Subtree {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(offset).update(bytes);
    hasher.finalize_non_root()
}

/// The values of the grains of a part of a file that begins at `offset`. The last grain may be shorter.
pub fn grains(bytes: &[u8], offset: u64, length: usize) -> impl Iterator<Item = Subtree> {
    bytes.chunks(length).enumerate().map(move |(n, bytes)| grain(bytes, offset + (n * length) as u64))
}

/// The value of the window that begins at `offset` of a file of `size` bytes. An only window is the root of the tree,
/// which is hashed differently.
pub fn window(bytes: &[u8], offset: u64, size: u64) -> Subtree {
    if size <= WINDOW { *blake3::hash(bytes).as_bytes() } else { grain(bytes, offset) }
}

/// The hash of a file from the values of its windows, added in any order. It stores a value for each level of the tree,
/// and the values that arrived early.
#[derive(Debug, Default)]
pub struct Whole {
    /// The complete subtrees, the largest first: one for each bit of `next`, or one more.
    complete: Vec<Subtree>,
    /// The next window in order.
    next: u64,
    early: BTreeMap<u64, Subtree>,
}

impl Whole {
    /// Adds the value of a window.
    pub fn add(&mut self, number: u64, value: Subtree) {
        self.early.insert(number, value);
        while let Some(value) = self.early.remove(&self.next) {
            // The root is merged differently, so subtrees are merged only when another window follows.
            self.merge_down_to(self.next.count_ones() as usize);
            self.complete.push(value);
            self.next += 1;
        }
    }

    fn merge_down_to(&mut self, subtrees: usize) {
        while self.complete.len() > subtrees
            && let (Some(right), Some(left)) = (self.complete.pop(), self.complete.pop())
        {
            self.complete.push(merge_subtrees_non_root(&left, &right, Mode::Hash));
        }
    }

    /// The hash, after all windows were added; `None` without windows.
    pub fn finish(mut self) -> Option<[u8; 32]> {
        if self.next == 1 {
            return self.complete.pop();
        }
        self.merge_down_to(2);
        let (right, left) = (self.complete.pop()?, self.complete.pop()?);
        Some(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
    }
}

/// The value of `length` bytes of a larger file. Each of `values` covers `each` bytes, except the last.
pub fn merge(values: &[Subtree], length: u64, each: u64) -> Subtree {
    match values {
        [only] => *only,
        _ => {
            let left = left_subtree_len(length);
            let (a, b) = values.split_at((left / each) as usize);
            merge_subtrees_non_root(&merge(a, left, each), &merge(b, length - left, each), Mode::Hash)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_of_a_file_make_its_hash() {
        let window_length = WINDOW as usize;
        for size in [
            1,
            1024,
            16 << 10,
            window_length - 1,
            window_length,
            window_length + 1,
            3 * window_length + 17_000,
            5 << 20,
            8 << 20,
            (13 << 20) + 1,
        ] {
            let bytes: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            for grain_length in [4096, GRAIN] {
                let value = |(number, part): (usize, &[u8])| {
                    if size <= window_length {
                        return window(part, 0, size as u64);
                    }
                    let values: Vec<_> = grains(part, (number * window_length) as u64, grain_length).collect();
                    merge(&values, part.len() as u64, grain_length as u64)
                };
                let windows: Vec<_> = bytes.chunks(window_length).enumerate().map(value).collect();
                let mut whole = Whole::default();
                let mut order: Vec<_> = (0..windows.len()).collect();
                order.rotate_left(size % 3 % windows.len());
                order.iter().for_each(|&number| whole.add(number as u64, windows[number]));
                assert_eq!(whole.finish(), Some(*blake3::hash(&bytes).as_bytes()), "{size} {grain_length}");
            }
        }
    }
}
