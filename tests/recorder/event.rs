//! What the harness and the server of the recorder share: the requests to a device, and their form in a file.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;

/// The name of the only file of the filesystem.
pub(crate) const IMAGE: &str = "image";

/// A request that the device has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Data was written at an offset of the device. The data are in the journal at `kept`.
    Write { at: u64, length: u64, kept: u64 },
    /// A range was discarded, or set to zeros.
    Zeros { at: u64, length: u64 },
    /// All earlier requests are on the disk.
    Flush,
}

/// The number of bytes of a request in a file.
pub(crate) const ENCODED: usize = 25;

impl Event {
    /// Its form in a file.
    pub(crate) fn encode(self) -> [u8; ENCODED] {
        let (kind, numbers) = match self {
            Event::Write { at, length, kept } => (b'w', [at, length, kept]),
            Event::Zeros { at, length } => (b'z', [at, length, 0]),
            Event::Flush => (b'f', [0; 3]),
        };
        let mut encoded = [kind; ENCODED];
        for (place, number) in encoded[1..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        encoded
    }
}

/// Sets a range of an image to zeros.
pub(crate) fn punch(image: &File, at: u64, length: u64) -> io::Result<()> {
    fallocate(image, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, length)?;
    Ok(())
}
