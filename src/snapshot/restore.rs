//! Restores a snapshot, or parts of it, below a target directory.
//!
//! The manifest is streamed; directories are opened by descriptor, each from its parent, never through a link; files are
//! made aside under a temporary name, cloned from the snapshot, given their metadata, and renamed into their place. See
//! `entry` for what is done with an entry, `decide` for the decision, `content` for whether its content is right already,
//! `make` for how it is made, `tree` for the order, `levels` and `batch` for the bounds on descriptors and memory. A dry run goes the same way and stops short of every call that changes something.
//!
//! Where something stands in the way:
//! - A link (or file) where a directory of the restored subtrees must be is replaced unless [`Overwrite::Never`]; it is
//!   never followed. On the way to those subtrees it is an error, because nobody asked for that place to be changed.
//! - A directory where something else must be goes only with `delete`.
//! - Nothing that is mounted below the target is moved or deleted, nor is a directory that holds such a mount.

mod batch;
mod content;
mod decide;
mod delete;
mod directory;
mod done;
mod entry;
mod levels;
mod links;
mod make;
mod origin;
mod outcome;
mod pending;
mod place;
mod seal;
mod selection;
#[cfg(test)]
mod tests;
mod tree;
mod xattrs;

use super::manifest::Reader;
use super::repository::Repository;
use crate::error::{Error, Result};
use crate::fs::metadata::Creator;
use crate::fs::openat;
use crate::fs::procfs;
use crate::fs::shutdown;
use crate::fs::status::{Status, Time};
use crate::monitor::{Amount, Monitor};
use crate::tree::deletion::in_place::Mounts;
use crate::tree::writer::{AfterSync, Devices};
use crate::util::mutex::lock;
use done::Done;
pub use done::Stopped;
use pending::Pending;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use selection::Selection;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Which existing files are replaced. Unless they stay untouched, their metadata is set right in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Those with other content. Another type or size is another content. The same size with the same modification time is
    /// trusted, unless the file is the snapshot's very source and its change time is another one. In doubt the file is read
    /// from the disk and compared with the manifest's hash.
    #[default]
    IfDifferent,
    /// All of them, identical ones too.
    Always,
    /// Those of another type, size or modification time, without reading them.
    IfChanged,
    /// None: they stay untouched, and unread.
    Never,
}

/// How to restore.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directory that the absolute paths of the snapshot are put below. Made if it is missing.
    pub target: PathBuf,
    /// Remove what the restored directories have and the snapshot has not.
    pub delete: bool,
    /// Which existing files are replaced.
    pub overwrite: Overwrite,
    /// Existing files are read even if size and time match, and everything restored is checked against the manifest's hash.
    pub verify: bool,
    /// Only tell the monitor what would be done.
    pub dry_run: bool,
    /// How many threads; by default as many as there are processors.
    pub threads: Option<usize>,
}

/// What was done, or in a dry run would be. The names are those of the JSON summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// The snapshot's name. Empty if none was found.
    pub snapshot: String,
    /// Regular files, each name of a hard link counted, unchanged ones among them.
    pub files: u64,
    /// Directories, those on the way apart.
    pub dirs: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, named pipes, sockets.
    pub others: u64,
    /// Apparent size of the files, hard links once.
    pub bytes: u64,
    /// Bytes that share extents with the snapshot.
    pub cloned_bytes: u64,
    /// Bytes of data written.
    pub copied_bytes: u64,
    /// Files that were there already and were left alone, or got new metadata only.
    pub unchanged_files: u64,
    /// Entries and directories made where nothing was.
    pub new_entries: u64,
    /// Entries replaced because their content or type differed.
    pub replaced_entries: u64,
    /// Entries whose metadata alone was changed, directories apart.
    pub metadata_entries: u64,
    /// Entries removed because the snapshot does not have them; a directory with everything in it counts once.
    pub deleted: u64,
    /// Existing files that were read to compare them.
    pub compared_files: u64,
    /// New or replaced files whose content was checked against the manifest's hash.
    pub verified_files: u64,
    /// Bytes read to compare and to check.
    pub read_bytes: u64,
    /// Files of the snapshot that do not have the content their manifest records. None of them was put in place.
    pub damaged: u64,
    /// Entries left out or not quite as in the snapshot; each was reported to the monitor. Damaged ones are among them.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Stats {
    /// Adds an entry's share. What was changed is counted by [`Done`].
    fn add(&mut self, other: &Stats) {
        self.files += other.files;
        self.dirs += other.dirs;
        self.symlinks += other.symlinks;
        self.others += other.others;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.cloned_bytes += other.cloned_bytes;
        self.copied_bytes += other.copied_bytes;
        self.unchanged_files += other.unchanged_files;
        self.compared_files += other.compared_files;
        self.verified_files += other.verified_files;
        self.read_bytes += other.read_bytes;
        self.damaged += other.damaged;
        self.errors += other.errors;
    }
}

