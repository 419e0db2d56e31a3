//! Checks whether an existing file has the content that the manifest records. The file is read only in doubt, and then
//! from the disk.

use super::context::Context;
use super::options::Overwrite;
use super::origin::Origin;
use super::place::Place;
use super::stats::Stats;
use crate::content::copy::Copied;
use crate::content::hash;
use crate::content::same_content;
use crate::error::{Error, ErrorKind};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::fs::timestamp::{Clock, may_have_changed_since};
use crate::snapshot::manifest::{Entry, FileBody, Meta, Time};
use crate::tree::writer::{self, Failure, Target as _};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Whether an existing regular file with this status has the entry's content. `overwrite` and the options decide how
/// far this is checked.
///
/// A file that cannot be read counts as different.
///
/// # Errors
/// `CANCELED` when the monitor asks to stop. If the manifest has no hash, also errors of reading the snapshot's file.
pub(super) fn is_same(
    context: &Context<'_>,
    place: &Place,
    (entry, body): (&Entry, &FileBody),
    (status, overwrite): (&Status, Overwrite),
    origin: &mut Origin<'_>,
    stats: &mut Stats,
) -> Result<bool> {
    let options = context.options;
    let is_timely = status.has_mtime(entry.meta.mtime);
    let is_asked = match overwrite {
        Overwrite::Always => return Ok(false),
        Overwrite::Never => return Ok(true),
        _ if status.size != body.size => return Ok(false),
        Overwrite::IfChanged if !is_timely => return Ok(false),
        Overwrite::IfChanged => options.verify,
        Overwrite::IfDifferent => {
            let clock = place.dir.device.kind.map_or(Clock::Remote, Clock::of_kind);
            options.verify || !is_timely || is_in_doubt(status, &entry.meta, context.created, clock, place.is_origin)
        }
    };
    if !is_asked || body.size == 0 {
        return Ok(true);
    }
    let Some(target) = &place.dir.fd else { return Ok(false) };
    let Ok(present) = openat::open_file(target.as_fd(), &entry.name) else { return Ok(false) };
    matches(context, present.as_fd(), body, origin, stats)
}

/// Whether an open file of the target has the content that the manifest records. Reads it from the disk, unless it has
/// the extents of the snapshot's file.
///
/// # Errors
/// Like [`is_same`].
pub(super) fn matches(
    context: &Context<'_>,
    present: BorrowedFd<'_>,
    body: &FileBody,
    origin: &mut Origin<'_>,
    stats: &mut Stats,
) -> Result<bool> {
    // Equal extents have the snapshot's content, but `verify` does not trust that content.
    let has_same_extents = |origin: &mut Origin<'_>| {
        origin.file().is_ok_and(|file| writer::has_same_extents(file, present).unwrap_or(false))
    };
    if !context.options.verify && has_same_extents(origin) {
        return Ok(true);
    }
    let mut hash = |file: BorrowedFd<'_>| {
        hash::on_disk(file, body.size, context.monitor).map(|hashed| {
            stats.read_bytes += hashed.read;
            hashed.hash
        })
    };
    let found = match hash(present) {
        Ok(found) => found,
        Err(Errno::CANCELED) => return Err(Errno::CANCELED),
        Err(_) => return Ok(false),
    };
    let wanted = match body.hash {
        Some(wanted) => Some(wanted),
        None => hash(origin.file()?)?,
    };
    stats.compared_files += 1;
    if let (Some(found), Some(wanted)) = (found, wanted) {
        return Ok(found == wanted);
    }
    // The holes of one of the files are too large to be hashed. The pages of the existing file were dropped a moment
    // ago.
    let compared = same_content::compare(origin.file()?, present, body.size, context.monitor)?;
    stats.read_bytes += compared.read;
    Ok(compared.is_equal)
}

/// Checks the content of a file that was made and has no name yet. Copied data was hashed while it was copied; `verify`
/// reads all of it from the disk. Content without a hash in the manifest is only checked against the copied data.
///
/// # Errors
/// The reason why the content is not right.
pub(super) fn check(
    context: &Context<'_>,
    body: &FileBody,
    made: BorrowedFd<'_>,
    copied: &Copied,
    stats: &mut Stats,
) -> std::result::Result<(), Wrong> {
    if let (Some(wanted), Some(found)) = (body.hash, copied.hash) {
        if wanted != found {
            return Err(Wrong::Snapshot);
        }
        stats.verified_files += 1;
    }
    let Some(wanted) = body.hash.or(copied.hash).filter(|_| context.options.verify) else { return Ok(()) };
    let found = hash::on_disk(made, body.size, context.monitor).map_err(Wrong::Unreadable)?;
    stats.read_bytes += found.read;
    // Holes of the file are too large to be hashed.
    let Some(hash) = found.hash else { return Ok(()) };
    if hash == wanted {
        stats.verified_files += u64::from(copied.hash.is_none());
        return Ok(());
    }
    // A clone has the snapshot's own data. A copy had the right hash while it was written.
    Err(if copied.hash.is_some() { Wrong::Target } else { Wrong::Snapshot })
}

