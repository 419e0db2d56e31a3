//! A directory of the destination during the walk: open, or closed to save descriptors. `directory` finds or creates
//! it.
//!
//! The walk owns it and closes it only when nothing uses it. So it is closed in place, unlike a directory of a restore,
//! and keeps what it knows about names and inheritance.

use super::job::{Instead, SealedFile};
use crate::fs::metadata::FileAttr;
use crate::fs::reopener::{Inode, Reopener};
use crate::tree::walk::Names;
use crate::tree::writer::{Devices, Inherited, Openness, Parent, Slot, StagedDir, TargetDir, Wanted};
use crate::util::mutex::lock;
use crate::util::path;
use rustix::io::Result;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// A directory of the destination.
pub(super) struct Place {
    /// Its path, relative to the top.
    pub(super) path: Vec<u8>,
    /// The directory itself.
    pub(super) dir: TargetDir,
    /// It was just created, accessible only to its owner: it contains only entries that this run created, and they
    /// inherit nothing except a project id.
    pub(super) fresh: bool,
    /// Another run may have given it its name since this run began. Its files may be older, and have no times yet.
    pub(super) appeared: bool,
    /// Set while it has a temporary name.
    staged: Mutex<Option<Staged>>,
    /// It keeps that name until the next sync if files in it are written.
    waits: AtomicBool,
    /// Such a file was written.
    is_written: AtomicBool,
    /// Flags that its files get when it has its own name.
    seals: Mutex<Vec<SealedFile>>,
    /// The directory that another run created in its place.
    instead: OnceLock<Box<Place>>,
    /// The same, if it gets its name after a sync: whatever is in its place then.
    instead_later: OnceLock<Instead>,
    /// The names in its source, if they were listed before the walk asks for them.
    listed: Mutex<Option<Listed>>,
    /// Its source, open while jobs wait that need it.
    pub(super) source: OnceLock<Arc<OwnedFd>>,
    /// The new name of the only wanted entry in it.
    rename: Option<Vec<u8>>,
    closed: Option<Closed>,
}

/// A directory that has a temporary name.
pub(super) struct Staged {
    pub(super) dir: StagedDir,
    /// Whether its source was named by the user, and not found in another directory.
    pub(super) is_named: bool,
    /// Whether it may keep its temporary name until a sync. That sync must be reliable, and an entry with its name must
    /// not be one that is wanted under another name.
    pub(super) may_wait: bool,
    /// The mark of the directory above, which gets its metadata after the names of directories in it.
    pub(super) above: Arc<AtomicBool>,
}

/// The names in a source directory, and why there are no more.
pub(super) type Listed = (Names, Option<io::Error>);

/// The data kept for a directory of the destination that was closed.
struct Closed {
    inode: Option<Inode>,
    /// The beginning of its path. The rest, of length `common`, equals the end of the source's path.
    head: Vec<u8>,
    common: usize,
}

impl Closed {
    /// Stores the part of the copy's path that differs from its source's path.
    fn new(inode: Option<Inode>, source: &[u8], path: &[u8]) -> Closed {
        let common = source.iter().rev().zip(path.iter().rev()).take_while(|(a, b)| a == b).count();
        Closed { inode, head: path[..path.len() - common].to_vec(), common }
    }

    /// The path of the copy, and the inode that it had before.
    fn reopen(self, source: &[u8]) -> (Vec<u8>, Option<Inode>) {
        let Closed { inode, head, common } = self;
        ([&head, &source[source.len() - common.min(source.len())..]].concat(), inode)
    }
}

impl Place {
    /// A directory with this path relative to the top. `target`: open, unless it does not exist yet in a dry run.
    pub(super) fn new(
        path: Vec<u8>,
        target: Option<OwnedFd>,
        devices: &Devices,
        inherited: Inherited,
        fresh: bool,
    ) -> Result<Place> {
        let dir = TargetDir::new(devices, target, inherited)?;
        let dir = if fresh { dir.private(false) } else { dir };
        let (staged, instead, listed) = (Mutex::default(), OnceLock::new(), Mutex::default());
        let (waits, is_written, seals) = (AtomicBool::default(), AtomicBool::default(), Mutex::default());
        Ok(Place {
            path,
            dir,
            fresh,
            appeared: false,
            staged,
            waits,
            is_written,
            seals,
            instead,
            instead_later: OnceLock::new(),
            listed,
            source: OnceLock::new(),
            rename: None,
            closed: None,
        })
    }

    /// The same directory, which may have appeared since this run began.
    pub(super) fn appeared(self, appeared: bool) -> Place {
        Place { appeared, ..self }
    }

    /// The same directory, which has a temporary name until [`Place::unstage`].
    pub(super) fn staged(self, staged: Staged) -> Place {
        Place { dir: self.dir.private(true), staged: Mutex::new(Some(staged)), ..self }
    }

