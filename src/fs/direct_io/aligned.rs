//! Buffers that begin at a multiple of 4 KiB, as direct I/O needs them, and are kept for the next file.
//!
//! The one that was given back last is taken first, whatever thread asks: where many threads have a turn at few copies, a few
//! buffers do for all, and stay in the processor's cache. So as many are kept as were ever in use at once.

use crate::util::mutex::lock;
use std::sync::Mutex;

/// The alignment: that of every filesystem and device that pleach has met.
pub const ALIGN: usize = 4096;

/// The least that is allocated: what was never used of it takes no memory, and it need not be allocated again for the next
/// file, a larger one.
const LEAST: usize = 1 << 20;

/// Such a buffer.
#[derive(Debug, Default)]
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

impl Aligned {
    /// A buffer of this length, with whatever it was last used for.
    pub fn take(length: usize) -> Self {
        let kept = lock(&KEPT).pop().filter(|memory| memory.len() >= length + ALIGN);
        let memory = kept.unwrap_or_else(|| vec![0; length.max(LEAST) + ALIGN]);
        let start = memory.as_ptr().align_offset(ALIGN);
        Aligned { memory, start, length }
    }

    /// Makes it this long. What was in it is there no more if it has to be longer than it ever was.
    pub fn resize(&mut self, length: usize) {
        match self.memory.len() >= self.start + length {
            true => self.length = length,
            false => *self = Aligned::take(length),
        }
    }

    /// Its content.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// Its content, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if !self.memory.is_empty() {
            lock(&KEPT).push(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_also_when_they_come_back() {
        for length in [1, 4096, 100_000, 5000] {
            let mut buffer = Aligned::take(length);
            assert_eq!(buffer.bytes().len(), length);
            assert_eq!(buffer.bytes_mut().as_ptr().align_offset(ALIGN), 0);
        }
    }
}
