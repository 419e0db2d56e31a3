//! The new data of one file: the bytes in extents that its older version does not hold.

use crate::extents::address_space::AddressSpace;
use crate::extents::extent::ExtentFlags;
use crate::extents::ranges::{self, Bytes};
use crate::sys::fiemap;
use crate::usage::Bound;
use rustix::io::Result;
use std::collections::HashSet;
use std::fs::File;

/// How many extents of an older version are compared with, at most: 16 bytes each.
const EXTENTS: usize = 1 << 20;

/// The bytes that `new` holds and `old` does not, and how exact that is. `None`: the filesystem does not report it, or
/// there are too many extents.
pub(super) fn new_bytes(old: Option<&File>, new: &File) -> Result<Option<(u64, Bound)>> {
    if AddressSpace::of(new)?.is_none() {
        return Ok(None);
    }
    let mut held = Held::default();
    if let Some(old) = old.filter(|old| AddressSpace::common(old, new).is_ok_and(|space| space.is_some()))
        && !held.add(old)?
    {
        return Ok(None);
    }
    let held = Held { ranges: ranges::list(held.ranges), ..held };
    let (mut bytes, mut is_at_most) = (0_u64, false);
    for extent in fiemap::extents(new, false) {
        let extent = extent?;
        let has = |flag| extent.flags.contains(flag);
        bytes = bytes.saturating_add(match extent.physical {
            _ if has(ExtentFlags::UNWRITTEN) => 0,
            // Part of a compressed extent: its length on the disk is unknown.
            Some(start) if has(ExtentFlags::ENCODED) => {
                let is_new = !held.encoded.contains(&start);
                is_at_most |= is_new;
                if is_new { extent.length } else { 0 }
            }
            Some(start) => {
                let end = start.saturating_add(extent.length);
                let parts: Vec<Bytes> = ranges::within(&held.ranges, &(start..end)).collect();
                (end - start).saturating_sub(ranges::length(&parts))
            }
            None => extent.length,
        });
    }
    Ok(Some((bytes, Bound::of(false, is_at_most))))
}

/// The extents of the older version.
#[derive(Default)]
struct Held {
    ranges: Vec<Bytes>,
    /// The addresses of compressed extents.
    encoded: HashSet<u64>,
}

impl Held {
    /// Adds the extents of a file; false if they are too many.
    fn add(&mut self, file: &File) -> Result<bool> {
        for extent in fiemap::extents(file, false) {
            let extent = extent?;
            let Some(start) = extent.physical else { continue };
            if extent.flags.contains(ExtentFlags::ENCODED) {
                self.encoded.insert(start);
            } else {
                self.ranges.push(start..start.saturating_add(extent.length));
            }
            if self.ranges.len() + self.encoded.len() > EXTENTS {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
