//! The content of one path in all snapshots. Files on the same blocks are one file here: the same inode, the same
//! layout, or content that another path has and that was read already. The rest goes to `reading`, at once if it is
//! small.

use super::claim::{self, Claim};
use super::context::Context;
use super::progress::Ticket;
use super::queue::Queue;
use super::reading::Reading;
use super::results::{Answer, Place, Results};
use crate::content::hash;
use crate::error::{Error, Result};
use crate::extents::streamed;
use crate::fs::open_files;
use crate::fs::status::Status;
use crate::monitor::Amount;
use crate::tree::walk::absolute;
use crate::util::mutex::lock;
use crate::util::parallel;
use std::os::fd::{AsFd as _, OwnedFd};

/// Files of at least this size, in bytes, are added to the queue. Small ones need many requests at once.
const MEDIUM: u64 = 1 << 20;
/// A file up to this size, in bytes, is hashed even if its holes are out of proportion to its data.
const BEARABLE: u64 = 64 << 30;

/// A file that is open.
struct Opened {
    claim: Claim,
    file: OwnedFd,
    status: Status,
}

/// Checks the content of these files of one path.
///
/// # Errors
/// If the run should stop.
pub(super) fn check(context: &Context<'_>, queue: &Queue, ticket: Ticket, claims: Vec<Claim>) -> Result<()> {
    let most = open_files::part(64, 8..=256);
    let mut claims = claims.into_iter();
    loop {
        let opened: Vec<_> = claims.by_ref().filter_map(|claim| open(context, claim)).take(most).collect();
        if opened.is_empty() {
            return Ok(());
        }
        let mut files = Reading::default();
        for (opened, place) in located(context, opened) {
            if let Some((place, claim)) = add(context, &mut files, opened, place, Results::ask) {
                lock(&ticket.progress().later).push((place, claim));
            }
        }
        if files.largest() < MEDIUM {
            files.read(context)?;
        } else {
            queue.add_read(files, Ticket::of(ticket.progress()));
        }
    }
}

/// Checks files with data that another thread was reading. The caller has nothing in progress.
///
/// # Errors
/// If the run should stop.
pub(super) fn settle(context: &Context<'_>, claims: Vec<(Place, Claim)>, threads: usize) -> Result<()> {
    let mut rest = Vec::new();
    for (place, claim) in claims {
        match context.results.wait(&place) {
            Answer::Read(digest) if claim.is_met_by(digest) => {
                claim::settled(context, &claim, digest);
                continue;
            }
            Answer::Read(_) => {}
            // The other thread has given up, or its result is forgotten.
            _ => context.results.give_up(&place),
        }
        rest.push(claim);
    }
    let check = |claim| {
        let mut files = Reading::default();
        for (opened, place) in located(context, open(context, claim).into_iter().collect()) {
            add(context, &mut files, opened, place, Results::wait);
        }
        files.read(context)
    };
    parallel::each(threads, rest, check).into_iter().collect()
}

/// Opens a file. A file that cannot be opened is reported.
fn open(context: &Context<'_>, claim: Claim) -> Option<Opened> {
    let open = || {
        let file = claim.member().open()?;
        let status = Status::of(&file)?;
        // A file may have a hash because its blocks were allocated, although they were never written.
        let is_hashed = status.size <= BEARABLE || claim.had_data() || hash::is_hashed(&file, &status)?;
        Ok((file, status, is_hashed))
    };
    match open() {
        // Hashing it could take years, and nothing shows that it is damaged.
        Ok((_, _, false)) => {
            context.monitor.advance(Amount { files: 0, bytes: claim.size });
            let error = Error::failed("check the content of").at(absolute(claim.path()));
            let number = claim.member().snapshot;
            let snapshot = &context.snapshots[number].name;
            context.problem(&error.hint(format!("its holes in the snapshot {snapshot} are too large")));
            claim.fault.inspect(|fault| context.damage(number, claim.path(), None, *fault));
            None
        }
        Ok((file, status, true)) => Some(Opened { claim, file, status }),
        Err(errno) => {
            context.monitor.advance(Amount { files: 0, bytes: claim.size });
            claim::failed(context, &claim, "open", errno);
            None
        }
    }
}

/// Finds the data of files.
fn located(context: &Context<'_>, files: Vec<Opened>) -> Vec<(Opened, Place)> {
    let locate =
        |files: Vec<Opened>| -> Vec<_> { files.into_iter().map(|file| (locate(context, &file), file)).collect() };
    let is_small = files.iter().all(|opened| opened.status.size < MEDIUM);
    let places = if is_small { context.maps.with(|| locate(files)) } else { locate(files) };
    places.into_iter().map(|(place, file)| (file, place)).collect()
}

fn locate(context: &Context<'_>, opened: &Opened) -> Place {
    let Opened { claim, file, status } = opened;
    // Without FIEMAP, or without addresses, only the inode is known.
    let space = context.snapshots[claim.member().snapshot].space.of_file(file, status).ok().flatten();
    let layout = space.and_then(|space| streamed::layout(file.as_fd(), space.id()).ok().flatten());
    Place::new(status, space, layout, claim.hash)
}

/// Adds a file to those with the same data, or reports it if its data was read already. `ask` finds that out. Returns
/// the file if another thread is reading its data.
fn add(
    context: &Context<'_>,
    files: &mut Reading,
    opened: Opened,
    place: Place,
    ask: impl FnOnce(&Results, &Place) -> Answer,
) -> Option<(Place, Claim)> {
    let Opened { claim, file, .. } = opened;
    let claim = files.add(&place, claim).err()?;
    match ask(context.results, &place) {
        Answer::Read(digest) if claim.is_met_by(digest) => claim::settled(context, &claim, digest),
        Answer::InProgress => return Some((place, claim)),
        // Other data may have been at this address when it was read: only the file itself proves damage.
        Answer::Read(_) | Answer::Yours => files.begin(place, file, claim),
    }
    None
}
