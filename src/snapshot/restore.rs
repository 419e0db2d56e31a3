//! Restores a snapshot, or parts of it, below a target directory.
//!
//! The manifest is streamed; directories are opened by descriptor, each from its parent, never through a link; files are
//! made aside under a temporary name, cloned from the snapshot, given their metadata, and renamed into their place. See
//! `decide` for what is done with an entry, `make` for how, `tree` for the order. A dry run goes the same way and stops
//! short of every call that changes something.
//!
//! Where something stands in the way:
//! - A link (or file) where a directory of the restored subtrees must be is replaced unless [`Overwrite::Never`]; it is
//!   never followed. On the way to those subtrees it is an error, because nobody asked for that place to be changed.
//! - A directory where something else must be goes only with `delete`.

mod decide;
mod delete;
mod directory;
mod links;
mod make;
mod origin;
mod outcome;
mod place;
mod seal;
mod selection;
mod tree;

use super::store::Repository;
use crate::beneath;
use crate::error::{Error, Result};
use crate::metadata::Creator;
use crate::monitor::{Amount, Monitor};
use crate::staging::{Ahead, Devices};
use crate::status::Status;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use selection::Selection;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What happens to files that are there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// They are replaced, unless they are provably the same: same size and same extents.
    #[default]
    Always,
    /// They are replaced if type, size or modification time differ. Metadata is set right in any case.
    IfChanged,
    /// They stay as they are.
    Never,
}

/// How to restore.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directory that the absolute paths of the snapshot are put below. Made if it is missing.
    pub target: PathBuf,
    /// Remove what the restored directories have and the snapshot has not.
    pub delete: bool,
    /// What happens to files that are there already.
    pub overwrite: Overwrite,
    /// Only tell the monitor what would be done.
    pub dry_run: bool,
    /// How many threads; by default as many as there are processors.
    pub threads: Option<usize>,
}

/// What was done, or in a dry run would be. The names are those of the JSON summary.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
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
    /// Entries removed because the snapshot does not have them; a directory with all in it counts once.
    pub deleted: u64,
    /// Entries left out or not quite as in the snapshot; each was told to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Stats {
    fn add(mut self, other: Stats) -> Stats {
        self.files += other.files;
        self.dirs += other.dirs;
        self.symlinks += other.symlinks;
        self.others += other.others;
        self.bytes += other.bytes;
        self.cloned_bytes += other.cloned_bytes;
        self.copied_bytes += other.copied_bytes;
        self.unchanged_files += other.unchanged_files;
        self.deleted += other.deleted;
        self.errors += other.errors;
        self
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
    /// Has what was restored written out meanwhile.
    ahead: Ahead,
}

impl Context<'_> {
    /// Where a path of the snapshot lies in the target, for messages.
    fn shown(&self, path: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.options.target.join(std::ffi::OsStr::from_bytes(path))
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
/// its disk is full, or the run is cancelled. A single entry that fails is told to the monitor and counted.
pub fn restore(repo: &Path, id: &str, paths: &[PathBuf], options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let repository = Repository::open(repo)?;
    let info = repository.resolve(id)?;
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
    let (devices, ahead) = (Devices::default(), Ahead::default());
    let context = Context { options, monitor, creator: Creator::current(), guarded, devices, ahead };
    let walk = || tree::restore(&context, &manifest, &selection, source, target);
    let run = || match options.dry_run {
        true => walk(),
        false => {
            let sync = || context.devices.sync(&options.target);
            let stats = context.ahead.during(sync, walk)?;
            monitor.phase("syncing", None);
            sync().map(|()| stats)
        }
    };
    let mut stats = match options.threads {
        Some(threads) => rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|_| Error::failed("start the threads that restore"))?
            .install(run)?,
        None => run()?,
    };
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// Opens the target, made if it is missing; in a dry run a missing one is none.
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
    beneath::ancestors(repository.fd())
        .map_err(|errno| Error::io("look at the directories above", repository.path(), errno))
}

fn refuse_inside(target: &OwnedFd, repository: &Repository, options: &Options) -> Result<()> {
    let failed = |errno| Error::io("look at the target", &options.target, errno);
    let root = Status::of(repository.fd()).map_err(failed)?;
    if beneath::ancestors(target).map_err(failed)?.contains(&(root.dev, root.ino)) {
        return Err(Error::usage("restore into the repository itself, at")
            .at(&options.target)
            .hint("name a target outside of it"));
    }
    Ok(())
}