    /// The same directory, with the names in its source.
    pub(super) fn with_names(self, listed: Option<Listed>) -> Place {
        Place { listed: Mutex::new(listed), ..self }
    }

    /// The names in its source, if they were listed already.
    pub(super) fn take_names(&self) -> Option<Listed> {
        lock(&self.listed).take()
    }

    /// The directory under its temporary name, if it has one: it gets its own name now.
    pub(super) fn unstage(&self) -> Option<Staged> {
        lock(&self.staged).take()
    }

    /// Whether it has a temporary name.
    pub(super) fn is_staged(&self) -> bool {
        self.dir.openness() == Openness::Staged
    }

    /// Lets it keep its temporary name until the next sync if files in it are written, so that they need not wait for
    /// their times. It must contain nothing else, and get no more entries after it got its name.
    pub(super) fn wait_if_written(&self) {
        let may_wait = lock(&self.staged).as_ref().is_some_and(|staged| staged.may_wait);
        self.waits.store(may_wait, Ordering::Relaxed);
    }

    /// Records that a file in it was written. Returns whether the file may be finished before the next sync, because
    /// the directory keeps its temporary name until then.
    pub(super) fn protects_written(&self) -> bool {
        self.is_written.store(true, Ordering::Relaxed);
        self.waits.load(Ordering::Relaxed)
    }

    /// Whether it must keep its temporary name until the next sync.
    pub(super) fn must_wait(&self) -> bool {
        self.waits.load(Ordering::Relaxed) && self.is_written.load(Ordering::Relaxed)
    }

    /// Postpones the flags of a file until the directory has its own name, because they would prevent deleting the
    /// file.
    pub(super) fn seal_later(&self, name: &[u8], seal: FileAttr) {
        lock(&self.seals).push(SealedFile { name: name.to_vec(), seal });
    }

    /// The postponed flags.
    pub(super) fn take_seals(&self) -> Vec<SealedFile> {
        std::mem::take(&mut *lock(&self.seals))
    }

    /// Where the directory is recorded that somebody else creates in its place before it gets its name after a sync.
    /// `None` if it does not wait.
    pub(super) fn instead_later(&self) -> Option<Instead> {
        self.instead_later.get().cloned()
    }

    /// Records that it gets its name after the next sync.
    pub(super) fn waits_for_name(&self) -> Instead {
        self.dir.wait_for_sync();
        Arc::clone(self.instead_later.get_or_init(Arc::default))
    }

    /// Records the directory that another run created in its place.
    pub(super) fn replace(&self, place: Place) {
        let _ = self.instead.set(Box::new(place));
    }

    /// The directory that has the name now.
    pub(super) fn current(&self) -> &Place {
        self.instead.get().map_or(self, |place| place)
    }

    /// The same directory, with a new name for its only wanted entry.
    pub(super) fn renaming(self, name: Option<&[u8]>) -> Place {
        Place { rename: name.map(<[u8]>::to_vec), ..self }
    }

    /// Closes all descriptors, until [`Place::reopen`]. `source` is the path of its source.
    pub(super) fn close(&mut self, source: &[u8]) {
        // A directory that cannot be recognized again stays open.
        let Ok(inode) = self.dir.identity() else { return };
        self.dir.fd = None;
        self.source.take();
        self.closed = Some(Closed::new(inode, source, &self.path));
        self.path = Vec::new();
    }

    /// Reopens the directory after [`Place::close`].
    pub(super) fn reopen<'r>(&mut self, reopener: impl FnOnce() -> Result<&'r Reopener>, source: &[u8]) -> Result<()> {
        if let Some(closed) = self.closed.take() {
            let (path, inode) = closed.reopen(source);
            self.path = path;
            self.dir.fd = inode.map(|inode| reopener()?.open(&self.path, inode).map(Arc::new)).transpose()?;
        }
        Ok(())
    }

    /// The path of an entry, relative to the top.
    pub(super) fn join(&self, name: &[u8]) -> Vec<u8> {
        path::join(&self.path, name)
    }

    /// The name that an entry of the source has here.
    pub(super) fn name<'n>(&'n self, source: &'n [u8]) -> &'n [u8] {
        self.rename.as_deref().unwrap_or(source)
    }

    /// The place of an entry. `wanted`: the names that the directory must have.
    pub(super) fn slot<'d, 'n, T>(&'d self, run: &'d T, name: &'n [u8], wanted: Wanted<'d>) -> Slot<'d, 'n, T> {
        Slot { run, parent: self, name, wanted }
    }
}

impl Parent for Place {
    fn dir(&self) -> &TargetDir {
        &self.dir
    }

    fn join(&self, name: &[u8]) -> Vec<u8> {
        Place::join(self, name)
    }
}
