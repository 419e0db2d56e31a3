//! Hard links: the names of one inode of the sources become names of one inode of the destination, whichever source
//! they are in. The table of inodes, the link itself and the seal are in `tree::writer`.
//!
//! Unlike a restore, a copy joins names on all threads, and does not know them in advance. So a name that replaces
//! another file waits for the same sync as the data of the first name, and two runs agree on the inode with the lower
//! number. If no link can be made, only that name becomes a separate file.

use super::context::Context;
use super::job::Job;
use super::look::look;
use super::pair::{Pair, Placed, Seen};
use super::stats::Stats;
use super::{alone, count, pending};
use crate::error::Error;
use crate::fs::openat;
use crate::tree::inode_map::Identity;
use crate::tree::writer::{
    self, Attempt, Decision, Failure, First, Linked, Replacing, Rights, Seal, Target as _, Version,
};
use rustix::io::Errno;
use std::os::fd::AsFd as _;

/// The result of linking another name.
enum Joined {
    /// The name now refers to the inode.
    Linked,
    /// No link can be created.
    Impossible,
    /// The inode was there already, and does not have the content of the source.
    Different,
}

/// Copies a name of an inode that has several.
pub(super) fn copy(pair: &Pair<'_>, seen: &Seen<'_>, part: &mut Stats) -> Attempt<()> {
    let context = pair.context;
    let inode = Identity::of(&seen.status);
    let lost = |errno| pair.wrong(seen.name, "remember the names of", errno);
    let Some(mut known) = context.links.claim(&inode).map_err(lost)? else { return first(pair, &inode, seen, part) };
    let joined = match is_as_trusted(pair, seen, &inode, &mut known) {
        Ok(true) => writer::retry(join(pair, seen, &known), |error| join_beside(pair, seen, &inode, &known, error)),
        Ok(false) => Ok(Joined::Different),
        Err(failure) => Err(failure),
    };
    let result = match joined {
        Ok(Joined::Linked) => {
            let is_there = seen.existing.is_some_and(|there| Some((there.dev, there.ino)) == known.inode);
            count::further_name(context, &seen.status, is_there, part);
            Ok(())
        }
        // The entry becomes a separate file.
        Ok(Joined::Impossible) => {
            context.not_kept.hard_link(|| pair.shown(seen.name));
            alone::copy(pair, seen, part).map(|_| ())
        }
        // The other names join this one.
        Ok(Joined::Different) => {
            let error = Error::failed("keep").at(context.shown(&known.path()));
            let hint = "it has the size and the time of its source, but other content; remove it and copy again";
            context.problem(&error.hint(hint), part);
            alone::copy(pair, seen, part).and_then(|placed| {
                context
                    .links
                    .replace(&inode, First { missing: known.missing, ..first_name(pair, seen, placed) })
                    .map_err(lost)
            })
        }
        Err(failure) => Err(failure),
    };
    if let Some(last) = context.links.came(&inode).map_err(lost)? {
        seal_after_sync(context, last);
    }
    result
}

/// Copies the first name of an inode.
fn first(pair: &Pair<'_>, inode: &Identity, seen: &Seen<'_>, part: &mut Stats) -> Attempt<()> {
    let context = pair.context;
    let lost = |errno| pair.wrong(seen.name, "remember the names of", errno);
    match alone::copy(pair, seen, part) {
        Ok(placed) => context.links.settle(inode, Some(&first_name(pair, seen, placed))).map_err(lost),
        Err(failure) => {
            context.links.settle(inode, None).map_err(lost)?;
            Err(failure)
        }
    }
}

/// The name that an entry just got, as the first of its inode.
fn first_name(pair: &Pair<'_>, seen: &Seen<'_>, Placed { seal, waiting }: Placed) -> First {
    let is_there = matches!(seen.decision, Decision::Leave | Decision::Metadata);
    let made = match seen.decision {
        _ if waiting.is_some() => waiting.as_ref().map(|waiting| waiting.inode),
        _ if is_there => seen.existing.map(|there| (there.dev, there.ino)),
        _ if !pair.context.options.dry_run => pair.inode_there(seen.name),
        _ => None,
    };
    First {
        directory: pair.place().path.clone(),
        name: pair.target_name(seen.name).to_vec(),
        inode: made,
        missing: seen.status.nlink.saturating_sub(1),
        waiting,
        seal: seal.map(Seal::of),
        is_trusted: is_there && seen.is_file() && seen.status.size > 0,
    }
}

