//! The names in one directory: read through the directory's own descriptor, stored in one allocation, sorted as bytes.
//!
//! An entry takes about 16 bytes in addition to its name, so a directory with a million entries needs about 40 MiB.
//! Listing through the descriptor that the walk holds, and not through a path, does not change the access times of the
//! source. A second open (as walkdir would do, by `/proc/self/fd/N`) could not prevent that.

use crate::fs::status::Status;
use rustix::fs::{FileType, RawDir};
use rustix::io::{Errno, Result};
use std::io;
use std::os::fd::AsFd;

/// The number of entries in a batch. A directory with a million entries has many batches.
pub(super) const BATCH: usize = 512;

/// One call of getdents64(2) fills it with about 1,000 names.
const BUFFER: usize = 32 * 1024;

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name<'a> {
    /// Its bytes; never empty, without a slash.
    pub bytes: &'a [u8],
    /// The inode number in the directory. For a mount point, this is the covered inode.
    pub ino: u64,
    /// Whether it was a regular file when the directory was listed.
    pub is_file: bool,
}

/// The names in a directory. Subdirectories are listed separately. Both lists are sorted.
#[derive(Debug, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    entries: Vec<Span>,
    directories: Vec<Span>,
    /// Whether a name was not found.
    pub(super) has_missing: bool,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    ino: u64,
    start: u32,
    length: u16,
    is_file: bool,
}

impl Names {
    /// Lists an open directory that was not read before. `wanted` selects names: it receives each name, and whether it
    /// is a directory. Returns the names read so far even if an error ends the listing early.
    pub(crate) fn list(fd: impl AsFd, wanted: impl FnMut(&[u8], bool) -> bool) -> (Names, Option<io::Error>) {
        let mut names = Names::default();
        let cut = names.read(fd, wanted).err();
        names.sort();
        (names, cut.map(Into::into))
    }

