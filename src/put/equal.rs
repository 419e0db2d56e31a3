//! Compares a piece of the input with a piece of the base, block by block.

/// The number of equal bytes at the start, in whole blocks; a partial block at the end counts if both files end there.
pub(super) fn equal(bytes: &[u8], other: &[u8], block: usize, ends: bool) -> usize {
    let both = bytes.len().min(other.len());
    let both = if ends && both == bytes.len() { both } else { both / block * block };
    let (bytes, other) = (&bytes[..both], &other[..both]);
    // Mostly everything is equal, and one comparison of a long range is fastest.
    if bytes == other {
        return both;
    }
    let blocks = bytes.chunks(block).zip(other.chunks(block));
    blocks.take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum()
}
