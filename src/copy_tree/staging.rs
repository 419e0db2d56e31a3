//! Decides which new directories have a temporary name until their small files are copied, and gives them their own
//! names: see [`StagedDir`](crate::tree::writer::StagedDir).
//!
//! These are directories that do not exist yet, without subdirectories and with few entries. So one thread enters such
//! a directory, copies its files and leaves it, and nobody else opens anything in it meanwhile. A killed run loses only
//! the files of the directories that its threads were filling. When the directory has its own name, files with several
//! names follow, because other threads may link to them, and large files, because they take long.

use super::context::Context;
use super::job::{Job, Publishing};
use super::pair::{Pair, Seen};
use super::place::{Listed, Place, Staged};
use super::{outcome, pending, publishing};
use crate::fs::filesystem::Kind;
use crate::fs::openat;
use crate::tree::walk::{Directory, Names};
use crate::tree::writer::{Attempt, Target as _, Wanted};
use crate::util::path::split;
use rustix::io::Errno;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// With fewer entries, the additional rename takes longer than what it saves.
const FEW: usize = 8;

/// The most data that is copied to a directory before it gets its name, because a killed run loses it.
const MOST: u64 = 32 << 20;

/// How a staged directory got its name.
pub(super) enum Published {
    /// It has its name now.
    AsMade,
    /// Another run created a directory with that name, which [`Place::current`] returns from now on. The staged files
    /// were deleted.
    Elsewhere,
}

/// Whether a new directory in this directory of the destination may be staged. It must inherit nothing, because flags
/// of the directory can forbid the rename. On other filesystems it was not measured, and may not pay.
pub(super) fn is_possible(context: &Context<'_>, above: &Place) -> bool {
    let dir = &above.dir;
    !context.options.dry_run
        && dir.fd.is_some()
        && !dir.inherited.inherits
        && matches!(dir.device.kind, Some(Kind::Xfs | Kind::Btrfs))
}

/// The names in a source directory.
pub(super) fn list<P>(directory: &Directory<P>) -> Listed {
    Names::list(&directory.fd, |_, _| true)
}

/// Whether staging pays for a directory with these names.
pub(super) fn pays((names, _): &Listed) -> bool {
    names.directories() == 0 && names.batches() == 1 && names.entries() >= FEW
}

/// Whether it pays to copy these small files while their directory is staged.
pub(super) fn pays_for(small: &[Seen<'_>]) -> bool {
    small.iter().map(|seen| seen.status.size).sum::<u64>() <= MOST
}

/// Gives the copy of a directory its own name. If it must wait for a sync, the name follows after that, and here it
/// counts as given.
pub(super) fn publish(pair: &Pair<'_>) -> Attempt<Published> {
    let (context, place) = (pair.context, pair.place());
    let Some(staged) = place.unstage() else { return Ok(Published::AsMade) };
    let Staged { mut dir, is_named, above: mark, .. } = staged;
    if let Some(fd) = place.dir.fd.as_ref().filter(|_| place.must_wait()) {
        mark.store(true, Ordering::Relaxed);
        let (instead, seals) = (place.waits_for_name(), place.take_seals());
        let (fd, path, source) = (Arc::clone(fd), place.path.clone(), pair.directory.status);
        pending::add(context, Job::Publish(Publishing { dir, fd, path, source, seals, instead }));
        return Ok(Published::AsMade);
    }
    let (above, name) = split(&place.path);
    place.dir.is_named();
    match dir.put(name) {
        Ok(()) => {
            if let Some(fd) = &place.dir.fd {
                publishing::seal(context, fd.as_fd(), &place.path, &place.take_seals());
            }
            Ok(Published::AsMade)
        }
        Err(Errno::EXIST) => {
            drop(dir);
            place.take_seals();
            place.replace(found(pair, above, (name, is_named))?);
            Ok(Published::Elsewhere)
        }
        Err(errno) => context.failed(&place.path, "make the directory", errno),
    }
}

/// The directory that another run created meanwhile.
fn found(pair: &Pair<'_>, above: &[u8], (name, is_named): (&[u8], bool)) -> Attempt<Place> {
    let (context, directory) = (pair.context, pair.directory);
    let source = openat::open_subdir(&directory.fd, c"..");
    let source = source.map_err(|errno| outcome::source(&directory.path, "open the parent of", errno))?;
    let wanted = if is_named { Wanted::These(&context.plan.names) } else { Wanted::Of(source.as_fd()) };
    publishing::found(context, above, (name, wanted), &directory.status)
}
