//! What one path, or the whole set, holds: counted while the files come.

use super::inodes::Inodes;
use super::references::References;

/// Sums over the inodes of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Regular files, hard links once.
    pub files: u64,
    /// What readers of the files see: the sum of their sizes.
    pub apparent_bytes: u64,
    /// What lies on the disk for them, as often as files refer to it. On Btrfs data; elsewhere everything that the
    /// filesystem counts as an inode's blocks.
    pub disk_bytes: u64,
    /// What of it nothing else refers to, neither in the set nor outside it.
    pub exclusive_bytes: u64,
    /// What lies there and is referred to from several places, each block once.
    pub shared_bytes: u64,
    /// How often its files refer to an extent.
    pub references: u64,
    /// Content that lies in metadata and takes no block of its own.
    pub inline_bytes: u64,
    /// Some of the files are compressed, and how far could not be asked: what lies on the disk is at most this.
    pub is_at_most: bool,
}

impl Totals {
    /// Adds what another part of the same holds.
    pub(super) fn add(&mut self, other: &Totals) {
        let Totals {
            files,
            apparent_bytes,
            disk_bytes,
            exclusive_bytes,
            shared_bytes,
            references,
            inline_bytes,
            is_at_most,
        } = other;
        self.files += files;
        self.apparent_bytes = self.apparent_bytes.saturating_add(*apparent_bytes);
        self.disk_bytes += disk_bytes;
        self.exclusive_bytes += exclusive_bytes;
        self.shared_bytes += shared_bytes;
        self.references += references;
        self.inline_bytes += inline_bytes;
        self.is_at_most |= is_at_most;
    }
}

/// A path, or the set.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) totals: Totals,
    /// By the number of the device.
    pub(super) inodes: Vec<Inodes>,
    /// By the number of the volume.
    pub(super) references: Vec<References>,
}

impl Part {
    /// Adds a name of an inode. Whether the inode is new here.
    pub(super) fn add(&mut self, device: usize, inode: u64) -> bool {
        at(&mut self.inodes, device).add(inode)
    }

    /// The references to a volume.
    pub(super) fn references(&mut self, volume: usize) -> &mut References {
        at(&mut self.references, volume)
    }
}

fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
