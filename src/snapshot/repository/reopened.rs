//! The tree of a published snapshot while a repair replaces damaged files in it. A subvolume is writable in this time.
//!
//! `repairing/NAME` lists the directories that are changed, each with the modification time that it must have
//! afterwards. A killed repair leaves this file. The next run with the lock then completes the tree: it removes
//! temporary names, sets the times of the directories, and makes the subvolume read-only.
//!
//! All functions need the repository's lock.

use super::dir::{Dir, os};
use super::handle::Repository;
use super::name::check_name;
use super::subvolume;
use crate::error::{Error, Result};
use crate::fs::metadata::set_times;
use crate::fs::openat;
use crate::fs::status::{Status, Time};
use crate::monitor::Monitor;
use crate::tree::writer::is_temporary;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The beginning of the temporary names in a tree that is repaired.
pub(crate) const TEMPORARY: &str = ".pleach-repair.";
/// The directory of the lists, in the control directory.
const REPAIRING: &str = "repairing";
/// The first record of a list.
const VERSION: &[u8] = b"repairing 1";
/// The largest list that is read. A repair changes fewer directories.
const LARGEST: u64 = 1 << 30;

/// The tree of a published snapshot, open for a repair.
#[derive(Debug)]
pub(crate) struct Reopened {
    name: String,
    tree: OwnedFd,
    list: File,
    noted: HashSet<Vec<u8>>,
    /// Whether it is a subvolume that the next tree may begin with.
    is_as_published: bool,
    /// Whether it must become read-only again.
    is_unsealed: bool,
}

impl Reopened {
    /// Opens the tree of a snapshot for changes.
    pub(crate) fn open(repository: &Repository, name: &str) -> Result<Reopened> {
        let tree = repository.tree(name)?;
        let is_as_published = subvolume::is_as_published(repository, name)?;
        let dir = repository.control.make_dir(REPAIRING)?;
        let list = dir.file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR)?;
        let mut reopened =
            Reopened { name: name.into(), tree, list, noted: HashSet::new(), is_as_published, is_unsealed: false };
        reopened.write(&dir, VERSION)?;
        dir.sync()?;
        repository.control.sync()?;
        match subvolume::unseal(repository, name, reopened.tree.as_fd()) {
            Ok(is_unsealed) => reopened.is_unsealed = is_unsealed,
            Err(error) => {
                forget(&dir, name)?;
                return Err(error);
            }
        }
        Ok(reopened)
    }

    /// The tree.
    pub(crate) fn tree(&self) -> BorrowedFd<'_> {
        self.tree.as_fd()
    }

    /// Notes that a directory will be changed, before its first change, and the modification time that it will have
    /// afterwards.
    pub(crate) fn note(&mut self, repository: &Repository, path: &[u8], mtime: Time) -> Result<()> {
        if !self.noted.contains(path) {
            let record = [format!("{} {} ", mtime.seconds, mtime.nanos).as_bytes(), path].concat();
            self.write(&repository.control.dir(REPAIRING)?, &record)?;
            self.noted.insert(path.to_vec());
        }
        Ok(())
    }

    /// Ends the changes. A subvolume that the next tree could begin with before can be used for it again.
    pub(crate) fn close(self, repository: &Repository) -> Result<()> {
        repository.sync()?;
        if self.is_unsealed {
            subvolume::reseal(repository, &self.name, self.tree.as_fd(), self.is_as_published)?;
            repository.sync()?;
        }
        forget(&repository.control.dir(REPAIRING)?, &self.name)
    }

    fn write(&mut self, dir: &Dir, record: &[u8]) -> Result<()> {
        // No path contains a NUL. A record without its NUL is incomplete.
        let record = [record, b"\0"].concat();
        let written = self.list.write_all(&record).and_then(|()| self.list.sync_data());
        written.map_err(|cause| Error::io("write", dir.join(&self.name), cause))
    }
}

