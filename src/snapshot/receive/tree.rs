//! The tree that is being made: its directories, from the root to the one that gets entries now. A directory gets its
//! owner, mode and times when the stream has left it, because new entries would change or inherit them.
//!
//! However deep the tree is, some of the directories are open and no path is in memory twice.

use crate::content::copy::Strategy;
use crate::error::{Error, Result};
use crate::fs::filesystem::Filesystem;
use crate::fs::metadata::{self, Attributes, Creator, FileAttr, PROJECT_INHERIT, Refused, SEALS, Xattr};
use crate::fs::open_files;
use crate::fs::openat;
use crate::fs::reopener::Reopener;
use crate::fs::status::{Status, Time, timestamps};
use crate::snapshot::manifest::{Directory, Item, Meta};
use crate::snapshot::repository::Staging;
use crate::snapshot::stream::{Xattrs, damage};
use crate::tree::deletion;
use crate::tree::walk::absolute;
use crate::util::path::{is_below, join, split};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// New directories belong to nobody else until they are published.
const PRIVATE: Mode = Mode::RWXU;

/// What to do when the disk is full.
pub(super) const FREE_SPACE: &str = "free some space, and send the snapshot again";
/// The most bytes of attributes that the directories on the current path keep until they are left.
const MOST_KEPT: usize = 64 << 20;

/// The tree of a snapshot that is being received.
pub(super) struct Tree {
    pub(super) root: OwnedFd,
    pub(super) creator: Creator,
    pub(super) strategy: Strategy,
    pub(super) filesystem: Filesystem,
    /// It began as a snapshot of the base's tree.
    pub(super) is_based: bool,
    /// The transfer was cut before. There may be entries that were made behind the noted position.
    pub(super) is_resumed: bool,
    /// A directory of the base gave way to another entry.
    gave_way: bool,
    takes_projects: bool,
    /// The time of the top.
    top: Time,
    reopener: Reopener,
    /// The path of the directory that gets entries now.
    path: Vec<u8>,
    /// This directory and those above it. Each path is a beginning of `path`.
    levels: Vec<Level>,
    /// The levels that are open, topmost first, and how many may be.
    open: VecDeque<usize>,
    most_open: usize,
    /// The bytes of attributes in the levels.
    kept: usize,
}

/// A directory of the tree.
struct Level {
    /// The length of its path.
    length: usize,
    scaffold: bool,
    meta: Box<Meta>,
    /// Whether it gets its metadata when it is left.
    is_changed: bool,
    /// Open for changes. The topmost ones are closed if there are too many, and opened again when they are left.
    fd: Option<Arc<OwnedFd>>,
}

