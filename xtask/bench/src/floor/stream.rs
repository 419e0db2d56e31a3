//! The device alone: the same number of bytes in large pieces past the page cache, eight in flight at once.

use anyhow::{Result, anyhow};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::{pread, pwrite};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The size of a piece.
const BUFFER: usize = 1 << 20;
/// The number of pieces in flight at once.
const DEPTH: usize = 8;

/// Copies the files of the directory `from` into `to`, which it creates, past the page cache; or only writes the same
/// number of bytes.
pub(super) fn copy(from: &Path, to: &Path, write_only: bool) -> Result<()> {
    fs::create_dir(to)?;
    let mut pieces = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let size = entry.metadata()?.len();
        let direct = OFlags::DIRECT.bits() as i32;
        let source = File::options().read(true).custom_flags(direct).open(entry.path())?;
        let name = to.join(entry.file_name());
        let copy = File::options().write(true).create_new(true).custom_flags(direct).open(name)?;
        if size > 0 {
            rustix::fs::fallocate(&copy, FallocateFlags::empty(), 0, size)?;
        }
        let both = Arc::new((source, copy));
        pieces.extend((0..size).step_by(BUFFER).map(|at| (Arc::clone(&both), at, BUFFER.min((size - at) as usize))));
    }
    let next = AtomicUsize::new(0);
    let one_after_the_other = || -> Result<()> {
        let mut memory = vec![0x5A; BUFFER + ALIGNMENT];
        let buffer = aligned(&mut memory);
        while let Some((both, at, length)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (source, copy) = &**both;
            if !write_only {
                pread(source, &mut buffer[..*length], *at)?;
            }
            pwrite(copy, &buffer[..length.next_multiple_of(ALIGNMENT)], *at)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers = [(); DEPTH].map(|()| scope.spawn(one_after_the_other));
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

const ALIGNMENT: usize = 4096;

/// The aligned part of a buffer, as direct I/O requires.
fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let begin = memory.as_ptr().align_offset(ALIGNMENT);
    &mut memory[begin..begin + BUFFER]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_memory_is_aligned_and_long_enough() {
        let mut memory = vec![0; BUFFER + ALIGNMENT];
        let buffer = aligned(&mut memory);
        assert_eq!((buffer.as_ptr().addr() % ALIGNMENT, buffer.len()), (0, BUFFER));
    }
}