/// Completes the trees that a killed repair left open. What fails is reported and blocks nothing: a temporary name that
/// stays is found by the next verification.
pub(crate) fn complete_repairs(repository: &Repository, monitor: &dyn Monitor) -> Result<()> {
    if !repository.control.has_dir(REPAIRING)? {
        return Ok(());
    }
    let dir = repository.control.dir(REPAIRING)?;
    for name in dir.names()? {
        let Some(name) = std::str::from_utf8(&name).ok().filter(|name| check_name(name).is_ok()) else {
            dir.unlink(os(&name))?;
            continue;
        };
        let completed = match repository.root.has_dir(name) {
            Ok(true) => complete(repository, &dir, name, monitor),
            other => other.map(|_| ()),
        };
        if let Err(error) = completed.and_then(|()| forget(&dir, name)) {
            monitor.problem(&error);
        }
    }
    Ok(())
}

fn complete(repository: &Repository, dir: &Dir, name: &str, monitor: &dyn Monitor) -> Result<()> {
    let tree = repository.tree(name)?;
    if subvolume::subvolume_at(&tree).is_some_and(|tree| tree.read_only) {
        // It was killed before its first change, or after its last one.
        return Ok(());
    }
    let list = dir.file(name, OFlags::RDONLY, Mode::empty())?;
    let mut list = BufReader::new(list.take(LARGEST));
    let mut record = Vec::new();
    loop {
        record.clear();
        list.read_until(0, &mut record).map_err(|cause| Error::io("read", dir.join(name), cause))?;
        let Some((0, record)) = record.split_last() else { break };
        let Some((mtime, path)) = parse(record) else { continue };
        if let Err(errno) = tidy(repository, name, tree.as_fd(), path, mtime) {
            let shown = repository.root.join(name).join(os(path));
            monitor.problem(&Error::io("complete the repair of", shown, errno));
        }
    }
    repository.sync()?;
    subvolume::seal_published(repository, name)
}

/// Removes the temporary names in a directory, and sets its time.
fn tidy(repository: &Repository, name: &str, tree: BorrowedFd<'_>, path: &[u8], mtime: Time) -> rustix::io::Result<()> {
    let dir = match openat::open_dir(tree, path) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        dir => dir?,
    };
    let mut left = Vec::new();
    for entry in fs::Dir::read_from(&dir)? {
        let entry = entry?;
        if entry.file_type() != FileType::Directory && is_temporary(entry.file_name().to_bytes(), TEMPORARY) {
            left.push(entry.file_name().to_owned());
        }
    }
    for entry in left {
        // A source may have had such a name. If that cannot be known, the entry stays.
        let manifest = repository.manifest(name);
        let listed = manifest.and_then(|manifest| match manifest.entries_from(path, entry.as_bytes())? {
            Some(mut entries) => Ok(entries.seek(entry.as_bytes())?.is_some()),
            None => Ok(true),
        });
        if !listed.unwrap_or(true) {
            fs::unlinkat(&dir, entry.as_c_str(), AtFlags::empty())?;
        }
    }
    set_times(&dir, Status::of(&dir)?.atime, mtime)
}

/// The record of a directory.
fn parse(record: &[u8]) -> Option<(Time, &[u8])> {
    let mut fields = record.splitn(3, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(fields.next()?).ok();
    let seconds = number()?.parse().ok()?;
    let nanos = number()?.parse().ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some((Time { seconds, nanos }, fields.next()?))
}

fn forget(dir: &Dir, name: &str) -> Result<()> {
    dir.unlink(name)?;
    dir.sync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_parsed_and_malformed_ones_ignored() {
        let time = |seconds, nanos| Time { seconds, nanos };
        assert_eq!(parse(b"-5 7 a b/c"), Some((time(-5, 7), &b"a b/c"[..])));
        assert_eq!(parse(b"5 0 "), Some((time(5, 0), &b""[..])), "the top of the tree");
        for malformed in [VERSION, b"", b"5", b"5 0", b"x 0 a", b"5 1000000000 a"] {
            assert_eq!(parse(malformed), None);
        }
    }
}
