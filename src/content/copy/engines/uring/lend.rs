//! The rings of threads. Each thread keeps its ring: no locks, and no setup for the next file.

use crate::sys::uring::Ring;
use rustix::io::Errno;
use std::cell::Cell;
use std::thread::LocalKey;

/// A ring that a thread keeps.
pub(crate) type Kept = Cell<Option<Ring>>;

/// Lends this thread's ring, with buffers of at least this length. If the user of a ring fails, the ring is not kept.
pub(crate) fn lend_ring<T>(
    kept: &'static LocalKey<Kept>,
    slots: usize,
    buffer: usize,
    lend: impl FnOnce(&mut Ring) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let mut ring = match kept.take().filter(|ring| ring.buffer_length() >= buffer) {
        Some(ring) => ring,
        None => Ring::new(slots, buffer)?,
    };
    let result = lend(&mut ring);
    ring.drain();
    if result.is_ok() {
        kept.set(Some(ring));
    }
    result
}
