//! Whether XFS's trees of free space keep their size when ranges are freed. Only for root.
//!
//! `df` does not count the blocks of these trees as free. A tree with few ranges is one block, whatever happens. The
//! size of a larger one depends on the order in which ranges are freed, which differs from run to run.

use crate::sys::getfsmap::{self, Owner};
use crate::sys::xfs::{self, Geometry};
use rustix::io::{Errno, Result};
use std::os::fd::AsFd;

/// The bytes of a record.
const RECORD: u64 = 8;
/// The most records that are read.
const MOST: usize = 1 << 16;
/// The fewest records in a block of the reverse map, and the part of a group that is reserved for it.
const REVERSE: u64 = 80;
const RESERVED: u64 = 100;

/// The trees of free space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::usage) struct FreeSpace {
    /// How many further ranges fit into the tree of every allocation group, if each is one block.
    room: u64,
    /// The size of a block.
    block: u64,
}

impl FreeSpace {
    /// The free space as it is now. If it cannot be read, or takes long, nothing is known.
    pub(in crate::usage) fn of(fd: impl AsFd) -> FreeSpace {
        let read = || {
            let geometry = xfs::geometry(&fd)?;
            let most = most(&fd, &geometry)?;
            // Each leaf of a tree with several is at least half full.
            let room = (geometry.room_of_tree_block() / RECORD / 2 * 2).saturating_sub(most + 1);
            Ok::<_, Errno>(FreeSpace { room, block: geometry.block_size.into() })
        };
        read().unwrap_or_default()
    }

    /// The most ranges that this many bytes of metadata can be.
    pub(in crate::usage) fn blocks(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.block.max(1))
    }

    /// Whether the trees certainly keep their size if this many ranges are freed.
    pub(in crate::usage) fn keeps_its_trees(&self, ranges: u64) -> bool {
        ranges <= self.room
    }
}

/// The largest number of free ranges in an allocation group.
fn most(fd: impl AsFd, geometry: &Geometry) -> Result<u64> {
    let device = getfsmap::device_code(rustix::fs::fstat(&fd)?.st_dev);
    let size = (u64::from(geometry.group_blocks) * u64::from(geometry.block_size)).max(1);
    let (mut group, mut free, mut owned, mut most) = (0, 0, 0, 0);
    for (number, record) in getfsmap::records(&fd, device, 0..u64::MAX).enumerate() {
        let record = record?;
        if number >= MOST {
            return Err(Errno::OVERFLOW);
        }
        if record.physical / size != group {
            (group, free, owned) = (record.physical / size, 0, 0);
        }
        if record.owner == Owner::FREE {
            free += 1;
        } else {
            owned += 1;
        }
        // A reverse map that is larger than the space reserved for it takes further blocks.
        if geometry.reverse_map && owned / REVERSE > u64::from(geometry.group_blocks) / RESERVED {
            return Err(Errno::OVERFLOW);
        }
        most = most.max(free);
    }
    Ok(most)
}
