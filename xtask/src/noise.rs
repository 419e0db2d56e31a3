//! Bytes for made files that do not repeat or compress. Each run gets the same bytes, so a repeated bench measures the
//! same content.

/// A sequence of numbers by shifts and exclusive ors (Marsaglia, "Xorshift RNGs", 2003; shifts 13, 7, 17).
pub struct Noise(u64);

impl Noise {
    /// The sequence for a seed, which must not be 0: only zeros follow 0.
    pub fn from(seed: u64) -> Noise {
        Noise(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The bytes of the next numbers, lowest first; unused bytes of the last number are dropped.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length.next_multiple_of(8));
        while bytes.len() < length {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes_whatever_is_asked_for_at_once() {
        let whole = Noise::from(42).bytes(4096);
        let mut parts = Noise::from(42);
        assert_eq!([parts.bytes(1024), parts.bytes(3072)].concat(), whole);
        assert_eq!(Noise::from(42).bytes(13), whole[..13]);
        assert!(Noise::from(42).bytes(0).is_empty());
        // The trees of the published figures were made with these numbers.
        assert_eq!(Noise::from(1).number(), 0x4082_2041);
    }
}
