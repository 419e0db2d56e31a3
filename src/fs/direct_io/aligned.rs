//! Buffers that start at a multiple of 4 KiB, as direct I/O needs, and are reused for the next file.
//!
//! The buffer returned last is used first, by any thread: few buffers serve many threads and stay in the CPU cache. The
//! pool keeps as many buffers as were ever in use at once.

use crate::util::mutex::lock;
use std::sync::Mutex;

/// The alignment. It suits every known filesystem and device.
pub(crate) const ALIGN: usize = 4096;

/// The smallest allocation. Unused parts take no memory, and a larger file next needs no new allocation.
const LEAST: usize = 1 << 20;

/// An aligned buffer.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

impl Aligned {
    /// A buffer of this length, with undefined content.
    pub(crate) fn take(length: usize) -> Self {
        let kept = lock(&KEPT).pop().filter(|memory| memory.len() >= length + ALIGN);
        let memory = kept.unwrap_or_else(|| vec![0; length.max(LEAST) + ALIGN]);
        let start = memory.as_ptr().align_offset(ALIGN);
        Aligned { memory, start, length }
    }

    /// Changes the length. The content is lost if the buffer must grow.
    pub(crate) fn resize(&mut self, length: usize) {
        match self.memory.len() >= self.start + length {
            true => self.length = length,
            false => *self = Aligned::take(length),
        }
    }

    /// The content.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// The content, mutable.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
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
