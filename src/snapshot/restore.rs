//! Restores a snapshot, or parts of it, below a target directory.
//!
//! - `tree` streams the manifest; `levels` opens directories by descriptor, each from its parent, never through a link;
//!   `batch` bounds descriptors and memory.
//! - `directory` finds or makes a directory, and ends it: it deletes entries that the snapshot does not have
//!   (`delete`), and sets the directory's metadata.
//! - `entry` restores one entry. `decide` and `content` compare it with the existing entry. `make` makes it under a
//!   temporary name, clones it from the snapshot (`origin`), sets its metadata (`metadata`), and renames it into its
//!   place.
//! - `links` joins the names of one inode. `pending` runs the jobs that wait for a sync (`job`).
//!
//! A dry run takes the same steps and skips every call that changes something. `tree::writer` writes entries; copying
//! uses it too.
//!
//! If something else is in an entry's place:
//! - A link or file in the place of a directory of the restored subtrees is replaced unless [`Overwrite::Never`]; it is
//!   never followed. On the way to those subtrees it is an error, because nobody asked for that place to be changed.
//! - A directory in the place of another type of entry is only removed with `delete`.
//! - Nothing that is mounted below the target is moved or deleted, nor is a directory that holds such a mount.

mod batch;
mod content;
mod context;
mod decide;
mod delete;
mod directory;
mod done;
mod end;
mod entry;
mod job;
mod levels;
mod links;
mod make;
mod metadata;
mod options;
mod origin;
mod outcome;
mod pending;
mod place;
mod selection;
mod stats;
#[cfg(test)]
mod tests;
mod tree;
mod wanted_names;
mod xattrs;

pub use options::{Options, Overwrite};
pub use stats::{Stats, Stopped};

use super::repository::Repository;
use super::skipped::Skipped;
use crate::error::{Error, Result};
use crate::fs::metadata::Creator;
use crate::fs::openat;
use crate::fs::procfs;
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::tree::deletion::in_place::Mounts;
use crate::tree::writer::{AfterSync, Devices, Run as _};
use crate::util::mutex::lock;
use crate::util::pool::Pool;
use context::Context;
use done::Done;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use selection::Selection;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Restores `paths` from the snapshot `id` of the repository at `repo` below [`Options::target`], which must be set.
/// The paths are absolute and without symbolic links; without paths, everything is restored.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, restore};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// create::create(&[source.clone()], &repo, &create::Options::default(), &Silent)?;
///
/// // The snapshot has the path without symbolic links.
/// let letter = source.canonicalize()?.join("letter");
/// let mut options = restore::Options::default();
/// options.target = dir.path().join("restored");
/// restore::restore(&repo, "latest", &[letter.clone()], &options, &Silent)?;
/// let restored = options.target.join(letter.strip_prefix("/")?);
/// assert_eq!(std::fs::read_to_string(restored)?, "Dear Ann");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If there is no such snapshot, it does not have one of the paths, the target cannot be used or lies in the
/// repository, its disk is full, or the run is cancelled. [`Stopped`] has the work that was done by then. A single
/// entry that fails is reported to the monitor and counted.
pub fn restore(
    repo: &Path,
    id: &str,
    paths: &[PathBuf],
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats, Stopped> {
    let begun = Instant::now();
    if options.target.as_os_str().is_empty() {
        return Err(Error::usage("restore without a target directory").into());
    }
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
    let skipped = Skipped::of(&repository, &info.name, totals).filter(|_| options.delete);
    skipped.iter().for_each(|skipped| skipped.report(monitor));
    let context = Context {
        options,
        monitor,
        creator: Creator::current(),
        guarded,
        devices: Devices::default(),
        waiting: AfterSync::new(),
        late: Mutex::default(),
        fatal: OnceLock::new(),
        manifest: &manifest,
        tree,
        done: Done::default(),
        created: manifest.header().created,
        mounts: Mounts::default(),
        skipped,
    };
    let mut stats = Stats { snapshot: info.name.clone(), ..Stats::default() };
    let walk = || tree::restore(&context, &selection, (source, target), &mut stats);
    let run = || match options.dry_run {
        true => walk(),
        false => {
            let walked = context.waiting.during(|| context.round(), walk);
            // Also after an interruption: entries that are reported as restored must be on the disk.
            monitor.phase("syncing", None);
            context.settle()?;
            walked
        }
    };
    // 0: one for each processor.
    let pool = Pool::start(options.threads.unwrap_or(0));
    let result = pool.map_err(|_| Error::failed("start the threads that restore"))?.install(run);
    let result = context.fatal.into_inner().map_or(result, Err);
    stats.add(&lock(&context.late));
    context.done.fill(&mut stats);
    stats.seconds = begun.elapsed().as_secs_f64();
    match result {
        Ok(()) => Ok(stats),
        Err(error) => Err(Stopped::after(error, stats)),
    }
}

/// Opens the target, and makes it if it is missing. A dry run does not make it and returns `None`.
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
        .map_err(|errno| Error::io("read the status of the directories above", repository.path(), errno))
}

fn refuse_inside(target: &OwnedFd, repository: &Repository, options: &Options) -> Result<()> {
    let failed = |errno| Error::io("read the status of the target", &options.target, errno);
    let root = Status::of(repository.fd()).map_err(failed)?;
    if openat::ancestors(target).map_err(failed)?.contains(&(root.dev, root.ino)) {
        return Err(Error::usage("restore into the repository itself, at")
            .at(&options.target)
            .hint("name a target outside of it"));
    }
    Ok(())
}
