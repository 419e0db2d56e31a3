//! copy_file_range(2): the kernel copies. On filesystems with reflinks it shares aligned ranges instead, without a word; so
//! what it is counted to have written may be shared.
//!
//! On ext4 it writes holes out, which is why it gets ranges of data. A range that does not begin at a block shares nothing, not
//! even its inner blocks, so its head goes by a call of its own. A tail needs none: the kernel shares it where it ends the file,
//! and else stops before it.

use super::{Halt, Job, judge, repeat, uninterrupted};
use std::ops::Range;

/// The most of one call. The kernel takes 2 GiB, but glibc 2.41 tells more than 2^31 - 1 wrongly, and nobody can stop it
/// meanwhile.
const MOST: u64 = 128 << 20;
/// Of reflinks.
const BLOCK: u64 = 4096;

pub(super) fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    let pieces: Vec<_> = ranges.iter().flat_map(pieces).filter(|piece| !piece.is_empty()).collect();
    repeat(job, &pieces, MOST, |job, at, length| {
        let (mut from, mut to) = (at, at);
        let call = || rustix::fs::copy_file_range(job.source, Some(&mut from), job.destination, Some(&mut to), length);
        uninterrupted(call).map_err(judge)
    })
}

/// The head that is not aligned, and the rest.
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
