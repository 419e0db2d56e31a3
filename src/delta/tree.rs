//! BLAKE3 as the tree that it is: windows of a file are hashed in any order, by any thread, in grains whose values serve
//! to compare versions, and the same values make the hash of the whole file. Nothing is hashed twice.

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt as _, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

/// How much is read and hashed at once: a subtree of every larger file.
pub const WINDOW: u64 = 1 << 20;
/// What one value of a list stands for, in bytes: a subtree of the window.
pub const GRAIN: usize = 16 << 10;

/// As much of a grain's value as is kept and compared. Two grains that differ have the same one by a chance of 2⁻¹²⁸, and
/// who wants to make such a pair has to try 2⁶⁴ times.
pub type Short = [u8; 16];

/// Hashes the window that begins at `offset` of a file of `size` bytes, and appends the values of its grains to `shorts`.
/// Gives what [`whole`] is made of.
pub fn window(bytes: &[u8], offset: u64, size: u64, grain: usize, shorts: &mut Vec<Short>) -> ChainingValue {
    let mut values = Vec::with_capacity(bytes.len().div_ceil(grain));
    for (number, part) in bytes.chunks(grain).enumerate() {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(offset + (number * grain) as u64).update(part);
        let value = hasher.finalize_non_root();
        let mut short = Short::default();
        short.copy_from_slice(&value[..16]);
        shorts.push(short);
        values.push(value);
    }
    if size <= WINDOW {
        // The root of the tree is hashed as no other part is.
        return *blake3::hash(bytes).as_bytes();
    }
    merge(&values, bytes.len() as u64, grain as u64)
}

/// The BLAKE3 of a file of `size` bytes, not 0, from all its windows.
pub fn whole(windows: &[ChainingValue], size: u64) -> [u8; 32] {
    match windows {
        [only] => *only,
        _ => {
            let left = left_subtree_len(size);
            let (a, b) = windows.split_at((left / WINDOW) as usize);
            *merge_subtrees_root(&merge(a, left, WINDOW), &merge(b, size - left, WINDOW), Mode::Hash).as_bytes()
        }
    }
}

/// The value over `length` bytes, of which each of `values` but the last stands for `each`.
fn merge(values: &[ChainingValue], length: u64, each: u64) -> ChainingValue {
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
        ] {
            let bytes: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            for grain in [4096, GRAIN] {
                let mut shorts = Vec::new();
                let windows: Vec<_> = bytes
                    .chunks(window_length)
                    .enumerate()
                    .map(|(n, part)| window(part, n as u64 * WINDOW, size as u64, grain, &mut shorts))
                    .collect();
                assert_eq!(whole(&windows, size as u64), *blake3::hash(&bytes).as_bytes(), "{size} {grain}");
                assert_eq!(shorts.len(), size.div_ceil(grain));
            }
        }
    }
}
