//! copy_file_range(2): the kernel copies. On filesystems with reflinks it silently shares aligned ranges, so bytes that
//! are counted as written may be shared.
//!
//! On ext4 it fills holes, so it gets ranges of data only. A range that does not start at a block shares nothing, not
//! even its inner blocks, so an unaligned head gets a call of its own. A tail does not: the kernel shares it at the end
//! of the file and otherwise stops before it.

use super::calls::{judge, repeat, uninterrupted};
use super::driver::{Capabilities, Driver};
use super::job::{Halt, Job};
use std::ops::Range;

/// The longest call. The kernel accepts 2 GiB, but glibc 2.41 misreports more than 2^31 - 1, and a call cannot be
/// cancelled.
const MOST: u64 = 128 << 20;
/// The unit of reflinks.
const BLOCK: u64 = 4096;

pub(super) const DRIVER: Driver = Driver { capabilities: Capabilities::KERNEL_CALL, copy };

fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    let pieces: Vec<_> = ranges.iter().flat_map(pieces).filter(|piece| !piece.is_empty()).collect();
    repeat(job, &pieces, MOST, |job, at, length| {
        let (mut from, mut to) = (at, at);
        let call = || rustix::fs::copy_file_range(job.source, Some(&mut from), job.destination, Some(&mut to), length);
        uninterrupted(call).map_err(judge)
    })
}

/// The unaligned head, and the rest.
fn pieces(range: &Range<u64>) -> [Range<u64>; 2] {
    let first = range.start.next_multiple_of(BLOCK).min(range.end);
    [range.start..first, first..range.end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_is_not_aligned_goes_apart() {
        assert_eq!(pieces(&(0..8192)), [0..0, 0..8192]);
        assert_eq!(pieces(&(100..20_000)), [100..4096, 4096..20_000]);
        assert_eq!(pieces(&(100..200)), [100..200, 200..200]);
    }
}
