//! Where two files of a Btrfs have different extents, from the items of the files. Any number of extents: these are
//! streamed, and never held. `streamed` answers less, for every filesystem.
//!
//! FIEMAP would not do: it does not show where in a compressed extent the data begins, and finds out for each extent
//! who else has it.

use super::layout::{Inode, settle};
use super::ranges::Bytes;
use crate::sys::btrfs::tree::{self, EXTENT_DATA, Key, Step};
use crate::sys::btrfs::{ExtentPart, FileExtent};
use rustix::io::{Errno, Result};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

/// How many items are read at once.
const BATCH: usize = 4096;

/// Passes the ranges to `each` in which the two files have different extents, or only one of them has an extent. They
/// are in order, disjoint, and do not touch. All other ranges have the same content. `each` may change `other` in the
/// range that it receives.
///
/// Dirty pages are written first. A later change of a file shows in its times, and nowhere else.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`, `OPNOTSUPP` if a file has content in its tree, and errors of `each`.
pub(crate) fn each_differing(
    (one, its): (BorrowedFd<'_>, Inode),
    (other, others): (BorrowedFd<'_>, Inode),
    mut each: impl FnMut(Bytes) -> Result<()>,
) -> Result<()> {
    settle(one)?;
    settle(other)?;
    let (mut ours, mut theirs) = (Parts::of(one, its), Parts::of(other, others));
    let mut found: Option<Bytes> = None;
    let mut at = 0;
    loop {
        let (a, b) = (ours.from(at)?, theirs.from(at)?);
        let Some((range, is_same)) = compare(a.as_ref(), b.as_ref(), at) else { break };
        at = range.end;
        if is_same {
            continue;
        }
        match &mut found {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => {
                found.replace(range).map_or(Ok(()), &mut each)?;
            }
        }
    }
    found.map_or(Ok(()), each)
}

/// The next range behind `at` in which both files have one part or none, and whether it is the same. `None`: both files
/// end.
fn compare(one: Option<&ExtentPart>, other: Option<&ExtentPart>, at: u64) -> Option<(Bytes, bool)> {
    let start = |part: Option<&ExtentPart>| part.map_or(u64::MAX, |part| part.logical.max(at));
    let end = |part: Option<&ExtentPart>| part.map_or(u64::MAX, end_of);
    let (a, b) = (start(one), start(other));
    let from = a.min(b);
    let to = match a.cmp(&b) {
        std::cmp::Ordering::Less => end(one).min(b),
        std::cmp::Ordering::Greater => end(other).min(a),
        std::cmp::Ordering::Equal => end(one).min(end(other)),
    };
    let is_same = a == b && one.zip(other).is_some_and(|(one, other)| is_same_place(one, other));
    (from < to && one.or(other).is_some()).then_some((from..to, is_same))
}

fn end_of(part: &ExtentPart) -> u64 {
    part.logical.saturating_add(part.length)
}

/// Whether two parts hold the same bytes where they overlap in the files.
fn is_same_place(one: &ExtentPart, other: &ExtentPart) -> bool {
    let shape = |part: &ExtentPart| (part.extent, part.disk, part.decoded, part.compressed, part.written);
    // Where the extent would begin in the file.
    let begin = |part: &ExtentPart| part.logical.wrapping_sub(part.offset);
    shape(one) == shape(other) && begin(one) == begin(other) && !one.foreign && !other.foreign
}

/// The parts of a file, some at a time.
struct Parts<'a> {
    fd: BorrowedFd<'a>,
    inode: Inode,
    read: VecDeque<ExtentPart>,
    /// Where the next items begin. `None`: there are no more.
    next: Option<u64>,
}

impl<'a> Parts<'a> {
    fn of(fd: BorrowedFd<'a>, inode: Inode) -> Parts<'a> {
        Parts { fd, inode, read: VecDeque::new(), next: Some(0) }
    }

    /// The first part that ends behind an offset.
    fn from(&mut self, at: u64) -> Result<Option<ExtentPart>> {
        loop {
            while self.read.front().is_some_and(|part| end_of(part) <= at) {
                self.read.pop_front();
            }
            match (self.read.front(), self.next) {
                (Some(part), _) => return Ok(Some(*part)),
                (None, None) => return Ok(None),
                (None, Some(next)) => self.read_from(next)?,
            }
        }
    }

    fn read_from(&mut self, next: u64) -> Result<()> {
        let key = |offset| Key::new(self.inode.number, EXTENT_DATA, offset);
        let (read, mut is_inline) = (&mut self.read, false);
        self.next = None;
        let behind = &mut self.next;
        tree::search(self.fd, self.inode.root, key(next), key(u64::MAX), |item| {
            match FileExtent::read(&item) {
                // A damaged tree may have empty parts, which would end the comparison.
                Some(FileExtent::Data(part)) => read.extend((part.length > 0).then_some(part)),
                Some(FileExtent::Inline(_)) => is_inline = true,
                None => {}
            }
            if is_inline || read.len() >= BATCH {
                *behind = item.key.offset.checked_add(1);
                return Step::Stop;
            }
            Step::Next
        })?;
        if is_inline { Err(Errno::OPNOTSUPP) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(logical: u64, length: u64, extent: u64, offset: u64) -> ExtentPart {
        let (disk, decoded) = (100, 100);
        let (written, compressed, foreign) = (true, false, false);
        ExtentPart { logical, extent, disk, decoded, offset, length, written, compressed, foreign }
    }

    /// What a walk through the parts of two files finds, block by block: whether the same byte is there.
    fn walk(one: &[ExtentPart], other: &[ExtentPart]) -> Vec<Bytes> {
        let (mut at, mut found) = (0, Vec::new());
        let from = |parts: &[ExtentPart], at| parts.iter().find(|part| end_of(part) > at).copied();
        while let Some((range, is_same)) = compare(from(one, at).as_ref(), from(other, at).as_ref(), at) {
            at = range.end;
            if !is_same {
                crate::extents::ranges::push(&mut found, range);
            }
        }
        found
    }

    fn byte_at(parts: &[ExtentPart], at: u64) -> Option<(u64, u64)> {
        let part = parts.iter().find(|part| part.logical <= at && at < end_of(part))?;
        Some((part.extent, part.offset + at - part.logical))
    }

    fn parts() -> impl Strategy<Value = Vec<ExtentPart>> {
        prop::collection::vec((0u64..3, 1u64..6, 0u64..3, 0u64..3), 0..12).prop_map(|pieces| {
            let mut at = 0;
            let place = |(gap, length, extent, shift): (u64, u64, u64, u64)| {
                let logical = at + gap;
                at = logical + length;
                part(logical, length, 1000 * (extent + 1), logical + shift)
            };
            pieces.into_iter().map(place).collect()
        })
    }

    proptest! {
        #[test]
        fn exactly_the_ranges_without_the_same_bytes_differ(one in parts(), other in parts()) {
            let found = walk(&one, &other);
            for at in 0..100 {
                let differs = found.iter().any(|range| range.contains(&at));
                prop_assert_eq!(differs, byte_at(&one, at) != byte_at(&other, at), "at {}", at);
            }
        }
    }

    #[test]
    fn an_extent_in_another_form_differs() {
        let whole = part(0, 10, 500, 0);
        let forms = [
            ExtentPart { compressed: true, ..whole },
            ExtentPart { written: false, ..whole },
            ExtentPart { foreign: true, ..whole },
            ExtentPart { disk: 50, ..whole },
            ExtentPart { offset: 1, ..whole },
        ];
        for form in forms {
            assert_eq!(walk(&[whole], &[form]).first(), Some(&(0..10)), "{form:?}");
        }
        assert_eq!(walk(&[whole], &[whole]), []);
    }
}