impl Tree {
    pub(super) fn new(staging: &Staging, filesystem: Filesystem, top: Time, is_resumed: bool) -> Result<Tree> {
        let failed = |errno: Errno| Error::failed("prepare the staging area").because(errno);
        let root = staging.tree.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause))?;
        let creator = Creator::current();
        creator.make_private(&root).map_err(failed)?;
        Ok(Tree {
            takes_projects: creator.is_root() && !metadata::has_project(&root),
            reopener: Reopener::new(&root).map_err(failed)?,
            creator,
            strategy: Strategy::new(),
            filesystem,
            is_based: staging.is_based,
            is_resumed,
            gave_way: false,
            top,
            root,
            path: Vec::new(),
            levels: Vec::new(),
            open: VecDeque::new(),
            most_open: open_files::part(16, 4..=64),
            kept: 0,
        })
    }

    /// The path of the directory that gets entries now.
    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The flags and project id that an entry of the tree may have.
    pub(super) fn takes(&self, meta: &Meta) -> FileAttr {
        let FileAttr { flags, project } = meta.fileattr().without(SEALS);
        match self.takes_projects {
            true => FileAttr { flags, project },
            false => FileAttr { flags, project: None }.without(PROJECT_INHERIT),
        }
    }

    /// The attributes of an entry.
    pub(super) fn attributes<'x>(&self, meta: &Meta, xattrs: &'x [Xattr]) -> Attributes<'x> {
        let Meta { uid, gid, mtime, .. } = *meta;
        let (mode, fileattr) = (self.mode(meta), self.takes(meta));
        Attributes { uid, gid, mode, atime: mtime, mtime, xattrs, fileattr }
    }

    /// Adds to a record the metadata that the tree refused or cannot have.
    pub(super) fn keep(&self, meta: &mut Meta, refused: Refused) {
        meta.kept_here |= refused.ownership || self.mode(meta) != meta.mode;
        meta.kept_xattrs.extend(refused.xattrs.into_iter().map(|(name, value)| (name.into(), value.into())));
    }

    /// The mode of an entry in the tree. Unless this process is root, it must be able to read what it makes: later
    /// snapshots are based on it.
    fn mode(&self, meta: &Meta) -> u32 {
        match FileType::from_raw_mode(meta.mode) {
            _ if self.creator.is_root() => meta.mode,
            FileType::Directory => meta.mode | 0o500,
            FileType::RegularFile => meta.mode | 0o400,
            _ => meta.mode,
        }
    }

    /// Enters a directory that was made before the transfer was cut. Those that were left have their metadata.
    pub(super) fn enter_again(&mut self, record: &Directory) -> Result<()> {
        while let Some(level) = self.levels.pop_if(|level| !is_below(&record.path, &self.path[..level.length])) {
            self.kept -= size_of_kept(&level.meta);
        }
        self.push(record, None)
    }

    /// Opens the directories that were entered when the transfer was cut: they did not get their last metadata.
    pub(super) fn reopen(&mut self) -> Result<()> {
        (0..self.levels.len()).try_for_each(|number| self.open_level(number).map(|_| ()))
    }

    /// Enters a directory that the tree has as it should be.
    pub(super) fn enter_same(&mut self, record: &Directory) -> Result<()> {
        self.leave_for(&record.path)?;
        if self.gave_way || self.is_resumed {
            let (above, name) = split(&record.path);
            let above = self.any_directory(above).map_err(|errno| cannot_make(&record.path, errno))?;
            openat::open_subdir(above, name).map_err(|_| damage("a directory has the path of another entry"))?;
        }
        self.push(record, None)
    }

    /// Makes a directory, or opens the base's one, and enters it. Its attributes are in the record and in `xattrs`,
    /// without those that entries would inherit. Returns its record.
    pub(super) fn enter(&mut self, mut record: Directory, xattrs: &[Xattr], is_there: bool) -> Result<Directory> {
        self.leave_for(&record.path)?;
        let failed = |errno| cannot_make(&record.path, errno);
        let fd = if record.path.is_empty() {
            self.root.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause))?
        } else {
            let (above, name) = split(&record.path);
            let above = self.open_for_change(above)?;
            if !is_there {
                self.make_directory(above.as_fd(), name, &record.path)?;
            }
            openat::open_subdir(&above, name).map_err(failed)?
        };
        let attributes = self.attributes(&record.meta, xattrs);
        if is_there {
            self.creator.make_private(&fd).map_err(failed)?;
            metadata::remove_other_xattrs(&fd, xattrs).and_then(metadata::Others::removed).map_err(failed)?;
        }
        let refused = self.creator.begin_directory(&fd, &attributes).map_err(failed)?;
        self.keep(&mut record.meta, refused);
        self.push(&record, Some(Arc::new(fd)))?;
        Ok(record)
    }

    /// The directory that gets entries now, open for changes.
    pub(super) fn open(&mut self) -> Result<Arc<OwnedFd>> {
        match self.levels.len() {
            0 => Err(damage("an entry comes before its directory")),
            count => self.open_level(count - 1),
        }
    }

    /// Opens a directory of the tree that may be anywhere.
    pub(super) fn any_directory(&self, path: &[u8]) -> rustix::io::Result<OwnedFd> {
        self.reopener.open_any(path)
    }

    /// Leaves all directories.
    pub(super) fn finish(&mut self) -> Result<()> {
        while self.leave()? {}
        Ok(())
    }

    /// Removes what may have the name of a new entry in the current directory: the base's entry, or one that was made
    /// before the transfer was cut, behind the noted position.
    pub(super) fn make_room(&mut self, dir: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<()> {
        if !self.is_based && !self.is_resumed {
            return Ok(());
        }
        match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // Its record comes behind those of the entries.
            Err(Errno::ISDIR) if self.is_based => {
                self.gave_way = true;
                remove_directory(dir, name, path)
            }
            Err(Errno::ISDIR) => Err(damage("an entry has the path of a directory")),
            Err(errno) => Err(cannot_make(path, errno)),
        }
    }

    fn make_directory(&self, above: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<()> {
        let failed = |errno| cannot_make(path, errno);
        match rustix::fs::mkdirat(above, name, PRIVATE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                let is_directory = Status::at(above, name).map_err(failed)?.file_type() == FileType::Directory;
                if !is_directory || !self.is_resumed {
                    return Err(damage("a directory has the path of another entry"));
                }
                // It was made before the transfer was cut, behind the noted position.
                remove_directory(above, name, path)?;
                rustix::fs::mkdirat(above, name, PRIVATE).map_err(failed)
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Opens the directory at `path`, the current one or one above it, for changes.
    fn open_for_change(&mut self, path: &[u8]) -> Result<Arc<OwnedFd>> {
        let found = self.levels.binary_search_by_key(&path.len(), |level| level.length);
        match found.ok().filter(|_| self.path.starts_with(path)) {
            Some(number) => self.open_level(number),
            // Only the top may have no record.
            None if path.is_empty() => {
                self.root.try_clone().map(Arc::new).map_err(|cause| Error::failed("open").because(cause))
            }
            None => Err(damage("an entry comes before its directory")),
        }
    }

    fn open_level(&mut self, number: usize) -> Result<Arc<OwnedFd>> {
        let level = &mut self.levels[number];
        if let Some(fd) = &level.fd {
            return Ok(Arc::clone(fd));
        }
        let path = &self.path[..level.length];
        let failed = |errno| cannot_make(path, errno);
        let fd = Arc::new(self.reopener.open_any(path).map_err(failed)?);
        if !level.is_changed {
            // What its entries would inherit is in its record.
            self.creator.make_private(&fd).map_err(failed)?;
        }
        level.is_changed = true;
        level.fd = Some(Arc::clone(&fd));
        self.opened(number);
        Ok(fd)
    }

    fn push(&mut self, record: &Directory, fd: Option<Arc<OwnedFd>>) -> Result<()> {
        let Directory { path, scaffold, meta } = record;
        self.kept += size_of_kept(meta);
        if self.kept > MOST_KEPT {
            return Err(damage("the attributes of directories are too long"));
        }
        let common = self.path.iter().zip(path).take_while(|(a, b)| a == b).count();
        self.path.truncate(common);
        self.path.extend_from_slice(&path[common..]);
        let is_open = fd.is_some();
        let (length, meta) = (path.len(), Box::new(meta.clone()));
        self.levels.push(Level { length, scaffold: *scaffold, meta, is_changed: is_open, fd });
        if is_open {
            self.opened(self.levels.len() - 1);
        }
        Ok(())
    }

    /// Notes that a level was opened, and closes the topmost one if there are too many.
    fn opened(&mut self, number: usize) {
        let at = self.open.partition_point(|other| *other < number);
        self.open.insert(at, number);
        if self.open.len() > self.most_open
            && let Some(topmost) = self.open.pop_front()
        {
            self.levels[topmost].fd = None;
        }
    }

    /// Leaves directories until `path` can be entered.
    fn leave_for(&mut self, path: &[u8]) -> Result<()> {
        while self.levels.last().is_some_and(|level| !is_below(path, &self.path[..level.length])) {
            self.leave()?;
        }
        Ok(())
    }

    /// Leaves the current directory: all its entries exist. If it was changed, it gets its metadata.
    fn leave(&mut self) -> Result<bool> {
        let Some(Level { length, scaffold, meta, is_changed, fd }) = self.levels.pop() else { return Ok(false) };
        if self.open.back() == Some(&self.levels.len()) {
            self.open.pop_back();
        }
        self.kept -= size_of_kept(&meta);
        let path = &self.path[..length];
        if is_changed {
            let failed = |errno| cannot_make(path, errno);
            let fd = match fd {
                Some(fd) => fd,
                None => Arc::new(self.reopener.open_any(path).map_err(failed)?),
            };
            let ended = if path.is_empty() && scaffold {
                end_top(fd.as_fd(), self.top)
            } else {
                let inherited: Vec<Xattr> = meta
                    .kept_xattrs
                    .iter()
                    .filter(|(name, _)| metadata::is_inherited(name))
                    .map(|(name, value)| (name.to_vec(), value.to_vec()))
                    .collect();
                self.creator.end_directory(&fd, &self.attributes(&meta, &inherited))
            };
            ended.map_err(failed)?;
        }
        self.path.truncate(self.levels.last().map_or(0, |level| level.length));
        Ok(true)
    }
}

fn remove_directory(dir: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<()> {
    deletion::directory(dir, name, &absolute(path), &crate::monitor::Silent).map(|_| ())
}

fn size_of_kept(meta: &Meta) -> usize {
    meta.kept_xattrs.iter().map(|(name, value)| name.len() + value.len() + 2 * size_of::<Vec<u8>>()).sum()
}

/// Everyone who may enter the repository may read the top, which is not a copy of a directory. Its time came with the
/// snapshot.
fn end_top(top: BorrowedFd<'_>, time: Time) -> rustix::io::Result<()> {
    rustix::fs::fchmod(top, Mode::from_bits_truncate(0o755))?;
    rustix::fs::futimens(top, &timestamps(time, time))
}

/// The error of a call that makes something in the tree.
pub(super) fn cannot_make(path: &[u8], errno: Errno) -> Error {
    let error = Error::io("write to the snapshot", absolute(path), errno);
    match errno {
        Errno::NOSPC | Errno::DQUOT => error.hint(FREE_SPACE),
        _ => error,
    }
}

/// The problem of attributes that neither the tree nor the record takes.
pub(super) fn cannot_keep(above: &[u8], item: &Item) -> Error {
    let path = match item {
        Item::Directory(directory) => directory.path.clone(),
        Item::Entry(entry) => join(above, &entry.name),
    };
    Error::failed("keep the extended attributes of").at(absolute(&path)).hint("they are too long").keeping_entry()
}

/// Attributes of a record or of the stream, for calls.
pub(super) fn plain(xattrs: Xattrs) -> Vec<Xattr> {
    xattrs.into_iter().map(|(name, value)| (name.into_vec(), value.into_vec())).collect()
}
