//! Deletes a directory tree where it is: it renames nothing, crosses no mount and follows no link. If a Btrfs subvolume
//! is anywhere in the tree, the whole tree is kept. This is for trees that are not pleach's own.
//!
//! Each level of depth costs only a name and two numbers. Only the nearest directories stay open. Those above are
//! reopened by `..`, which must lead to the same inode as before.

use super::entry::{is_dir, is_dot, open, open_for_deletion, refused};
use super::guard::busy;
use crate::error::Error;
use crate::fs::filesystem::Kind;
use crate::fs::mounts::{Inside, Table};
use crate::fs::status::Status;
use crate::monitor::{Monitor, Silent};
use crate::sys::btrfs::logical::ROOT_DIRECTORY;
use crate::util::mutex::lock;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The most directories that stay open on the way down.
const NEAREST: usize = 64;

/// The table of mounts, shared by threads and read when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Mounts(Mutex<Option<Table>>);

impl Mounts {
    /// A current mount on this entry of a directory or below it.
    ///
    /// # Errors
    /// If this is unknown, for example because `/proc` is not mounted.
    pub(crate) fn at(&self, dir: BorrowedFd<'_>, name: &[u8]) -> std::io::Result<Option<PathBuf>> {
        Ok(self.inside(dir)?.into_iter().find(|mount| mount.is_at(name)).map(|mount| mount.point))
    }

    /// All current mounts inside a directory.
    ///
    /// # Errors
    /// Like [`Mounts::at`].
    pub(crate) fn inside(&self, dir: BorrowedFd<'_>) -> std::io::Result<Vec<Inside>> {
        let mut table = lock(&self.0);
        let table = match &mut *table {
            Some(table) => {
                table.refresh()?;
                table
            }
            none => none.insert(Table::read()?),
        };
        table.inside(dir)
    }
}

/// Why a tree, or part of it, still exists.
#[derive(Debug)]
pub(crate) enum Kept {
    /// All of it was kept, for this reason.
    Whole(Error),
    /// All of it was kept, because the spared directory is in it.
    Spared,
    /// Some entries could not be deleted; each was reported to the monitor.
    Partly,
    /// The monitor asked to stop.
    Interrupted,
}

/// Deletes the entry `name` of `parent`, a directory with everything in it. `shown` is its path, for messages. `spared`
/// is a directory that is never deleted, by device and inode.
///
/// # Errors
/// Why all or part of it was kept. A tree that contains a mount, a subvolume or the spared directory is kept whole.
pub(crate) fn delete(
    parent: BorrowedFd<'_>,
    name: &[u8],
    shown: &Path,
    mounts: &Mounts,
    spared: Option<(u64, u64)>,
    monitor: &dyn Monitor,
) -> std::result::Result<(), Kept> {
    let c_name = c_string(name, shown)?;
    if is_dir(parent, &c_name) {
        check(parent, name, shown, mounts, spared)?;
        return Descent::new(parent, shown, spared, monitor).delete(c_name);
    }
    match fs::unlinkat(parent, &c_name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        // The kernel refuses to delete it; this check names the mount.
        Err(Errno::BUSY) => check(parent, name, shown, mounts, None).and(Err(Kept::Whole(refused(shown, Errno::BUSY)))),
        Err(errno) => Err(Kept::Whole(refused(shown, errno))),
    }
}

/// Checks whether the entry could be deleted, as far as possible without deleting anything.
///
/// # Errors
/// Why it would be kept.
pub(crate) fn check(
    parent: BorrowedFd<'_>,
    name: &[u8],
    shown: &Path,
    mounts: &Mounts,
    spared: Option<(u64, u64)>,
) -> std::result::Result<(), Kept> {
    match mounts.at(parent, name) {
        Ok(None) => {}
        Ok(Some(point)) => return Err(Kept::Whole(busy(shown, &point))),
        Err(cause) => {
            let error = Error::failed("see the mounts in").at(shown).because(cause);
            return Err(Kept::Whole(error.hint("it was kept")));
        }
    }
    let mut descent = Descent::new(parent, shown, spared, &Silent);
    if !descent.is_btrfs && descent.spared.is_none() {
        return Ok(());
    }
    match descent.find_kept(c_string(name, shown)?) {
        None => Ok(()),
        Some((_, Special::Spared)) => Err(Kept::Spared),
        Some((subvolume, Special::Subvolume)) => {
            let error = Error::failed("delete").at(shown);
            let subvolume = crate::util::text::path(&subvolume);
            let hint = format!("{subvolume} is a Btrfs subvolume, so all of it was kept; see btrfs-subvolume(8)");
            Err(Kept::Whole(error.hint(hint)))
        }
    }
}

