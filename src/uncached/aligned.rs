//! Buffers that begin at a multiple of 4 KiB, as direct I/O needs them, and are kept by their thread for the next file.

use std::cell::Cell;

/// The alignment: that of every filesystem and device that pleach has met.
pub const ALIGN: usize = 4096;

/// Such a buffer.
#[derive(Debug, Default)]
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

thread_local! {
    static KEPT: Cell<Aligned> = const { Cell::new(Aligned { memory: Vec::new(), start: 0, length: 0 }) };
}

impl Aligned {
    /// A buffer of this length.
    pub fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        Aligned { memory, start, length }
    }

    /// The buffer that this thread kept, if it is as long as that, else a new one.
    pub fn take(length: usize) -> Self {
        let mut kept = KEPT.take();
        kept.resize(length);
        kept
    }

    /// Keeps the buffer for this thread.
    pub fn give_back(self) {
        let kept = KEPT.take();
        KEPT.set(if kept.memory.len() > self.memory.len() { kept } else { self });
    }

    /// Makes it this long. What was in it is there no more if it has to be longer than it ever was.
    pub fn resize(&mut self, length: usize) {
        match self.memory.len() >= self.start + length {
            true => self.length = length,
            false => *self = Aligned::new(length),
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
