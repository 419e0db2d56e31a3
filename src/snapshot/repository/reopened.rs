//! The tree of a published snapshot while a repair replaces damaged files in it. A subvolume is writable in this time.
//!
//! `repairing/NAME` lists the directories that are changed, each with the modification time that it must have
//! afterwards. A killed repair leaves this file. The next run with the lock then completes the tree: it removes
//! temporary names, sets the times of the directories, and makes the subvolume read-only. If it cannot, the file stays,
//! and the next repair of the tree appends to it.
//!
//! All functions need the repository's lock.

use super::clearing::Clearing;
use super::dir::{Dir, os};
use super::handle::Repository;
use super::name::check_name;
use super::repair_list::Records;
use super::subvolume;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::metadata::set_times;
use crate::fs::openat;
use crate::fs::status::{Status, Time};
use crate::monitor::Monitor as _;
use crate::tree::writer::is_temporary;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The beginning of the temporary names in a tree that is repaired.
pub(crate) const TEMPORARY: &str = ".pleach-repair.";
/// The directory of the lists, in the control directory.
const REPAIRING: &str = "repairing";
/// The first record of a list.
const VERSION: &[u8] = b"repairing 1";
/// Ends an incomplete record at the end of a list. With it, no record is one of a directory.
const BREAK: &[u8] = b"/\0";

/// The tree of a published snapshot, open for a repair.
#[derive(Debug)]
pub(crate) struct Reopened {
    name: String,
    tree: OwnedFd,
    list: File,
    noted: HashSet<Vec<u8>>,
    /// Whether an earlier repair left the list.
    is_continued: bool,
    /// Whether directories of the list may lack their time, or have temporary names.
    is_untidy: bool,
    /// Whether it is a subvolume that the next tree may begin with.
    is_as_published: bool,
    /// Whether it is a subvolume. It must be read-only afterwards, even if it was writable before.
    is_subvolume: bool,
}

impl Reopened {
    /// Opens the tree of a snapshot for changes.
    pub(crate) fn open(repository: &Repository, name: &str) -> Result<Reopened> {
        let tree = repository.tree(name)?;
        let is_as_published = subvolume::is_as_published(repository, name)?;
        let dir = repository.control.make_dir(REPAIRING)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
        let list = dir.file(name, flags, Mode::RUSR | Mode::WUSR)?;
        let length = list.metadata().map_err(|cause| Error::io("read the status of", dir.join(name), cause))?.len();
        let is_continued = length > 0;
        let (name, noted) = (name.to_string(), HashSet::new());
        let (is_untidy, is_subvolume) = (is_continued, false);
        let mut reopened = Reopened { name, tree, list, noted, is_continued, is_untidy, is_as_published, is_subvolume };
        let prepared = reopened.prepare(repository, &dir);
        if prepared.is_err() && !is_continued {
            // Nothing was changed. A list that stays does no harm.
            let _ = forget(&dir, &reopened.name);
        }
        prepared.map(|()| reopened)
    }

