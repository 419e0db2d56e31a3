//! Sources that are refused: they lie in the repository, or on a filesystem that has failed. `emptied` refuses empty
//! sources.

use super::stats::Stats;
use crate::error::{Error, Result};
use crate::fs::openat;
use crate::fs::shutdown;
use crate::fs::status::Status;
use crate::tree::walk::Sources;
use crate::util::text;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;

/// Refuses a source in the repository: that would be a snapshot of snapshots. A repository below a source is skipped.
pub(super) fn overlap(sources: &Sources, repo: &Path) -> Result<()> {
    let resolved = match (repo.canonicalize(), repo.parent(), repo.file_name()) {
        (Ok(path), ..) => path,
        // The repository will be made; its parent must exist.
        (Err(_), Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            let parent = parent.canonicalize().map_err(|cause| Error::io("find the directory", parent, cause))?;
            parent.join(name)
        }
        (Err(cause), ..) => return Err(Error::io("find the repository", repo, cause)),
    };
    let own = Status::of_path(repo).ok();
    for source in sources.paths() {
        if source.starts_with(&resolved) || own.as_ref().is_some_and(|own| lies_in(source, own)) {
            let shown = text::path(repo);
            let why = format!("it is inside the repository {shown}; name a source outside it");
            return Err(Error::usage("take a snapshot of").at(source).hint(why));
        }
    }
    Ok(())
}

/// Whether a source lies in the directory `own`, wherever that is mounted. A source that cannot be opened does not.
fn lies_in(source: &Path, own: &Status) -> bool {
    let directory = if source.is_dir() { source } else { source.parent().unwrap_or(source) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty());
    opened.and_then(openat::ancestors).is_ok_and(|above| above.contains(&(own.dev, own.ino)))
}

/// Refuses sources that vanished or were replaced before any entry was read.
pub(super) fn emptied(sources: &Sources, stats: &Stats) -> Result<()> {
    match sources.paths().first() {
        Some(source) if stats.files + stats.symlinks + stats.others == 0 => {
            let hint = "it vanished before it was read, or was replaced: no snapshot was made; run again";
            Err(Error::failed("read the source").at(source).hint(hint))
        }
        _ => Ok(()),
    }
}

/// Refuses a source if its filesystem failed during the walk: nearly all of the source may be missing.
pub(super) fn failed(sources: &Sources) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for source in sources.paths() {
        let directory = if source.is_file() { source.parent().unwrap_or(source) } else { source };
        let has_failed = match rustix::fs::open(directory, flags, Mode::empty()) {
            Ok(opened) => shutdown::is_unreadable(opened),
            Err(errno) => shutdown::is_suspected(errno),
        };
        if has_failed {
            let error = Error::io("read the source", source, Errno::IO);
            return Err(error.hint(
                "its filesystem has failed: no snapshot was made; earlier snapshots are complete; \
                 check the disk (dmesg(1)), then run again",
            ));
        }
    }
    Ok(())
}
