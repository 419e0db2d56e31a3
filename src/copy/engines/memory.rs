//! Buffers that begin at a multiple of 4 KiB, as direct I/O needs them, and are kept by their thread for the next file.

use std::cell::Cell;

/// The alignment: that of every filesystem and device that pleach has met.
pub(super) const ALIGN: usize = 4096;

/// Such a buffer.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

thread_local! {
    static KEPT: Cell<Aligned> = const { Cell::new(Aligned { memory: Vec::new(), start: 0, length: 0 }) };
}

impl Aligned {
    /// A buffer of this length.
    pub(super) fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        Aligned { memory, start, length }
    }

    /// The buffer that this thread kept, if it is as long as that, else a new one.
    pub(super) fn take(length: usize) -> Self {
        let mut kept = KEPT.take();
        match kept.memory.len() >= kept.start + length {
            true => {
                kept.length = length;
                kept
            }
            false => Aligned::new(length),
        }
    }

    /// Keeps the buffer for this thread.
    pub(super) fn give_back(self) {
        let kept = KEPT.take();
        KEPT.set(if kept.memory.len() > self.memory.len() { kept } else { self });
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
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
            buffer.give_back();
        }
    }
}