/// Whether an inode that was there already has the content of this entry's source, and not only its size and time.
/// This is compared once, and only if the entry does not have that inode yet.
fn is_as_trusted(pair: &Pair<'_>, seen: &Seen<'_>, inode: &Identity, first: &mut First) -> Attempt<bool> {
    let there = seen.existing.map(|there| (there.dev, there.ino));
    if !first.is_trusted || there == first.inode {
        return Ok(true);
    }
    let compare = || {
        let source = openat::open_file(pair.directory.fd.as_fd(), seen.name)?;
        let copy = first.open(pair.context.reopener()?.open_any(&first.directory)?)?;
        writer::has_same_content(source.as_fd(), copy.as_fd(), seen.status.size, pair.context.monitor)
    };
    match compare() {
        Ok(true) => {
            first.is_trusted = false;
            let lost = |errno| pair.wrong(seen.name, "remember the names of", errno);
            pair.context.links.replace(inode, first.clone()).map_err(lost)?;
            Ok(true)
        }
        Err(Errno::CANCELED) => Err(Failure::Fatal(Error::interrupted())),
        // If it cannot be read, nothing is known of its content.
        Ok(false) | Err(_) => Ok(false),
    }
}

/// Makes the entry another name of an inode of the destination.
fn join(pair: &Pair<'_>, seen: &Seen<'_>, first: &First) -> Attempt<Joined> {
    let wrong = |errno| pair.wrong(seen.name, "link", errno);
    let there = seen.existing.map(|there| (there.dev, there.ino));
    if pair.context.options.dry_run || (there.is_some() && there == first.inode) {
        return Ok(Joined::Linked);
    }
    let slot = pair.slot(seen.name);
    let linked = match pair.context.reopener().and_then(|reopener| reopener.open_any(&first.directory)) {
        Ok(from) => slot.link(first, from, &Rights::of(&seen.status))?,
        Err(errno) => Linked::Refused(errno),
    };
    let temporary = match linked {
        Linked::Made(temporary) => temporary,
        // The inode has the most names that the filesystem allows, is on another filesystem or on one without links,
        // belongs to somebody else, or no longer exists.
        Linked::Another
        | Linked::Refused(Errno::MLINK | Errno::XDEV | Errno::PERM | Errno::OPNOTSUPP | Errno::NOENT) => {
            return Ok(Joined::Impossible);
        }
        Linked::Refused(errno) => return Err(wrong(errno)),
    };
    // The existing entry is another inode, whether it looks the same or not.
    let (place, name) = (pair.place(), pair.target_name(seen.name));
    match (&place.dir.fd, seen.existing.as_ref().map(Version::of)) {
        (Some(target), Some(version)) if first.waiting.is_some() => {
            place.dir.wait_for_sync();
            let replacing = Replacing::new(temporary, target, name, version);
            pending::add(pair.context, Job::Name { replacing, path: place.join(name) });
        }
        (_, version) => temporary.put(name, version.as_ref()).map_err(wrong)?,
    }
    Ok(Joined::Linked)
}

/// Joins the entry to an inode although another run created the entry meanwhile. If that is impossible, `error` is the
/// result.
///
/// Both runs may have started with different names of one inode. Then the inode with the lower number gets all names,
/// in both runs: one run replaces the names of the other, and the other run adopts the inode.
fn join_beside(pair: &Pair<'_>, seen: &Seen<'_>, inode: &Identity, first: &First, error: Error) -> Attempt<Joined> {
    let there = pair.inode_there(seen.name);
    if there.is_some() && there == first.inode {
        return Ok(Joined::Linked);
    }
    let Some(now) = look(pair, seen.name, true)? else { return Ok(Joined::Linked) };
    if matches!(now.decision, Decision::Replace(_) | Decision::Blocked) {
        return Err(Failure::Entry(error));
    }
    if there.is_some() && there < first.inode {
        let (directory, name) = (pair.place().path.clone(), pair.target_name(seen.name).to_vec());
        let adopted = First { directory, name, inode: there, waiting: None, is_trusted: true, ..first.clone() };
        let lost = |errno| pair.wrong(seen.name, "remember the names of", errno);
        pair.context.links.replace(inode, adopted).map_err(lost)?;
        return Ok(Joined::Linked);
    }
    join(pair, &now, first)
}

/// Seals an inode that has all its names, after all other jobs that wait.
fn seal_after_sync(context: &Context<'_>, first: First) {
    match first.waiting {
        Some(_) if first.seal.is_some() => pending::add(context, Job::Seal(first)),
        _ => pending::seal(context, &first),
    }
}

/// Seals the inodes that have further names outside the sources.
pub(super) fn seal_all(context: &Context<'_>) {
    if let Err(errno) = context.links.drain(|first| seal_after_sync(context, first)) {
        context.report(&Error::failed("give inodes with several names their flags").because(errno));
    }
}
