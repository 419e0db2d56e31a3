//! Short forms of hashes. `content` hashes files.

/// The first eight bytes of a hash as a number, little-endian. Use it only as a hint that something else verifies.
pub(crate) fn prefix(hash: &[u8; 32]) -> u64 {
    hash.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_the_same_number_on_every_machine() {
        assert_eq!(prefix(&std::array::from_fn(|at| at as u8 + 1)), 0x0807_0605_0403_0201);
    }
}
