//! Whether files share their extents as the manifests say: a file that was recorded as cloned, and as unchanged since
//! an earlier snapshot, lies where that snapshot's file does.

use super::context::Context;
use super::member::Member;
use crate::error::Result;
use crate::extents::address_space::AddressSpace;
use crate::extents::streamed;
use crate::fs::status::Status;
use crate::snapshot::manifest::{FileBody, Stored};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};

/// Measures the files of one path, in the order of their snapshots.
///
/// # Errors
/// If the run should stop.
pub(super) fn check(context: &Context<'_>, path: &[u8], members: &[&Member]) -> Result<()> {
    for pair in members.windows(2) {
        let [earlier, later] = pair else { continue };
        let Some(file) = later.entry.file().filter(|_| is_claimed(earlier, later)) else { continue };
        context.check()?;
        let Some((one, two)) = open(context, path, earlier).zip(open(context, path, later)) else { continue };
        match unshared(file, &one, &two) {
            Ok(bytes) => context.snapshots[later.snapshot].counts.unshared_bytes.add(bytes),
            // Neither extent maps nor inode numbers: nothing can be proved, so nothing counts as shared.
            Err(Errno::OPNOTSUPP | Errno::NOTTY) => {
                context.snapshots[later.snapshot].counts.unshared_bytes.add(file.size.saturating_sub(file.holes));
            }
            Err(errno) if !later.note_failure() => context.failed(later.snapshot, path, "read the extents", errno),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Opens a file. A failure is reported unless one of this file was reported already.
fn open(context: &Context<'_>, path: &[u8], member: &Member) -> Option<OwnedFd> {
    if member.has_failed() {
        return None;
    }
    let report = |errno| {
        member.note_failure();
        context.failed(member.snapshot, path, "open", errno);
    };
    member.open().map_err(report).ok()
}

/// Whether the later manifest says that its file shares the extents of the earlier one.
fn is_claimed(earlier: &Member, later: &Member) -> bool {
    let (one, two) = (&earlier.entry.meta, &later.entry.meta);
    let is_unchanged = (one.ino, one.mtime, one.ctime) == (two.ino, two.mtime, two.ctime);
    let is_same = |one: &FileBody, two: &FileBody| {
        two.stored == Stored::Cloned && one.stored != Stored::Inline && (one.size, one.hash) == (two.size, two.hash)
    };
    is_unchanged && earlier.entry.file().zip(later.entry.file()).is_some_and(|(one, two)| is_same(one, two))
}

fn unshared(file: &FileBody, one: &OwnedFd, two: &OwnedFd) -> rustix::io::Result<u64> {
    if Status::of(one)?.is_same_inode(&Status::of(two)?) {
        return Ok(0);
    }
    let Some(space) = AddressSpace::common(one, two)? else { return Err(Errno::OPNOTSUPP) };
    streamed::unlike_bytes(two.as_fd(), one.as_fd(), space, file.size)
}