    fn prepare(&mut self, repository: &Repository, dir: &Dir) -> Result<()> {
        let start = if self.is_continued { [BREAK, VERSION].concat() } else { VERSION.to_vec() };
        self.write(dir, &start)?;
        dir.sync()?;
        repository.control.sync()?;
        self.is_subvolume = subvolume::unseal(repository, &self.name, self.tree.as_fd())?;
        Ok(())
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

    /// Completes the directories of the list once more when the changes end, because one of them has a wrong time.
    pub(crate) fn tidy_at_end(&mut self) {
        self.is_untidy = true;
    }

    /// Ends the changes. A subvolume that the next tree could begin with before can be used for it again.
    pub(crate) fn close(self, repository: &Repository, clearing: &Clearing<'_>) -> Result<()> {
        let dir = repository.control.dir(REPAIRING)?;
        if self.is_untidy {
            // Also if the run is asked to stop: the tree must not stay open.
            tidy_listed(repository, &dir, &self.name, self.tree.as_fd(), clearing, || false)?;
        }
        repository.sync()?;
        if self.is_subvolume {
            subvolume::reseal(repository, &self.name, self.tree.as_fd(), self.is_as_published)?;
            repository.sync()?;
        }
        forget(&dir, &self.name)
    }

    fn write(&mut self, dir: &Dir, record: &[u8]) -> Result<()> {
        // No path contains a NUL. A record without its NUL is incomplete.
        let record = [record, b"\0"].concat();
        let written = self.list.write_all(&record).and_then(|()| self.list.sync_data());
        written.map_err(|cause| Error::io("write", dir.join(&self.name), cause))
    }
}

/// Completes the trees that a killed repair left open. What fails is reported and blocks nothing: a temporary name that
/// stays is found by the next verification. If the run is asked to stop, the next one continues.
pub(crate) fn complete_repairs(repository: &Repository, clearing: &Clearing<'_>) {
    let Some(true) = clearing.note(repository.control.has_dir(REPAIRING)) else { return };
    let Some(dir) = clearing.note(repository.control.dir(REPAIRING)) else { return };
    for name in clearing.note(dir.names()).unwrap_or_default() {
        let Some(name) = std::str::from_utf8(&name).ok().filter(|name| check_name(name).is_ok()) else {
            clearing.note(dir.unlink(os(&name)));
            continue;
        };
        let completed = match repository.root.has_dir(name) {
            Ok(true) => complete(repository, &dir, name, clearing),
            other => other.map(|_| ()),
        };
        if clearing.is_cancelled() {
            return;
        }
        clearing.note(completed.and_then(|()| forget(&dir, name)));
    }
}

fn complete(repository: &Repository, dir: &Dir, name: &str, clearing: &Clearing<'_>) -> Result<()> {
    let tree = repository.tree(name)?;
    if subvolume::subvolume_at(&tree).is_some_and(|tree| tree.read_only) {
        // It was killed before its first change, or after its last one.
        return Ok(());
    }
    tidy_listed(repository, dir, name, tree.as_fd(), clearing, || clearing.is_cancelled())?;
    repository.sync()?;
    subvolume::seal_published(repository, name)
}

/// Removes the temporary names in the directories of a list, and sets their times. The first record of a directory has
/// its time before any change. The rest of a list that no repair wrote is reported and ignored.
fn tidy_listed(
    repository: &Repository,
    dir: &Dir,
    name: &str,
    tree: BorrowedFd<'_>,
    clearing: &Clearing<'_>,
    is_cancelled: impl Fn() -> bool,
) -> Result<()> {
    let mut records = Records::new(dir.file(name, OFlags::RDONLY, Mode::empty())?);
    // Their digests, because paths may be long.
    let mut seen = HashSet::new();
    loop {
        if is_cancelled() {
            return Err(Error::interrupted());
        }
        let record = match records.next() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()),
            Err(cause) if cause.kind() == io::ErrorKind::InvalidData => {
                let error = Error::new(ErrorKind::Damage, "read the list of a repair").at(dir.join(name));
                clearing.note::<()>(Err(error.because(cause)));
                return Ok(());
            }
            Err(cause) => return Err(Error::io("read", dir.join(name), cause)),
        };
        let Some((mtime, path)) = parse(record) else { continue };
        if !seen.insert(*blake3::hash(path).as_bytes()) {
            continue;
        }
        if let Err(errno) = tidy(repository, name, tree, path, mtime) {
            let shown = repository.root.join(name).join(os(path));
            clearing.note::<()>(Err(Error::io("complete the repair of", shown, errno)));
        }
    }
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
pub(super) fn parse(record: &[u8]) -> Option<(Time, &[u8])> {
    let mut fields = record.splitn(3, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(fields.next()?).ok();
    let seconds = number()?.parse().ok()?;
    let nanos = number()?.parse().ok().filter(|nanos| *nanos < 1_000_000_000)?;
    let path = fields.next().filter(|path| !path.ends_with(b"/"))?;
    Some((Time { seconds, nanos }, path))
}

fn forget(dir: &Dir, name: &str) -> Result<()> {
    dir.unlink(name)?;
    dir.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn records_are_parsed_and_malformed_ones_ignored() {
        let time = |seconds, nanos| Time { seconds, nanos };
        assert_eq!(parse(b"-5 7 a b/c"), Some((time(-5, 7), &b"a b/c"[..])));
        assert_eq!(parse(b"5 0 "), Some((time(5, 0), &b""[..])), "the top of the tree");
        for malformed in [VERSION, b"", b"5", b"5 0", b"x 0 a", b"5 1000000000 a"] {
            assert_eq!(parse(malformed), None);
        }
        // A list was cut anywhere, and continued.
        for cut in 0.."-5 7 a/b".len() {
            assert_eq!(parse(&[&b"-5 7 a/b"[..cut], b"/"].concat()), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_list_that_was_left_is_continued_and_nothing_in_it_lost() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::open_or_create(&dir.path().join("repo")).unwrap();
        let tree = dir.path().join("repo/one");
        let (list, names) = (dir.path().join("repo/.pleach/repairing/one"), ["first", "second", "sec"]);
        names.iter().for_each(|name| fs::create_dir_all(tree.join(name)).unwrap());
        let mtime = |name: &str| fs::metadata(tree.join(name)).unwrap().mtime();
        let time = |seconds| Time { seconds, nanos: 0 };
        let mut killed = Reopened::open(&repository, "one").unwrap();
        killed.note(&repository, b"first", time(1000)).unwrap();
        drop(killed);
        // The record of "second" is incomplete.
        let mut file = File::options().append(true).open(&list).unwrap();
        file.write_all(b"3000 0 sec").unwrap();
        let before = mtime("sec");
        let mut again = Reopened::open(&repository, "one").unwrap();
        again.note(&repository, b"second", time(2000)).unwrap();
        again.note(&repository, b"first", time(9000)).unwrap();
        drop(again);
        Reopened::open(&repository, "one").unwrap().close(&repository, &Clearing::new(&Silent)).unwrap();
        assert_eq!(names.map(mtime), [1000, 2000, before]);
        assert!(!list.exists());
        // The same if the next run completes it.
        let mut killed = Reopened::open(&repository, "one").unwrap();
        killed.note(&repository, b"first", time(3000)).unwrap();
        Reopened::open(&repository, "one").unwrap();
        complete_repairs(&repository, &Clearing::new(&Silent));
        assert_eq!(mtime("first"), 3000);
        assert!(!list.exists());
    }

    #[test]
    fn a_list_that_no_repair_wrote_ends_early_and_can_be_interrupted() {
        struct Stop;
        impl crate::monitor::Monitor for Stop {
            fn is_cancelled(&self) -> bool {
                true
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::open_or_create(&dir.path().join("repo")).unwrap();
        fs::create_dir(dir.path().join("repo/one")).unwrap();
        let list = dir.path().join("repo/.pleach/repairing/one");
        fs::create_dir(list.parent().unwrap()).unwrap();
        File::create(&list).unwrap().set_len(1 << 40).unwrap();
        complete_repairs(&repository, &Clearing::new(&Stop));
        assert!(list.exists(), "the next run continues");
        let clearing = Clearing::new(&Silent);
        complete_repairs(&repository, &clearing);
        assert_eq!((clearing.errors(), list.exists()), (1, false));
    }

    #[test]
    fn a_list_that_is_a_name_of_another_file_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::open_or_create(&dir.path().join("repo")).unwrap();
        fs::create_dir(dir.path().join("repo/one")).unwrap();
        let (victim, lists) = (dir.path().join("victim"), dir.path().join("repo/.pleach/repairing"));
        fs::write(&victim, b"precious").unwrap();
        fs::create_dir(&lists).unwrap();
        fs::hard_link(&victim, lists.join("one")).unwrap();
        assert_eq!(Reopened::open(&repository, "one").unwrap_err().kind(), ErrorKind::Damage);
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }
}
