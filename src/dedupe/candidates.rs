//! Size classes. A file can equal another only if both have the same size and are on the same filesystem. All other
//! files are never opened.

use super::catalogue::{Catalogue, FileId};
use std::ops::Range;

/// The files that may equal another file.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    files: Vec<FileId>,
    /// Ordered by the bytes they may save, the most first.
    classes: Vec<Class>,
    /// Regular files, each inode once.
    pub(super) inodes: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Further names of inodes that are already included.
    pub(super) links: Vec<FileId>,
}

/// Files of one size on one filesystem; each inode once.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) size: u64,
    files: Range<usize>,
}

impl Class {
    /// How many files it has.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The most bytes it can save.
    fn saving(&self) -> u128 {
        u128::from(self.size) * (self.len() as u128).saturating_sub(1)
    }
}

impl Candidates {
    /// Sorts the files of the catalogue into classes.
    pub(super) fn of(catalogue: &Catalogue) -> Candidates {
        let mut found = Candidates::default();
        let inode = |id: FileId| (catalogue.record(id).subvolume, catalogue.record(id).ino);
        let class = |id: FileId| (catalogue.volume_number(id), catalogue.size(id));
        let mut files: Vec<FileId> = catalogue.ids().collect();
        files.sort_unstable_by_key(|id| (class(*id), inode(*id), *id));
        files.dedup_by(|later, earlier| {
            let again = inode(*later) == inode(*earlier) && class(*later) == class(*earlier);
            if again {
                found.links.push(*later);
            }
            again
        });
        found.inodes = files.len() as u64;
        found.bytes = files.iter().map(|id| catalogue.size(*id)).sum();
        let mut start = 0;
        for same in files.chunk_by(|a, b| class(*a) == class(*b)) {
            let size = same.first().map_or(0, |id| catalogue.size(*id));
            if size > 0 && same.len() > 1 {
                found.classes.push(Class { size, files: start..start + same.len() });
            }
            start += same.len();
        }
        found.classes.sort_by_key(|class| std::cmp::Reverse(class.saving()));
        found.files = files;
        found
    }

    /// The classes, those that may save the most first.
    pub(super) fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The files of a class.
    pub(super) fn files(&self, class: &Class) -> &[FileId] {
        &self.files[class.files.clone()]
    }

    /// Files and bytes in all classes.
    pub(super) fn amount(&self) -> crate::monitor::Amount {
        let files = self.classes.iter().map(|class| class.len() as u64).sum();
        let bytes = self.classes.iter().map(|class| class.size.saturating_mul(class.len() as u64)).sum();
        crate::monitor::Amount { files, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::{NO_PARENT, Subvolume, Volume};
    use super::*;
    use crate::extents::address_space::SpaceId;
    use crate::fs::filesystem::{Id, Kind};
    use crate::fs::status::Status;

    #[test]
    fn classes_have_files_of_one_size_and_filesystem_with_each_inode_once() {
        let mut status = Status::of(std::fs::File::open("/").unwrap()).unwrap();
        let mut catalogue = Catalogue::default();
        let root = catalogue.add_directory(NO_PARENT, b"").unwrap();
        let mut add = |subvolume, ino, size| {
            (status.ino, status.size) = (ino, size);
            catalogue.add_file(root, b"x", subvolume, &status).unwrap()
        };
        let (a, b) = (add(0, 1, 10), add(1, 1, 10));
        let link = add(0, 1, 10);
        add(2, 2, 10);
        add(0, 3, 0);
        add(0, 4, 0);
        let (c, d) = (add(0, 5, 100), add(0, 6, 100));
        let subvolume = |dev, volume| Subvolume { dev, volume, number: dev, read_only: false };
        let volume = |dev| Volume {
            id: Id::Device(dev),
            space: SpaceId::assumed(),
            kind: Kind::Xfs,
            block_size: 4096,
            uuid: [0; 16],
            session: None,
        };
        catalogue.set_places(vec![subvolume(0, 0), subvolume(1, 0), subvolume(2, 1)], vec![volume(0), volume(2)]);
        let candidates = Candidates::of(&catalogue);
        let classes: Vec<_> = candidates.classes().iter().map(|class| candidates.files(class).to_vec()).collect();
        assert_eq!(classes, [vec![c, d], vec![a, b]]);
        assert_eq!(candidates.links, [link]);
        assert_eq!((candidates.inodes, candidates.bytes), (7, 230));
        assert_eq!(candidates.amount(), crate::monitor::Amount { files: 4, bytes: 220 });
    }
}
