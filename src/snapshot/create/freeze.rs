//! Sources on Btrfs are read from a temporary read-only snapshot of their subvolume, so that the whole tree is of one
//! moment.
//!
//! The walk uses the sources' own paths, and the frozen directories replace the live ones. A snapshot of a subvolume
//! contains neither other mounts nor the subvolumes below it. These are read live, except subvolumes that were named as
//! sources.
//!
//! A frozen snapshot lies in the repository's staging area if that is on the same filesystem. Then no name appears in
//! the source, and a frozen snapshot of a killed run is cleared with its other leftovers. Otherwise the frozen snapshot
//! lies in the filesystem's top-level subvolume, which most systems do not mount. There a lock distinguishes leftovers
//! of killed runs from snapshots in use.

use super::context::Own;
use crate::error::{Advice, Error, Result};
use crate::fs::filesystem::{Filesystem, Id, Kind};
use crate::fs::mounts;
use crate::fs::openat;
use crate::fs::status::{self, Status};
use crate::monitor::{Event, Monitor};
use crate::snapshot::repository::{self, Repository};
use crate::sys::btrfs::logical::{self, ROOT_DIRECTORY, TOP_LEVEL};
use crate::sys::btrfs::subvolume;
use crate::tree::walk::{Sources, StandIns, absolute};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, StatxFlags, flock};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The beginning of the names of frozen snapshots outside a repository.
const PREFIX: &str = ".pleach-frozen-";

const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const READ: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The frozen snapshots of a run. They are deleted when the run ends, in whatever way.
#[derive(Debug, Default)]
pub(super) struct Frozen {
    snapshots: Vec<Snapshot>,
    stand_ins: StandIns,
    /// The device of the frozen copy of the repository's own subvolume, if that was frozen.
    repository: Option<u64>,
}

#[derive(Debug)]
struct Snapshot {
    /// The directory that it lies in.
    dir: OwnedFd,
    name: String,
    /// Its root directory, locked.
    root: OwnedFd,
}

impl Frozen {
    /// Checks that the sources are on filesystems that can freeze them.
    ///
    /// # Errors
    /// Kind `Usage` for a source that is not on Btrfs.
    pub(super) fn check(sources: &Sources) -> Result<()> {
        sources.paths().iter().try_for_each(|source| Part::of(source).map(drop))
    }

    /// Freezes the subvolumes in which the sources lie.
    ///
    /// # Errors
    /// If subvolumes cannot be made or deleted.
    pub(super) fn freeze(sources: &Sources, repository: &Repository, monitor: &dyn Monitor) -> Result<Frozen> {
        let parts = sources.paths().iter().map(|source| Part::of(source)).collect::<Result<Vec<_>>>()?;
        if !rustix::process::geteuid().is_root() || !repository_allows(repository) {
            let error = Error::failed("freeze the sources").because(Errno::PERM);
            let error = error.hint("only root may make and delete snapshots of subvolumes");
            return Err(error.advise(Advice::DoNotFreeze));
        }
        let mut frozen = Frozen::default();
        for source in sources.paths() {
            frozen.keep_mounts(source)?;
        }
        let home = Filesystem::identify(repository.fd()).ok();
        let mut made: BTreeMap<([u8; 16], u64), usize> = BTreeMap::new();
        for part in parts {
            let snapshot = match made.get(&(part.filesystem, part.subvolume)) {
                Some(snapshot) => *snapshot,
                None => {
                    let is_home = home == Some(Id::Btrfs(part.filesystem));
                    let dir = if is_home { repository::frozen_dir(repository)? } else { part.top_level()? };
                    if !is_home {
                        clear_leftovers(&dir, monitor);
                    }
                    let snapshot = part.freeze(dir, frozen.snapshots.len())?;
                    frozen.snapshots.push(snapshot);
                    made.insert((part.filesystem, part.subvolume), frozen.snapshots.len() - 1);
                    frozen.snapshots.len() - 1
                }
            };
            let Some(snapshot) = frozen.snapshots.get(snapshot) else { continue };
            let directory = openat::open_dir(snapshot.root.as_fd(), &part.within)
                .map_err(|errno| Error::io("open the frozen copy of", absolute(&part.path), errno))?;
            frozen.stand_ins.put(&part.path, directory);
        }
        if let (Some(Id::Btrfs(filesystem)), Ok(subvolume)) = (home, logical::subvolume_of(repository.fd()))
            && let Some(snapshot) = made.get(&(filesystem, subvolume)).and_then(|made| frozen.snapshots.get(*made))
        {
            let status = Status::of(&snapshot.root);
            let status =
                status.map_err(|errno| Error::io("read the status of the frozen copy of", repository.path(), errno))?;
            frozen.repository = Some(status.dev);
        }
        Ok(frozen)
    }

