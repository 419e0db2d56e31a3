//! An open directory of the target: its filesystem, the properties that new entries inherit, and which entry has which
//! name. How a run opens it, and which metadata it finally gets, is decided by the run.

use super::inherited::is_sealed;
use super::liveness;
use super::temp_file::Postponed;
use super::{Aliases, Device, Devices, Inherited, Owner, TempFile, Unsynced, Wanted};
use crate::fs::metadata::{self, Creator, FileAttr, Others};
use crate::fs::openat;
use crate::fs::reopener::Inode;
use crate::fs::status::{Status, Time};
use rustix::fs::Mode;
use rustix::io::{Errno, Result};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A directory of the target.
#[derive(Debug)]
pub(crate) struct TargetDir {
    /// The directory, open. `None`: it does not exist yet in a dry run, or it was closed to save descriptors.
    pub(crate) fd: Option<Arc<OwnedFd>>,
    /// Its filesystem.
    pub(crate) device: Arc<Device>,
    /// The properties that new entries inherit.
    pub(crate) inherited: Inherited,
    /// Names that the directory treats as the same.
    aliases: Aliases,
    /// Names in it, or its own, will be given after the next sync. Shared with the directory that is reopened later.
    is_waiting: Arc<AtomicBool>,
    /// This run created it, and only its user may enter it before it gets its metadata.
    is_private: bool,
    /// It has a temporary name.
    is_staged: AtomicBool,
}

/// Who can reach the new files of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Openness {
    /// Everybody whom the metadata of the directory permits.
    Open,
    /// Only this user, until the directory gets its metadata.
    Private,
    /// The same, and nobody looks for its names yet: the directory itself has a temporary name.
    Staged,
}

impl TargetDir {
    /// An open directory, or one that does not exist yet.
    pub(crate) fn new(devices: &Devices, fd: Option<OwnedFd>, inherited: Inherited) -> Result<TargetDir> {
        TargetDir::again(devices, fd, inherited, Arc::default())
    }

    /// A directory that was closed and reopened.
    pub(crate) fn again(
        devices: &Devices,
        fd: Option<OwnedFd>,
        inherited: Inherited,
        is_waiting: Arc<AtomicBool>,
    ) -> Result<TargetDir> {
        let device = devices.of(fd.as_ref())?;
        let (fd, aliases) = (fd.map(Arc::new), Aliases::default());
        let (is_private, is_staged) = (false, AtomicBool::new(false));
        Ok(TargetDir { fd, device, inherited, aliases, is_waiting, is_private, is_staged })
    }

    /// The same directory, which this run just created for itself.
    pub(crate) fn private(self, is_staged: bool) -> TargetDir {
        TargetDir { is_private: true, is_staged: AtomicBool::new(is_staged), ..self }
    }

    /// Who can reach new files.
    pub(crate) fn openness(&self) -> Openness {
        match (self.is_private, self.is_staged.load(Ordering::Acquire)) {
            (true, true) => Openness::Staged,
            (true, false) => Openness::Private,
            (false, _) => Openness::Open,
        }
    }

    /// Records that it has its own name now.
    pub(crate) fn is_named(&self) {
        self.is_staged.store(false, Ordering::Release);
    }

