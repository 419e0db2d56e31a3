//! The files in scope, stored compactly: about 60 bytes a file besides its name, so a million files take some 80 MiB.
//!
//! A path is stored as the number of a directory and a name; a directory as the number of its parent and a name. The
//! catalogue does not know how the files are used; `file` opens them.

use crate::extents::address_space::SpaceId;
use crate::fs::filesystem::{Id, Kind};
use crate::fs::status::{Status, Time};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// A file in scope, by its number in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(pub u32);

/// A filesystem that files were found on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Volume {
    /// Its identity.
    pub id: Id,
    /// The address space of its files.
    pub space: SpaceId,
    /// The kind of filesystem.
    pub kind: Kind,
    /// The unit of sharing, in bytes.
    pub block_size: u64,
    /// Its UUID, by which the cache knows it. It survives a reboot.
    pub uuid: [u8; 16],
    /// A hash that identifies one mount of the filesystem, from mounting to unmounting; `None` if it is unknown.
    pub session: Option<u64>,
}

/// A part of a filesystem with inode numbers of its own: a Btrfs subvolume, or all of another filesystem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subvolume {
    /// The device number that `stat` reports for its files.
    pub dev: u64,
    /// The filesystem, by its number in the catalogue.
    pub volume: u16,
    /// Its number within the filesystem. It survives a reboot.
    pub number: u64,
    /// Whether it is a read-only snapshot.
    pub read_only: bool,
}

/// The status of one file as the walk saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    directory: u32,
    name: u32,
    name_length: u16,
    /// The subvolume, by its number in the catalogue.
    pub subvolume: u16,
    mtime_nanos: u32,
    ctime_nanos: u32,
    mtime_seconds: i64,
    ctime_seconds: i64,
    /// Its inode.
    pub ino: u64,
    /// Its apparent size in bytes.
    pub size: u64,
}

const _: () = assert!(size_of::<Record>() <= 56);

impl Record {
    /// Last change of content.
    pub(crate) fn mtime(&self) -> Time {
        Time { seconds: self.mtime_seconds, nanos: self.mtime_nanos }
    }

    /// Last change of the inode.
    pub(crate) fn ctime(&self) -> Time {
        Time { seconds: self.ctime_seconds, nanos: self.ctime_nanos }
    }
}

#[derive(Clone, Copy, Debug)]
struct DirectoryRecord {
    parent: u32,
    name: u32,
    name_length: u16,
}

/// All files in scope.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    names: Vec<u8>,
    directories: Vec<DirectoryRecord>,
    files: Vec<Record>,
    subvolumes: Vec<Subvolume>,
    volumes: Vec<Volume>,
}

/// The parent number of a directory without a parent.
pub(super) const NO_PARENT: u32 = u32::MAX;

impl Catalogue {
    /// Adds a directory and returns its number. `None` if there is no room for its name (4 GiB of names).
    pub(super) fn add_directory(&mut self, parent: u32, name: &[u8]) -> Option<u32> {
        let (name, name_length) = self.add_name(name)?;
        let number = u32::try_from(self.directories.len()).ok().filter(|number| *number != NO_PARENT)?;
        self.directories.push(DirectoryRecord { parent, name, name_length });
        Some(number)
    }

    /// Adds a file of a directory. `None` if there is no room for it.
    pub(super) fn add_file(&mut self, directory: u32, name: &[u8], subvolume: u16, status: &Status) -> Option<FileId> {
        let id = FileId(u32::try_from(self.files.len()).ok()?);
        let (name, name_length) = self.add_name(name)?;
        self.files.push(Record {
            directory,
            name,
            name_length,
            subvolume,
            mtime_nanos: status.mtime.nanos,
            ctime_nanos: status.ctime.nanos,
            mtime_seconds: status.mtime.seconds,
            ctime_seconds: status.ctime.seconds,
            ino: status.ino,
            size: status.size,
        });
        Some(id)
    }

    fn add_name(&mut self, name: &[u8]) -> Option<(u32, u16)> {
        let start = u32::try_from(self.names.len()).ok()?;
        let length = u16::try_from(name.len()).ok()?;
        self.names.extend_from_slice(name);
        Some((start, length))
    }

    pub(super) fn set_places(&mut self, subvolumes: Vec<Subvolume>, volumes: Vec<Volume>) {
        (self.subvolumes, self.volumes) = (subvolumes, volumes);
        self.names.shrink_to_fit();
        self.files.shrink_to_fit();
    }

    /// How many files there are.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// All files, in the order in which the walk found them.
    pub(crate) fn ids(&self) -> impl Iterator<Item = FileId> + use<> {
        (0..self.files.len() as u32).map(FileId)
    }

    /// The status of a file as the walk saw it.
    pub(crate) fn record(&self, file: FileId) -> &Record {
        &self.files[file.0 as usize]
    }

    /// A file's size when the walk saw it.
    pub(crate) fn size(&self, file: FileId) -> u64 {
        self.record(file).size
    }

    /// The subvolume of a file.
    pub(crate) fn subvolume(&self, file: FileId) -> &Subvolume {
        &self.subvolumes[usize::from(self.record(file).subvolume)]
    }

    /// The number of the filesystem of a file.
    pub(crate) fn volume_number(&self, file: FileId) -> u16 {
        self.subvolume(file).volume
    }

    /// The filesystem of a file.
    pub(crate) fn volume(&self, file: FileId) -> &Volume {
        &self.volumes[usize::from(self.volume_number(file))]
    }

    /// The filesystems.
    pub(crate) fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    /// A file's path, for messages and results.
    pub(crate) fn path(&self, file: FileId) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.path_from(b"/", file)))
    }

    /// A file's path, relative to the root directory.
    pub(super) fn path_below_root(&self, file: FileId) -> Vec<u8> {
        self.path_from(b"", file)
    }

    /// A file's name in its directory.
    pub(super) fn name(&self, file: FileId) -> &[u8] {
        let record = self.record(file);
        self.bytes(record.name, record.name_length)
    }

    fn path_from(&self, root: &[u8], file: FileId) -> Vec<u8> {
        let mut way = Vec::with_capacity(16);
        let mut at = self.record(file).directory;
        while let Some(record) = self.directories.get(at as usize) {
            way.push(record);
            at = record.parent;
        }
        let mut path = Vec::with_capacity(128);
        path.extend_from_slice(root);
        for record in way.into_iter().rev() {
            let name = self.bytes(record.name, record.name_length);
            if !name.is_empty() {
                path.extend_from_slice(name);
                path.push(b'/');
            }
        }
        path.extend_from_slice(self.name(file));
        path
    }

    fn bytes(&self, start: u32, length: u16) -> &[u8] {
        let start = start as usize;
        &self.names[start..start + usize::from(length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_together_from_their_directories() {
        let status = Status::of(std::fs::File::open("/").unwrap()).unwrap();
        let mut catalogue = Catalogue::default();
        let root = catalogue.add_directory(NO_PARENT, b"").unwrap();
        let srv = catalogue.add_directory(root, b"srv").unwrap();
        let data = catalogue.add_directory(srv, b"data").unwrap();
        let deep = catalogue.add_file(data, b"a", 0, &status).unwrap();
        let high = catalogue.add_file(root, b"b", 0, &status).unwrap();
        assert_eq!(catalogue.path(deep), PathBuf::from("/srv/data/a"));
        assert_eq!(catalogue.path_below_root(deep), b"srv/data/a");
        assert_eq!(catalogue.path_below_root(high), b"b");
        assert_eq!(catalogue.path(high), PathBuf::from("/b"));
        assert_eq!(catalogue.record(deep).ctime(), status.ctime);
    }
}