    /// Only these names in an open directory, if they exist. Returns an error if one does not exist.
    pub(crate) fn of<'a>(fd: impl AsFd, wanted: impl IntoIterator<Item = &'a [u8]>) -> (Names, Option<io::Error>) {
        let (names, missing) = Self::each(fd, wanted);
        (names, missing.last().map(|(_, errno)| (*errno).into()))
    }

    /// Only these names in an open directory. Returns those that cannot be examined too, each with the reason.
    pub(super) fn each<'a>(
        fd: impl AsFd,
        wanted: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Names, Vec<(&'a [u8], Errno)>) {
        let mut names = Names::default();
        let mut missing = Vec::new();
        for name in wanted {
            match Status::at(&fd, name) {
                Ok(status) => names.push(name, status.ino, status.file_type()),
                Err(errno) => missing.push((name, errno)),
            }
        }
        names.sort();
        (names, missing)
    }

    /// Those of these names in an open directory that exist and that `wanted` selects: it receives each name, and
    /// whether it is a directory.
    pub(crate) fn among<'a>(
        fd: impl AsFd,
        names: impl IntoIterator<Item = &'a [u8]>,
        mut wanted: impl FnMut(&[u8], bool) -> bool,
    ) -> Names {
        let mut found = Names::default();
        for name in names {
            let (ino, file_type) = match Status::at(&fd, name) {
                Ok(status) => (status.ino, status.file_type()),
                Err(Errno::NOENT) => {
                    found.has_missing = true;
                    continue;
                }
                // Whoever visits it reports why its status cannot be read.
                Err(_) => (0, FileType::Unknown),
            };
            if wanted(name, file_type == FileType::Directory) {
                found.push(name, ino, file_type);
            }
        }
        found.sort();
        found
    }

    fn read(&mut self, fd: impl AsFd, mut wanted: impl FnMut(&[u8], bool) -> bool) -> Result<()> {
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(&fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let file_type = match entry.file_type() {
                // Some filesystems do not report the type.
                FileType::Unknown => match Status::at(&fd, name) {
                    Ok(status) => status.file_type(),
                    Err(Errno::NOENT) => {
                        self.has_missing = true;
                        continue;
                    }
                    Err(error) => return Err(error),
                },
                file_type => file_type,
            };
            if wanted(name, file_type == FileType::Directory) {
                self.push(name, entry.ino(), file_type);
            }
        }
        Ok(())
    }

    /// Adds a name; [`Names::sort`] follows the last one.
    fn push(&mut self, name: &[u8], ino: u64, file_type: FileType) {
        // 4 GiB of names in one directory is more than any filesystem stores.
        let Ok(start) = u32::try_from(self.bytes.len()) else { return };
        self.bytes.extend_from_slice(name);
        let span = Span { ino, start, length: name.len() as u16, is_file: file_type == FileType::RegularFile };
        if file_type == FileType::Directory { self.directories.push(span) } else { self.entries.push(span) }
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.entries.sort_unstable_by(|a, b| of(bytes, *a).cmp(of(bytes, *b)));
        self.directories.sort_unstable_by(|a, b| of(bytes, *a).cmp(of(bytes, *b)));
        // An entry that is created, removed or replaced during the listing may appear twice, even with two types.
        self.entries.dedup_by(|a, b| of(bytes, *a) == of(bytes, *b));
        self.directories.dedup_by(|a, b| of(bytes, *a) == of(bytes, *b));
        let directories = &self.directories;
        self.entries.retain(|entry| {
            directories.binary_search_by(|directory| of(bytes, *directory).cmp(of(bytes, *entry))).is_err()
        });
    }

    /// The number of entries that are not directories.
    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The number of batches of entries.
    pub(crate) fn batches(&self) -> usize {
        self.entries.len().div_ceil(BATCH)
    }

    /// The entries of one batch, in order.
    pub(crate) fn batch(&self, number: usize) -> impl Iterator<Item = Name<'_>> {
        let end = ((number + 1) * BATCH).min(self.entries.len());
        self.entries[number * BATCH..end].iter().map(|span| self.name(*span))
    }

    /// The number of subdirectories.
    pub(crate) fn directories(&self) -> usize {
        self.directories.len()
    }

    /// One of the subdirectories.
    pub(crate) fn directory(&self, number: usize) -> Name<'_> {
        self.name(self.directories[number])
    }

    fn name(&self, span: Span) -> Name<'_> {
        Name { bytes: of(&self.bytes, span), ino: span.ino, is_file: span.is_file }
    }
}

/// Whether an open directory was deleted. It has no entries, or its entries were listed before.
pub(super) fn is_deleted(fd: impl AsFd) -> bool {
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(&fd, buffer.spare_capacity_mut());
    matches!(entries.next(), Some(Err(Errno::NOENT)))
}

fn of(bytes: &[u8], span: Span) -> &[u8] {
    let start = span.start as usize;
    &bytes[start..start + usize::from(span.length)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_listed_twice_comes_once() {
        let mut names = Names::default();
        for (name, is_directory) in [("b", false), ("a", false), ("d", true), ("b", false), ("d", true), ("a", true)] {
            names.push(name.as_bytes(), 7, if is_directory { FileType::Directory } else { FileType::RegularFile });
        }
        names.sort();
        assert_eq!(names.batch(0).map(|name| name.bytes).collect::<Vec<_>>(), [b"b"]);
        assert_eq!(
            (names.directories(), names.directory(0).bytes, names.directory(1).bytes),
            (2, &b"a"[..], &b"d"[..])
        );
    }

    #[test]
    fn wanted_names_come_sorted_as_bytes_with_directories_apart() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a", "é", "A"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::create_dir(dir.path().join("d")).unwrap();
        let (names, cut) = Names::list(std::fs::File::open(dir.path()).unwrap(), |name, _| name != b"b");
        assert!(cut.is_none());
        let found: Vec<_> = names.batch(0).map(|name| name.bytes.to_vec()).collect();
        assert_eq!(found, [b"A".to_vec(), b"a".to_vec(), "é".as_bytes().to_vec()]);
        assert_eq!(names.directory(0).bytes, b"d");
    }
}