    /// The status of an entry, if it exists.
    pub(crate) fn existing(&self, name: &[u8]) -> Result<Option<Status>> {
        let Some(fd) = &self.fd else { return Ok(None) };
        match Status::at(fd, name) {
            Ok(status) => Ok(Some(status)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The directory's own device and inode, by which it is recognized when it is opened again. `None`: it does not
    /// exist yet in a dry run.
    pub(crate) fn identity(&self) -> Result<Option<Inode>> {
        self.fd.as_ref().map(Status::of).transpose().map(|status| status.map(|status| (status.dev, status.ino)))
    }

    /// The inode that has this name now.
    pub(crate) fn inode_of(&self, name: &[u8]) -> Option<(u64, u64)> {
        self.existing(name).ok().flatten().map(|there| (there.dev, there.ino))
    }

    /// Creates a subdirectory that only its owner may use and that inherits nothing (its metadata is set last), and
    /// opens it.
    pub(crate) fn make_subdir(&self, name: &[u8], creator: &Creator) -> Result<OwnedFd> {
        self.make_subdir_with(name, creator, Mode::RWXU)
    }

    /// Creates a subdirectory like [`make_subdir`](Self::make_subdir), which is [unfinished](liveness::is_unfinished)
    /// until its metadata is set.
    pub(super) fn make_marked_subdir(&self, name: &[u8], creator: &Creator) -> Result<OwnedFd> {
        self.make_subdir_with(name, creator, Mode::from_raw_mode(liveness::MARK))
    }

    fn make_subdir_with(&self, name: &[u8], creator: &Creator, mode: Mode) -> Result<OwnedFd> {
        let above = self.fd.as_ref().ok_or(Errno::BADF)?;
        rustix::fs::mkdirat(above, name, mode)?;
        let made = openat::open_subdir(above, name)?;
        if self.inherited.inherits {
            metadata::remove_other_xattrs(&made, &[]).and_then(Others::removed)?;
        } else if mode == Mode::RWXU && creator.is_private(&Status::of(&made)?) {
            return Ok(made);
        }
        match creator.make_private_with(&made, mode.as_raw_mode()) {
            // A filesystem without these bits, as exFAT, has no metadata that could be lacking.
            Err(Errno::PERM) if mode != Mode::RWXU => creator.make_private(&made)?,
            done => done?,
        }
        Ok(made)
    }

    /// The seal of a file created in it: what the file gets only after it is in its place. These are flags that would
    /// prevent moving it there, or a project id other than the one it was created with.
    pub(crate) fn seal_of(&self, wanted: FileAttr) -> Option<FileAttr> {
        is_sealed(wanted, self.inherited.project).then_some(wanted)
    }

    /// Which name owns the entry that is found under this name.
    pub(crate) fn owner(&self, name: &[u8], wanted: Wanted<'_>) -> Result<Owner> {
        match &self.fd {
            Some(fd) => self.aliases.owner(fd, &self.device, name, wanted),
            None => Ok(Owner::Itself),
        }
    }

    /// Whether the directory, which has an entry with this name, surely compares names byte by byte.
    pub(crate) fn compares_exactly(&self, name: &[u8]) -> bool {
        self.fd.as_ref().is_some_and(|fd| self.aliases.are_exact(fd, &self.device, name))
    }

    /// The listed names with entries that are also found under other, wanted names: see [`Aliases::found`].
    pub(crate) fn found_under_others(&self, names: &[Vec<u8>], wanted: Wanted<'_>) -> Result<HashSet<Vec<u8>>> {
        self.aliases.found(self.fd.as_ref().ok_or(Errno::BADF)?, &self.device, names, wanted)
    }

    /// Gives a written file of this directory its name, unless it replaces another file. In that case the name follows
    /// after the next sync. The times always follow after the next sync, and then the seal.
    ///
    /// # Errors
    /// See [`TempFile::put`].
    pub(super) fn put_before_sync(
        &self,
        aside: TempFile<'_>,
        name: &[u8],
        times: (Time, Time),
        seal: Option<FileAttr>,
    ) -> Result<Unsynced> {
        let dir = self.fd.as_ref().ok_or(Errno::BADF)?;
        let (file, replaces) = match aside.postpone(dir, name) {
            Postponed::Replaces(file, replacing) => {
                self.wait_for_sync();
                (file, Some(replacing))
            }
            Postponed::IsNew(aside) => (aside.put(name)?, None),
        };
        Ok(Unsynced::new(file, &self.device, times, replaces, seal))
    }

    /// Records that a name in it, or its own, will be given after the next sync. It gets its metadata after that.
    pub(crate) fn wait_for_sync(&self) {
        self.is_waiting.store(true, Ordering::Relaxed);
    }

    /// Whether names in it, or its own, will be given after the next sync.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    /// Its mark for waiting names, which the caller keeps while the directory is closed.
    pub(crate) fn waiting_mark(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_waiting)
    }
}
