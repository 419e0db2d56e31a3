//! The figure that everything here leads to: the space that deleting a set would free.

use crate::extents::bound::Bound;
use std::path::PathBuf;

/// The space that deleting the set would free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Freed {
    /// Bytes. On XFS also inodes and maps. On Btrfs only data and `metadata_bytes`.
    pub bytes: u64,
    /// The part of `bytes` in Btrfs's own trees. It is only counted for subvolumes that are deleted as a whole, and by
    /// root.
    pub metadata_bytes: u64,
    /// The part of `bytes` in chunks of inodes, and in the trees that list them (XFS).
    pub inode_bytes: u64,
    /// Further bytes for which it could not be determined whether anything outside the set holds them.
    pub undecided_bytes: u64,
    /// How exact `bytes` is.
    pub bound: Bound,
}

impl Freed {
    /// The sum of two, of different filesystems or different parts of a set.
    pub(super) fn and(self, other: Freed) -> Freed {
        Freed {
            bytes: self.bytes + other.bytes,
            inode_bytes: self.inode_bytes + other.inode_bytes,
            metadata_bytes: self.metadata_bytes + other.metadata_bytes,
            undecided_bytes: self.undecided_bytes + other.undecided_bytes,
            bound: self.bound.and(other.bound),
        }
    }
}

/// A symbolic link that goes with the set.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Where it is.
    pub path: PathBuf,
    /// Its inode number.
    pub inode: u64,
    /// The inode number of the directory in which a link is made that takes its place, before anything is deleted.
    pub made_in: Option<u64>,
}

impl Link {
    /// Its path, if nothing takes its place. Otherwise its directory stays as it is.
    pub(super) fn unreplaced(&self) -> Option<&PathBuf> {
        self.made_in.is_none().then_some(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_has_the_bytes_and_the_doubts_of_both() {
        let parts = |bytes, bound| Freed {
            bytes,
            metadata_bytes: bytes / 2,
            inode_bytes: bytes / 4,
            undecided_bytes: bytes / 8,
            bound,
        };
        assert_eq!(parts(8, Bound::Exact).and(parts(16, Bound::AtLeast)), parts(24, Bound::AtLeast));
    }

    #[test]
    fn a_link_that_is_replaced_keeps_its_directory() {
        let link = Link { path: "a".into(), inode: 1, made_in: None };
        assert_eq!(link.unreplaced(), Some(&PathBuf::from("a")));
        assert_eq!(Link { made_in: Some(2), ..link }.unreplaced(), None);
    }
}