fn c_string(name: &[u8], shown: &Path) -> std::result::Result<CString, Kept> {
    CString::new(name).map_err(|_| Kept::Whole(refused(shown, Errno::INVAL)))
}

/// The path down into a tree.
struct Descent<'a> {
    parent: BorrowedFd<'a>,
    shown: &'a Path,
    monitor: &'a dyn Monitor,
    levels: Vec<Level>,
    is_btrfs: bool,
    /// The directory that is never deleted, if it is on this filesystem. Deeper, a mount or a subvolume would be found.
    spared: Option<(u64, u64)>,
    /// Something in the tree was kept.
    has_kept: bool,
}

/// A directory that is not deleted.
enum Special {
    Subvolume,
    Spared,
}

impl Special {
    fn text(&self) -> &'static str {
        match self {
            Special::Subvolume => "it is a Btrfs subvolume",
            Special::Spared => "it is still needed",
        }
    }
}

/// A directory on the path.
struct Level {
    name: CString,
    inode: (u64, u64),
    /// `None`: closed. It will be reopened from below.
    fd: Option<OwnedFd>,
    /// Subdirectories that were not entered yet.
    rest: Vec<CString>,
    /// The number of its entries that were deleted.
    gone: u64,
    /// An entry in it was kept.
    keeps: bool,
}