    /// Directories that need no snapshot.
    pub(super) fn of(stand_ins: StandIns) -> Frozen {
        Frozen { snapshots: Vec::new(), stand_ins, repository: None }
    }

    /// The sources, to be read from the frozen snapshots.
    pub(super) fn sources(&self, sources: &Sources) -> Sources {
        sources.with(self.stand_ins.clone())
    }

    /// The UUIDs of the snapshots.
    pub(super) fn uuids(&self) -> Vec<[u8; 16]> {
        let found = self.snapshots.iter().filter_map(|snapshot| logical::subvolume(&snapshot.root).ok());
        found.map(|subvolume| subvolume.uuid).collect()
    }

    /// The repository's own directory, to be recognised on the walk.
    pub(super) fn own(&self, repository: &Repository) -> Option<Own> {
        Status::of(repository.fd()).ok().map(|status| Own { status, frozen: self.repository })
    }

    /// Reports the directories that were read live, and deletes the snapshots.
    pub(super) fn end(mut self, monitor: &dyn Monitor) {
        for path in self.stand_ins.living() {
            monitor.event(Event::NotFrozen(&absolute(&path)));
        }
        for snapshot in self.snapshots.drain(..) {
            if let Err(errno) = snapshot.delete() {
                let error = Error::io("delete the frozen snapshot", &snapshot.name, errno);
                monitor.event(Event::FrozenNotDeleted(&error));
            }
        }
    }

    /// Other filesystems below a source stay part of it: they are read where they are mounted.
    fn keep_mounts(&mut self, source: &Path) -> Result<()> {
        let mounts = mounts::all().map_err(|cause| Error::io("read", "/proc/self/mountinfo", cause))?;
        for mount in mounts.iter().filter(|mount| mount.point.starts_with(source) && mount.point != source) {
            // The mount is on a file, is hidden by another mount, or is gone by now.
            let Ok(living) = rustix::fs::open(&mount.point, PASS, Mode::empty()) else { continue };
            self.stand_ins.put(without_slash(&mount.point), living);
        }
        Ok(())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for snapshot in self.snapshots.drain(..) {
            // The next run deletes a snapshot that stays.
            let _ = snapshot.delete();
        }
    }
}

impl Snapshot {
    fn delete(&self) -> rustix::io::Result<()> {
        subvolume::destroy(&self.dir, self.name.as_bytes())
    }
}

/// The part of a subvolume that will be frozen. It begins as high above a source as the subvolume reaches without
/// another mount.
struct Part {
    source: PathBuf,
    filesystem: [u8; 16],
    subvolume: u64,
    /// Its path, without the leading slash.
    path: Vec<u8>,
    /// Its path within the subvolume; empty for the subvolume's root.
    within: Vec<u8>,
    directory: OwnedFd,
}

