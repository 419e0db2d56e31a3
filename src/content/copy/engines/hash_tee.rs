//! The hash of content as it passes by, holes counted as the zeros they read as.

use crate::content::hash;
use crate::monitor::Monitor;
use rustix::io::Result;

/// A hash that grows from the front.
#[derive(Debug, Default)]
pub(in super::super) struct HashTee {
    hasher: blake3::Hasher,
    at: u64,
}

impl HashTee {
    /// Takes these bytes, which lie at an offset; what lies between them and those before is a hole.
    pub(super) fn take(&mut self, bytes: &[u8], at: u64, monitor: &dyn Monitor) -> Result<()> {
        hash::zeros(&mut self.hasher, at.saturating_sub(self.at), monitor)?;
        self.hasher.update(bytes);
        self.at = at + bytes.len() as u64;
        Ok(())
    }

    /// The hash of content of this size.
    pub(in super::super) fn finish(mut self, size: u64, monitor: &dyn Monitor) -> Result<[u8; 32]> {
        hash::zeros(&mut self.hasher, size.saturating_sub(self.at), monitor)?;
        Ok(*self.hasher.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;

    #[test]
    fn holes_count_as_zeros() {
        let mut content = vec![0; 300_000];
        content[1000..2000].fill(7);
        content[200_000..200_100].fill(8);
        let mut passing = HashTee::default();
        passing.take(&content[1000..2000], 1000, &Silent).unwrap();
        passing.take(&content[200_000..200_100], 200_000, &Silent).unwrap();
        assert_eq!(passing.finish(300_000, &Silent).unwrap(), *blake3::hash(&content).as_bytes());
    }
}
