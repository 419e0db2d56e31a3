//! Directories that had files in the last snapshot and have none now. They are more likely unmounted than emptied on
//! purpose.
//!
//! A source that suddenly has no files is refused before anything is done; otherwise the new, empty snapshot would soon
//! be the only one. Empty directories in the source change nothing, since they may be mount points. A mount point below
//! a source may well be empty for a day: it is reported, and the snapshot is made.

use super::options::Options;
use crate::error::{Advice, Error, Result};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::Monitor;
use crate::snapshot::manifest::{Item, Reader};
use crate::snapshot::repository::{Repository, SnapshotInfo};
use crate::tree::exclude::mounts;
use crate::tree::walk::{Directory, Names, Sources, absolute};
use crate::util::path::{is_below, split};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The kind of entries that a source has, at any depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    /// Only directories.
    Nothing,
    /// Links, named pipes, sockets or devices.
    Nodes,
    /// Regular files.
    Files,
}

impl Found {
    fn of(file_type: FileType) -> Found {
        match file_type {
            FileType::Directory => Found::Nothing,
            FileType::RegularFile => Found::Files,
            _ => Found::Nodes,
        }
    }
}

/// Refuses sources that have no files now and had some in the last snapshot that has these sources. Links and other
/// nodes count as files only if that snapshot had no regular files.
///
/// # Errors
/// The error for the first such source.
pub(super) fn refuse(
    sources: &Sources,
    repository: &Repository,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<()> {
    if options.allow_empty {
        return Ok(());
    }
    let inode = Status::at(CWD, repository.path().as_os_str().as_bytes()).ok().map(|status| (status.dev, status.ino));
    let search = Search { options, monitor, repository: inode };
    let found = sources.paths().iter().map(|path| (path, search.finds(path)));
    let mut suspects = found.filter(|(_, found)| *found < Found::Files).peekable();
    if suspects.peek().is_none() {
        return Ok(());
    }
    let listing = repository.listing()?;
    for (source, found) in suspects {
        let last = listing.snapshots.iter().rev().find(|info| info.has_source(source));
        if let Some(last) = last.filter(|last| had_more(repository, last, source, found)) {
            let hint = format!("the snapshot {} has files there: is the disk mounted? nothing was done", last.name);
            let error = Error::failed("take a snapshot of a source without files").at(source).hint(hint);
            return Err(error.advise(Advice::AllowEmptySource));
        }
    }
    Ok(())
}

/// A search for a file below a source.
struct Search<'a> {
    options: &'a Options,
    monitor: &'a dyn Monitor,
    /// The repository, which is not part of any source, by device and inode.
    repository: Option<(u64, u64)>,
}

impl Search<'_> {
    /// Empty directories below this many others count as files, because the search keeps the directories above open.
    const DEEPEST: usize = 100;

    /// The highest kind that a source has. A source that is not a directory, or a directory that cannot be read, counts
    /// as files.
    fn finds(&self, source: &Path) -> Found {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |access| rustix::fs::open(source, flags | access, Mode::empty());
        openat::without_access(open).and_then(|fd| self.finds_below(&fd, 0)).unwrap_or(Found::Files)
    }

    fn finds_below(&self, dir: &OwnedFd, depth: usize) -> rustix::io::Result<Found> {
        let status = Status::of(dir)?;
        if self.repository == Some((status.dev, status.ino)) {
            return Ok(Found::Nothing);
        }
        if depth >= Self::DEEPEST || depth > 0 && self.monitor.is_cancelled() {
            return Ok(Found::Files);
        }
        let mut most = Found::Nothing;
        let mut below = Vec::new();
        for entry in rustix::fs::Dir::new(rustix::io::fcntl_dupfd_cloexec(dir, 0)?)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || depth == 0 && name.to_bytes() == b"lost+found" {
                continue;
            }
            let file_type = match entry.file_type() {
                FileType::Unknown => Status::at(dir, name.to_bytes())?.file_type(),
                known => known,
            };
            most = most.max(Found::of(file_type));
            match file_type {
                FileType::RegularFile => return Ok(most),
                FileType::Directory => below.push(name.to_owned()),
                _ => {}
            }
        }
        for name in below {
            let is_skipped =
                self.options.excludes.one_file_system && mounts::is_elsewhere(dir, status.dev, name.to_bytes());
            if is_skipped {
                continue;
            }
            let subdir = openat::open_subdir_quietly(dir, name.as_c_str())?;
            most = most.max(self.finds_below(&subdir, depth + 1)?);
            if most == Found::Files {
                break;
            }
        }
        Ok(most)
    }
}

/// Whether a snapshot has entries of a higher kind below a source. A snapshot that cannot be read has none.
fn had_more(repository: &Repository, snapshot: &SnapshotInfo, source: &Path, found: Found) -> bool {
    let Ok(manifest) = repository.manifest(&snapshot.name) else { return false };
    let path = source.as_os_str().as_bytes();
    has_more(&manifest, path.strip_prefix(b"/").unwrap_or(path), found)
}

/// Whether a manifest has an entry of a higher kind in a directory or below it.
fn has_more(manifest: &Reader, path: &[u8], found: Found) -> bool {
    let mut items = manifest.items_from(path);
    while let Some(item) = items.next() {
        match item {
            Ok(_) if !is_below(items.directory(), path) => return false,
            Ok(Item::Entry(entry)) if Found::of(FileType::from_raw_mode(entry.meta.mode)) > found => return true,
            Ok(_) | Err(_) => {}
        }
    }
    false
}

/// The error to report if an empty directory was a mount point with files in it, and nothing is mounted there now.
pub(super) fn vanished_mount(manifest: &Reader, directory: &Directory<()>, names: &Names) -> Option<Error> {
    let (path, now) = (&directory.path, &directory.status);
    if names.batches() > 0 || names.directories() > 0 || path.is_empty() {
        return None;
    }
    let record = |path: &[u8]| manifest.directory(path).ok().flatten().map(|cursor| cursor.directory().clone());
    let then = record(path)?;
    let was_mounted = !then.scaffold && then.meta.dev != record(split(path).0)?.meta.dev;
    let is_mounted = || Status::at(&directory.fd, b"..").is_ok_and(|above| above.dev != now.dev);
    if !was_mounted || is_mounted() || !has_more(manifest, path, Found::Nothing) {
        return None;
    }
    let hint =
        "it had files in the last snapshot, from a filesystem that is not mounted there now: this one has it empty";
    Some(Error::failed("keep the files of the mount point").at(absolute(path)).hint(hint))
}