impl Part {
    fn of(source: &Path) -> Result<Part> {
        let failed = |errno: Errno| Error::io("freeze", source, errno);
        let is_dir = source.symlink_metadata().map_err(|cause| Error::io("freeze", source, cause))?.is_dir();
        let start = if is_dir { Some(source) } else { source.parent() };
        let mut top = start.unwrap_or(Path::new("/"));
        let mut directory = rustix::fs::open(top, READ, Mode::empty()).map_err(failed)?;
        let Ok(Id::Btrfs(filesystem)) = Filesystem::identify(&directory) else {
            let kind = Kind::of(&directory).map_err(failed)?;
            return Err(Error::usage(format!("freeze a source on {kind}, only one on Btrfs:"))
                .at(source)
                .hint("docs/freeze.md says how a frozen mount of LVM or XFS can take its place"));
        };
        let here = place(&directory).map_err(failed)?;
        while let Some(above) = top.parent() {
            let is_root = Status::of(&directory).map_err(failed)?.ino == ROOT_DIRECTORY;
            let Ok(next) = rustix::fs::open(above, READ, Mode::empty()) else { break };
            if is_root || place(&next).map_err(failed)? != here {
                break;
            }
            (top, directory) = (above, next);
        }
        let subvolume = logical::subvolume_of(&directory).map_err(failed)?;
        let inode = Status::of(&directory).map_err(failed)?.ino;
        let mut within = match inode {
            ROOT_DIRECTORY => Vec::new(),
            _ => logical::directory_path(&directory, subvolume, inode).map_err(failed)?,
        };
        if within.last() == Some(&b'/') {
            within.pop();
        }
        let path = without_slash(top).to_vec();
        Ok(Part { source: source.to_path_buf(), filesystem, subvolume, path, within, directory })
    }

    /// The root directory of the filesystem's top-level subvolume, whether it is mounted or not.
    fn top_level(&self) -> Result<OwnedFd> {
        logical::open_inode(&self.directory, TOP_LEVEL, ROOT_DIRECTORY, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|errno| Error::io("open the top-level subvolume of the filesystem of", &self.source, errno))
    }

    /// Makes the run's snapshot number `number` in `dir`.
    fn freeze(&self, dir: OwnedFd, number: usize) -> Result<Snapshot> {
        let failed = |errno: Errno| Error::io("freeze", &self.source, errno);
        let now = status::Time::now();
        let name = format!("{PREFIX}{}.{:x}.{number}", std::process::id(), now.seconds);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let living = logical::open_inode(&self.directory, self.subvolume, ROOT_DIRECTORY, flags).map_err(failed)?;
        let before = Status::of(&dir).map_err(failed)?;
        subvolume::snapshot(living, &dir, name.as_bytes(), true).map_err(failed)?;
        // If the top level is itself the source, it must keep its times.
        let _ = rustix::fs::futimens(&dir, &status::timestamps(before.atime, before.mtime));
        let root = rustix::fs::openat(&dir, name.as_str(), READ, Mode::empty())
            .and_then(|root| flock(&root, FlockOperation::NonBlockingLockExclusive).map(|()| root));
        match root {
            Ok(root) => Ok(Snapshot { dir, name, root }),
            Err(errno) => {
                let _ = subvolume::destroy(&dir, name.as_bytes());
                Err(failed(errno))
            }
        }
    }
}

/// The device and the mount of an open directory. If one of them differs, it is not the same part of a subvolume.
fn place(directory: &OwnedFd) -> rustix::io::Result<(u32, u32, u64)> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let status = rustix::fs::statx(directory, c"", AtFlags::EMPTY_PATH, wanted)?;
    Ok((status.stx_dev_major, status.stx_dev_minor, status.stx_mnt_id))
}

fn repository_allows(repository: &Repository) -> bool {
    // On other filesystems, the call that makes the first snapshot shows it.
    !matches!(Filesystem::identify(repository.fd()), Ok(Id::Btrfs(_))) || repository::can_make_subvolumes(repository)
}

/// Deletes the frozen snapshots that killed runs left in `dir`.
fn clear_leftovers(dir: &OwnedFd, monitor: &dyn Monitor) {
    let Ok(entries) = rustix::fs::Dir::read_from(dir) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_bytes().starts_with(PREFIX.as_bytes())) {
        let name = entry.file_name();
        let Ok(root) = rustix::fs::openat(dir, name, READ, Mode::empty()) else { continue };
        // A run that still uses it holds the lock.
        if flock(&root, FlockOperation::NonBlockingLockExclusive).is_ok()
            && subvolume::destroy(dir, name.to_bytes()).is_ok()
        {
            monitor.event(Event::FrozenDeleted(OsStr::from_bytes(name.to_bytes())));
        }
    }
}

fn without_slash(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    bytes.strip_prefix(b"/").unwrap_or(bytes)
}
