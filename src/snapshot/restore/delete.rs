//! Removes from a restored directory what the snapshot does not have. By descriptor; no link is followed, no mounted
//! filesystem entered, and neither the repository nor a directory above it is ever removed.

use super::place::Place;
use super::selection::join;
use super::{Context, Stats};
use crate::beneath;
use crate::error::{Error, Result};
use crate::monitor::Change;
use crate::snapshot::manifest::Reader;
use crate::snapshot::remove;
use crate::status::Status;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Removes what the directory has and the snapshot has not. `is_mount`: another filesystem is mounted on it here that
/// was not in the source, so what is in it is none of the snapshot's business.
pub(super) fn extraneous(context: &Context<'_>, manifest: &Reader, place: &Place, is_mount: bool) -> Result<Stats> {
    let mut stats = Stats::default();
    let Some(target) = &place.target else { return Ok(stats) };
    let mut problem = |error: Error| {
        context.monitor.problem(&error);
        stats.errors += 1;
    };
    let names = match names(target.as_fd()) {
        Ok(names) => names,
        Err(errno) => {
            problem(Error::io("read the directory", context.shown(&place.path), errno));
            return Ok(stats);
        }
    };
    let Some(mut known) = manifest.directory(&place.path)? else { return Ok(stats) };
    let mut deleted = 0;
    for name in names {
        let path = join(&place.path, &name);
        if known.seek(&name)?.is_some() || manifest.directory(&path)?.is_some() {
            continue;
        }
        let shown = context.shown(&path);
        if is_mount {
            let error = Error::failed("delete what the snapshot does not have in").at(context.shown(&place.path));
            problem(error.hint("another filesystem is mounted there; it was left as it is"));
            break;
        }
        if context.monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        match remove_entry(context, target.as_fd(), &name, &shown) {
            Ok(()) => {
                if context.options.dry_run {
                    context.monitor.planned(Change::Removed, &shown);
                }
                deleted += 1;
            }
            Err(Errno::NOENT) => {}
            Err(errno) => problem(refusal(&shown, errno)),
        }
    }
    stats.deleted = deleted;
    Ok(stats)
}

fn remove_entry(context: &Context<'_>, dir: BorrowedFd<'_>, name: &[u8], shown: &Path) -> rustix::io::Result<()> {
    let status = Status::at(dir, name)?;
    if status.file_type() == FileType::Directory {
        return tree(context, dir, name, shown);
    }
    if context.options.dry_run { Ok(()) } else { rustix::fs::unlinkat(dir, name, AtFlags::empty()) }
}

/// Removes a directory and all in it; in a dry run, finds out whether it may be.
///
/// # Errors
/// `BUSY` if it is a mount point or holds the repository, `NOTEMPTY` if something in it could not be removed (the
/// monitor has been told).
pub(super) fn tree(context: &Context<'_>, parent: BorrowedFd<'_>, name: &[u8], shown: &Path) -> rustix::io::Result<()> {
    let dir = beneath::open_subdir(parent, name)?;
    let status = Status::of(&dir)?;
    if context.is_guarded(&status) || is_mount_point(parent, &dir)? {
        return Err(Errno::BUSY);
    }
    if context.options.dry_run {
        return Ok(());
    }
    let emptied = remove::empty(dir.as_fd(), shown, &remove::Options::default(), context.monitor);
    if emptied.is_err() {
        return Err(Errno::CANCELED);
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Whether a directory is the top of a mount: the kernel numbers mounts, and Btrfs's subvolumes are none by themselves.
fn is_mount_point(parent: BorrowedFd<'_>, dir: impl AsFd) -> rustix::io::Result<bool> {
    let mount = |fd: BorrowedFd<'_>| {
        let wanted = rustix::fs::StatxFlags::MNT_ID;
        rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, wanted).map(|statx| statx.stx_mnt_id)
    };
    Ok(mount(parent)? != mount(dir.as_fd())?)
}

/// Whether another filesystem is mounted on a directory that was opened from `parent`.
pub(super) fn is_mounted_on(parent: BorrowedFd<'_>, dir: BorrowedFd<'_>) -> bool {
    is_mount_point(parent, dir).unwrap_or(true)
}

fn refusal(shown: &Path, errno: Errno) -> Error {
    let error = Error::io("delete", shown, errno);
    match errno {
        Errno::BUSY => error.hint("it holds the repository, or a filesystem is mounted on it"),
        Errno::NOTEMPTY => error.hint("what is left in it could not be deleted"),
        _ => error,
    }
}

fn names(dir: BorrowedFd<'_>) -> rustix::io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