/// The fault of a file that was made.
#[derive(Debug)]
pub(super) enum Wrong {
    /// The snapshot does not have the content that its manifest records.
    Snapshot,
    /// The target's disk does not return the data that was written.
    Target,
    /// It cannot be read back.
    Unreadable(Errno),
}

impl Wrong {
    /// The failure of an entry with this path in the target.
    pub(super) fn failure(self, context: &Context<'_>, shown: &Path) -> Failure {
        let hint = match self {
            Wrong::Snapshot => {
                "the snapshot's content does not match the hash in its manifest; nothing was put in place"
            }
            Wrong::Target => "the disk returned other data than was written; nothing was put in place",
            Wrong::Unreadable(errno) => return context.failure_at(shown, "read back", errno),
        };
        Failure::Entry(Error::new(ErrorKind::Damage, "restore").at(shown).hint(hint))
    }
}

/// Whether a file with the right size and modification time may still have other content. If it is the same inode that
/// the snapshot recorded, its change time differs or is too young to decide. If it is another inode, it is in the very
/// directory of the snapshot (`in_origin`): another file was given its name.
fn is_in_doubt(status: &Status, meta: &Meta, created: Time, clock: Clock, in_origin: bool) -> bool {
    match is_recorded_inode(status, meta) {
        true => status.ctime != meta.ctime || may_have_changed_since(meta.ctime, created, clock),
        false => in_origin,
    }
}

/// Whether this is the inode that the snapshot was taken of, whatever happened to it since.
pub(super) fn is_recorded_inode(status: &Status, meta: &Meta) -> bool {
    // Device numbers change when devices are found in another order; a birth time stays, and no user can set it.
    status.ino == meta.ino
        && match (status.btime, meta.btime) {
            (Some(present), Some(recorded)) => present == recorded,
            _ => status.dev == meta.dev,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let time = |seconds, nanos| Time { seconds, nanos };
        Status {
            mode: 0o100_644,
            size: 1,
            atime: time(1, 0),
            mtime: time(1, 0),
            ctime: time(50, 1),
            btime: Some(time(1, 1)),
            dev: 7,
            ino: 8,
            nlink: 1,
            ..Status::default()
        }
    }

    #[test]
    fn whole_seconds_are_compared_as_such() {
        let time = |seconds, nanos| Time { seconds, nanos };
        let with = |mtime, ctime| Status { mtime, ctime, ..status() };
        assert!(with(time(5, 7), time(9, 9)).has_mtime(time(5, 7)));
        assert!(!with(time(5, 0), time(9, 9)).has_mtime(time(5, 7)), "a fine stamp that happens to be whole");
        assert!(with(time(5, 0), time(9, 0)).has_mtime(time(5, 7)));
        assert!(!with(time(5, 0), time(8, 0)).has_mtime(time(6, 7)));
    }

    #[test]
    fn only_the_source_inode_with_another_change_time_is_in_doubt() {
        let time = |seconds, nanos| Time { seconds, nanos };
        let status = status();
        let meta = Meta::of(&status, false);
        let doubt = |status: &Status| is_in_doubt(status, &meta, time(100, 0), Clock::Local, false);
        assert!(!doubt(&status));
        assert!(doubt(&Status { ctime: time(50, 2), ..status }));
        assert!(doubt(&Status { ctime: time(50, 2), dev: 9, ..status }), "devices can be renumbered");
        assert!(!doubt(&Status { ctime: time(50, 2), btime: Some(time(2, 2)), ..status }), "another file");
        let other = Status { ctime: time(50, 2), ino: 9, ..status };
        assert!(!doubt(&other));
        assert!(is_in_doubt(&other, &meta, time(100, 0), Clock::Local, true), "another file got its name");
        // Written to in the same tick, or in the same second if only seconds are stored.
        let young = Status { ctime: time(101, 0), ..status };
        let doubt = |created| is_in_doubt(&young, &Meta::of(&young, false), created, Clock::Local, true);
        assert!(doubt(time(101, 0)) && doubt(time(101, 5)) && !doubt(time(102, 0)));
    }
}