/// What every part of a restore needs.
struct Context<'a> {
    options: &'a Options,
    monitor: &'a dyn Monitor,
    creator: Creator,
    /// The repository and every directory above it: never deleted.
    guarded: Vec<(u64, u64)>,
    /// Filesystems that are written to.
    devices: Devices,
    /// Has what was restored written out meanwhile, and keeps what must wait for that.
    writeback: AfterSync<Pending>,
    /// What came of it.
    late: Mutex<Stats>,
    /// Why a job that waited ended the run.
    fatal: OnceLock<Error>,
    /// The records of the snapshot.
    manifest: &'a Reader,
    /// The snapshot's tree.
    tree: OwnedFd,
    /// What was changed so far.
    done: Done,
    /// When the snapshot was begun.
    created: Time,
    /// What is mounted in the target.
    mounts: Mounts,
}

impl Context<'_> {
    /// Where a path of the snapshot lies in the target, for messages.
    fn shown(&self, path: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.options.target.join(std::ffi::OsStr::from_bytes(path))
    }

    /// Whether a call failed with this error because the filesystem of the target or of the repository has failed as a whole.
    fn has_lost_a_filesystem(&self, errno: Errno) -> bool {
        self.devices.are_lost(errno) || (shutdown::is_suspected(errno) && shutdown::is_unreadable(&self.tree))
    }

    fn is_repository(&self, status: &Status) -> bool {
        self.guarded.first() == Some(&(status.dev, status.ino))
    }

    fn is_guarded(&self, status: &Status) -> bool {
        self.guarded.contains(&(status.dev, status.ino))
    }
}

/// Restores `paths` (absolute ones of the sources; none: all) from the snapshot `id` of the repository at `repo`.
///
/// # Errors
/// If there is no such snapshot, it does not have one of the paths, the target cannot be used or lies in the repository,
/// its disk is full, or the run is cancelled: [`Stopped`] has what was done by then. A single entry that fails is reported
/// to the monitor and counted.
pub fn restore(
    repo: &Path,
    id: &str,
    paths: &[PathBuf],
    options: &Options,
    monitor: &dyn Monitor,
) -> std::result::Result<Stats, Stopped> {
    let begun = Instant::now();
    procfs::require()?;
    let repository = Repository::open(repo)?;
    let info = repository.resolve_for(id, paths, monitor)?;
    let manifest = repository.manifest(&info.name)?;
    let selection = Selection::resolve(&manifest, &info.name, paths)?;
    let source = repository.tree(&info.name)?;
    let target = open_target(options)?;
    let guarded = above(&repository)?;
    if let Some(target) = &target {
        refuse_inside(target, &repository, options)?;
    }
    let totals = &info.totals;
    let expected = selection
        .is_all()
        .then(|| Amount { files: totals.files + totals.dirs + totals.symlinks + totals.others, bytes: totals.bytes });
    monitor.phase(if options.dry_run { "comparing" } else { "restoring" }, expected);
    let tree = rustix::io::fcntl_dupfd_cloexec(&source, 0)
        .map_err(|errno| Error::io("open the snapshot", repository.path(), errno))?;
    let context = Context {
        options,
        monitor,
        creator: Creator::current(),
        guarded,
        devices: Devices::default(),
        writeback: AfterSync::new(),
        late: Mutex::default(),
        fatal: OnceLock::new(),
        manifest: &manifest,
        tree,
        done: Done::default(),
        created: manifest.header().created,
        mounts: Mounts::default(),
    };
    let mut stats = Stats { snapshot: info.name.clone(), ..Stats::default() };
    let walk = || tree::restore(&context, &selection, (source, target), &mut stats);
    let run = || match options.dry_run {
        true => walk(),
        false => {
            let walked = context.writeback.during(|| context.round(), walk);
            // Also after an interruption: what is reported as restored is on the disk.
            monitor.phase("syncing", None);
            context.settle()?;
            walked
        }
    };
    let result = match options.threads {
        Some(threads) => rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|_| Error::failed("start the threads that restore"))?
            .install(run),
        None => run(),
    };
    let result = context.fatal.into_inner().map_or(result, Err);
    stats.add(&lock(&context.late));
    context.done.tell(&mut stats);
    stats.seconds = begun.elapsed().as_secs_f64();
    match result {
        Ok(()) => Ok(stats),
        Err(error) => Err(Stopped::after(error, stats)),
    }
}

/// Opens the target, which is made if it is missing, but not in a dry run: then there is none.
fn open_target(options: &Options) -> Result<Option<OwnedFd>> {
    let path = &options.target;
    let open = || rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    match open() {
        Err(Errno::NOENT) if options.dry_run => return Ok(None),
        Err(Errno::NOENT) => {
            std::fs::create_dir_all(path).map_err(|cause| Error::io("make the target", path, cause))?;
            open()
        }
        result => result,
    }
    .map(Some)
    .map_err(|errno| Error::io("open the target", path, errno))
}

/// The repository's directory and those above it, by device and inode.
fn above(repository: &Repository) -> Result<Vec<(u64, u64)>> {
    openat::ancestors(repository.fd())
        .map_err(|errno| Error::io("look at the directories above", repository.path(), errno))
}

fn refuse_inside(target: &OwnedFd, repository: &Repository, options: &Options) -> Result<()> {
    let failed = |errno| Error::io("look at the target", &options.target, errno);
    let root = Status::of(repository.fd()).map_err(failed)?;
    if openat::ancestors(target).map_err(failed)?.contains(&(root.dev, root.ino)) {
        return Err(Error::usage("restore into the repository itself, at")
            .at(&options.target)
            .hint("name a target outside of it"));
    }
    Ok(())
}
