//! One entry: decides what to do, then does it or, in a dry run, predicts it.

use super::context::Context;
use super::options::Overwrite;
use super::origin::Origin;
use super::outcome::{Outcome, blocked, count};
use super::place::Place;
use super::{decide, delete, make, xattrs};
use crate::fs::metadata;
use crate::snapshot::manifest::Entry;
use crate::tree::writer::{self, Attempt, Decision, Failure};
use rustix::io::Errno;
use std::os::fd::AsFd as _;

/// Restores one entry, unless it is a further name of an inode that was restored before.
///
/// If somebody else made it meanwhile, or changed its metadata, the decision is repeated: another run may be restoring
/// it at the same time. Then a file with other content is kept.
pub(super) fn restore(context: &Context<'_>, place: &Place, entry: &Entry) -> Attempt<Outcome> {
    writer::retry(once(context, place, entry, false), |_| once(context, place, entry, true))
}

/// Like [`restore`], for an entry that somebody else made meanwhile.
pub(super) fn restore_existing(context: &Context<'_>, place: &Place, entry: &Entry) -> Attempt<Outcome> {
    writer::retry(once(context, place, entry, true), |_| once(context, place, entry, true))
}

/// `came_meanwhile`: an existing entry was not there when the entry was first looked at, so it is not replaced.
fn once(context: &Context<'_>, place: &Place, entry: &Entry, came_meanwhile: bool) -> Attempt<Outcome> {
    let fail = |action: &str, errno| place.failure(context, &entry.name, action, errno);
    let mut origin = Origin::new(place, entry);
    let existing = place.slot(context, &entry.name).look()?;
    let mut stats = count(entry);
    let overwrite = match context.options.overwrite {
        Overwrite::Never => Overwrite::Never,
        _ if came_meanwhile => Overwrite::IfDifferent,
        asked => asked,
    };
    let decision = decide::decide(context, place, entry, (existing.as_ref(), overwrite), &mut origin, &mut stats)
        .map_err(|errno| fail("compare with the snapshot", errno))?;
    let replaces = matches!(decision, Decision::Replace(_) | Decision::Clear);
    if came_meanwhile && replaces {
        return Err(Failure::Entry(fail("put in place", Errno::EXIST).into_error()));
    }
    let is_there = match decision {
        Decision::Blocked => return Err(blocked(context, place, entry)),
        Decision::Leave | Decision::Keep | Decision::Metadata => true,
        Decision::Make | Decision::Replace(_) | Decision::Clear => false,
    };
    stats.unchanged_files = u64::from(is_there && entry.file().is_some());
    let inode = existing.as_ref().filter(|_| is_there).map(|status| (status.dev, status.ino));
    let mut outcome = Outcome { stats, change: decision.change(), inode, is_waiting: false };
    let is_unlisted = has_unlisted_xattrs(place, entry, decision);
    match context.options.dry_run {
        true => foresee(context, place, entry, decision)?,
        false => match make::carry_out(context, place, entry, decision, existing.as_ref(), &mut origin, &mut outcome) {
            Err(Failure::Meanwhile(error)) if replaces => return Err(Failure::Entry(error)),
            carried_out => carried_out?,
        },
    }
    outcome.stats.errors += xattrs::report(context, place, entry, decision, is_unlisted, &mut origin);
    Ok(outcome)
}

/// In a dry run: counts the changes to an entry.
///
/// # Errors
/// The errors of a real run, as far as they can be predicted.
pub(super) fn foresee(context: &Context<'_>, place: &Place, entry: &Entry, decision: Decision) -> Attempt<()> {
    match (decision, &place.dir.fd) {
        (Decision::Replace(_), _) if place.has_mount_at(&context.mounts, &entry.name) => {
            return Err(place.failure(context, &entry.name, "put in place", Errno::BUSY));
        }
        (Decision::Clear, Some(target)) => {
            delete::tree(context, place, target.as_fd(), &entry.name)?;
        }
        _ => {}
    }
    decision.change().inspect(|change| context.done.count(*change));
    Ok(())
}

/// Whether the existing entry has extended attributes that cannot be listed, if the decision concerns them.
fn has_unlisted_xattrs(place: &Place, entry: &Entry, decision: Decision) -> bool {
    let is_asked = matches!(decision, Decision::Metadata | Decision::Keep | Decision::Replace(_));
    let target = place.dir.fd.as_ref().filter(|_| is_asked);
    target.is_some_and(|target| metadata::has_unlisted_xattrs_at(target, &entry.name))
}
