//! The extents and sums of one path, or of the whole set, updated as files are counted.

use super::device::Volume;
use super::inodes::Inodes;
use super::references::References;

/// Sums over the inodes of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Regular files, hard links once.
    pub files: u64,
    /// The sum of the file sizes, as readers of the files see them.
    pub apparent_bytes: u64,
    /// The bytes on the disk for them, counted as often as files refer to them. On Btrfs only data; elsewhere
    /// everything that the filesystem counts as an inode's blocks.
    pub disk_bytes: u64,
    /// The part of these bytes that nothing else refers to, neither in the set nor outside it.
    pub exclusive_bytes: u64,
    /// The bytes there that are referred to from several places, each block once.
    pub shared_bytes: u64,
    /// The number of references from its files to extents.
    pub references: u64,
    /// Content that is stored in metadata and takes no block of its own.
    pub inline_bytes: u64,
    /// Some of the files are compressed, and the compressed length could not be read: `disk_bytes` is an upper bound.
    pub is_at_most: bool,
}

impl Totals {
    /// Adds the totals of another part of the same files.
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
    /// Indexed by the number of the device.
    pub(super) inodes: Vec<Inodes>,
    /// Indexed by the number of the volume.
    references: Vec<Option<References>>,
}

impl Part {
    /// Adds a name of an inode. Returns whether the inode is new here.
    pub(super) fn add(&mut self, device: usize, inode: u64) -> bool {
        at(&mut self.inodes, device).add(inode)
    }

    /// Takes the inodes of a device.
    pub(super) fn take_inodes(&mut self, device: usize) -> Inodes {
        self.inodes.get_mut(device).map(std::mem::take).unwrap_or_default()
    }

    /// The references to a volume.
    pub(super) fn references(&mut self, volume: &Volume) -> &mut References {
        at(&mut self.references, volume.number).get_or_insert_with(|| References::new(volume.space))
    }
}

fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
