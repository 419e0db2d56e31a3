//! The hash of content that arrives from front to back. Holes count as the zeros that they read as.

use crate::monitor::Monitor;
use rustix::io::{Errno, Result};

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// A hash that grows with its content.
#[derive(Debug, Default)]
pub(crate) struct StreamHash {
    hasher: blake3::Hasher,
    /// Bytes hashed so far.
    length: u64,
}

impl StreamHash {
    /// Appends these bytes.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
    }

    /// Appends the bytes at an offset. The range between them and the previous bytes is a hole.
    ///
    /// # Errors
    /// `CANCELED` when the monitor asks to stop.
    pub(crate) fn append_at(&mut self, bytes: &[u8], offset: u64, monitor: &dyn Monitor) -> Result<()> {
        self.append_hole(offset.saturating_sub(self.length), monitor)?;
        self.append(bytes);
        Ok(())
    }

    /// Appends a hole of this length.
    ///
    /// # Errors
    /// `CANCELED` when the monitor asks to stop.
    pub(crate) fn append_hole(&mut self, mut length: u64, monitor: &dyn Monitor) -> Result<()> {
        while length > 0 {
            if monitor.is_cancelled() {
                return Err(Errno::CANCELED);
            }
            let now = length.min(ZEROS.len() as u64);
            self.append(&ZEROS[..now as usize]);
            length -= now;
        }
        Ok(())
    }

    /// The hash of all that was appended.
    pub(crate) fn finish(&self) -> [u8; 32] {
        *self.hasher.finalize().as_bytes()
    }

    /// The hash of content of this size, which may end in a hole.
    ///
    /// # Errors
    /// `CANCELED` when the monitor asks to stop.
    pub(crate) fn finish_at(mut self, size: u64, monitor: &dyn Monitor) -> Result<[u8; 32]> {
        self.append_hole(size.saturating_sub(self.length), monitor)?;
        Ok(self.finish())
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
        let mut hash = StreamHash::default();
        hash.append_at(&content[1000..2000], 1000, &Silent).unwrap();
        hash.append_at(&content[200_000..200_100], 200_000, &Silent).unwrap();
        assert_eq!(hash.finish_at(300_000, &Silent).unwrap(), *blake3::hash(&content).as_bytes());
    }
}