impl<'a> Descent<'a> {
    fn new(
        parent: BorrowedFd<'a>,
        shown: &'a Path,
        spared: Option<(u64, u64)>,
        monitor: &'a dyn Monitor,
    ) -> Descent<'a> {
        let is_btrfs = Kind::of(parent).is_ok_and(|kind| kind == Kind::Btrfs);
        let spared = spared.filter(|(dev, _)| Status::of(parent).is_ok_and(|status| status.dev == *dev));
        Descent { parent, shown, monitor, levels: Vec::new(), is_btrfs, spared, has_kept: false }
    }

    /// Whether a directory with this status is not deleted.
    fn special(&self, status: &Status) -> Option<Special> {
        match self.spared {
            Some(spared) if spared == (status.dev, status.ino) => Some(Special::Spared),
            _ => (self.is_btrfs && status.ino == ROOT_DIRECTORY).then_some(Special::Subvolume),
        }
    }

    fn delete(&mut self, top: CString) -> std::result::Result<(), Kept> {
        match self.enter(top, false) {
            Ok(_) => self.clear(),
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(Kept::Whole(refused(self.shown, errno))),
        }
        loop {
            if self.monitor.is_cancelled() {
                return Err(Kept::Interrupted);
            }
            let Some(level) = self.levels.last_mut() else {
                return if self.has_kept { Err(Kept::Partly) } else { Ok(()) };
            };
            if let Some(name) = level.rest.pop() {
                self.go_into(name);
                continue;
            }
            let (gone, keeps) = (level.gone, level.keeps);
            let name = match self.leave() {
                Ok(name) => name,
                Err((name, errno)) => {
                    self.monitor.problem(&refused(&self.path(Some(&name)), errno));
                    return Err(Kept::Partly);
                }
            };
            if keeps {
                self.keep();
                continue;
            }
            match fs::unlinkat(self.here(), &name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {
                    if let Some(level) = self.levels.last_mut() {
                        level.gone += 1;
                    }
                }
                // A listing may miss entries while others are being deleted, so look again.
                Err(Errno::NOTEMPTY | Errno::EXIST) if gone > 0 => self.go_into(name),
                Err(errno) => {
                    self.monitor.problem(&refused(&self.path(Some(&name)), errno));
                    self.keep();
                }
            }
        }
    }

    /// The current directory.
    fn here(&self) -> BorrowedFd<'_> {
        self.levels.last().and_then(|level| level.fd.as_ref()).map_or(self.parent, |fd| fd.as_fd())
    }

    /// Enters a subdirectory and deletes its entries except directories.
    fn go_into(&mut self, name: CString) {
        match self.enter(name.clone(), false) {
            Ok(status) => match self.special(&status) {
                None => self.clear(),
                Some(special) => {
                    let _ = self.leave();
                    let error = Error::failed("delete").at(self.path(Some(&name)));
                    self.monitor.problem(&error.hint(special.text()));
                    self.keep();
                }
            },
            Err(Errno::NOENT) => {}
            Err(errno) => {
                self.monitor.problem(&refused(&self.path(Some(&name)), errno));
                self.keep();
            }
        }
    }

    /// Records that an entry of the current directory was kept.
    fn keep(&mut self) {
        self.has_kept = true;
        if let Some(level) = self.levels.last_mut() {
            level.keeps = true;
        }
    }

    /// The first directory of the tree that is not deleted. Unreadable directories are skipped: `go_into` looks at them
    /// again.
    fn find_kept(&mut self, top: CString) -> Option<(PathBuf, Special)> {
        let mut next = Some(top);
        loop {
            if let Some(name) = next.take()
                && let Ok(status) = self.enter(name, true)
            {
                match self.special(&status) {
                    Some(special) => return Some((self.path(None), special)),
                    None => self.list(),
                }
            }
            next = self.levels.last_mut()?.rest.pop();
            if next.is_none() && self.leave().is_err() {
                return None;
            }
        }
    }

    /// Opens a subdirectory and makes it the current directory. With `is_look` nothing is changed.
    fn enter(&mut self, name: CString, is_look: bool) -> Result<Status> {
        let fd =
            if is_look { open(self.here(), &name, OFlags::RDONLY) } else { open_for_deletion(self.here(), &name) }?;
        let status = Status::of(&fd)?;
        let inode = (status.dev, status.ino);
        self.levels.push(Level { name, inode, fd: Some(fd), rest: Vec::new(), gone: 0, keeps: false });
        if let Some(far) = self.levels.len().checked_sub(NEAREST + 1) {
            self.levels[far].fd = None;
        }
        Ok(status)
    }

    /// Returns to the parent. Returns the name of the directory that was left, also with an error.
    fn leave(&mut self) -> std::result::Result<CString, (CString, Errno)> {
        let level = self.levels.pop().ok_or_else(|| (CString::default(), Errno::NOENT))?;
        match self.open_above(&level) {
            Ok(()) => Ok(level.name),
            Err(errno) => Err((level.name, errno)),
        }
    }

    /// Reopens the current directory from below if it was closed.
    fn open_above(&mut self, level: &Level) -> Result<()> {
        if let (Some(above), Some(fd)) = (self.levels.last_mut(), &level.fd)
            && above.fd.is_none()
        {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = fs::openat(fd, "..", flags, Mode::empty())?;
            let status = Status::of(&opened)?;
            if (status.dev, status.ino) != above.inode {
                return Err(Errno::STALE);
            }
            above.fd = Some(opened);
        }
        Ok(())
    }

    /// Deletes the entries of the current directory except subdirectories, and records the subdirectories.
    fn clear(&mut self) {
        let Some(fd) = self.levels.last().and_then(|level| level.fd.as_ref()) else { return };
        let (mut rest, mut gone, mut failed) = (Vec::new(), 0, Vec::new());
        let result = each(fd.as_fd(), |name, kind| {
            if kind == FileType::Directory {
                rest.push(name.to_owned());
                return;
            }
            match fs::unlinkat(fd, name, AtFlags::empty()) {
                Ok(()) => gone += 1,
                Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => rest.push(name.to_owned()),
                Err(Errno::PERM) if kind == FileType::Unknown && is_dir(fd.as_fd(), name) => rest.push(name.to_owned()),
                Err(errno) => failed.push((name.to_owned(), errno)),
            }
        });
        let mut keeps = !failed.is_empty();
        for (name, errno) in failed {
            self.monitor.problem(&refused(&self.path(Some(&name)), errno));
        }
        if let Err(errno) = result {
            self.monitor.problem(&Error::io("read the directory", self.path(None), errno));
            keeps = true;
        }
        if let Some(level) = self.levels.last_mut() {
            level.rest = rest;
            level.gone += gone;
            level.keeps |= keeps;
        }
    }

    /// Records the subdirectories of the current directory.
    fn list(&mut self) {
        let Some(fd) = self.levels.last().and_then(|level| level.fd.as_ref()) else { return };
        let mut rest = Vec::new();
        let _ = each(fd.as_fd(), |name, kind| {
            if kind == FileType::Directory || (kind == FileType::Unknown && is_dir(fd.as_fd(), name)) {
                rest.push(name.to_owned());
            }
        });
        if let Some(level) = self.levels.last_mut() {
            level.rest = rest;
        }
    }

    /// The path of the current directory, or of this entry of it.
    fn path(&self, name: Option<&CStr>) -> PathBuf {
        let names = self.levels.iter().map(|level| level.name.as_c_str()).chain(name);
        // The first name is the last component of `shown`.
        names.skip(1).fold(self.shown.to_path_buf(), |path, name| path.join(OsStr::from_bytes(name.to_bytes())))
    }
}

fn each(dir: BorrowedFd<'_>, mut each: impl FnMut(&CStr, FileType)) -> Result<()> {
    for entry in fs::Dir::read_from(dir)? {
        let entry = entry?;
        if !is_dot(entry.file_name()) {
            each(entry.file_name(), entry.file_type());
        }
    }
    Ok(())
}
