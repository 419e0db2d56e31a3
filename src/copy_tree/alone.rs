//! Copies one entry as if it had no other names, and retries if somebody else interferes.

use super::context::Context;
use super::look::look;
use super::pair::{Pair, Placed, Seen};
use super::stats::Stats;
use super::{count, file, metadata, node};
use crate::error::Error;
use crate::tree::walk::absolute;
use crate::tree::writer::{self, Attempt, Decision, Failure, Version};
use rustix::fs::FileType;
use rustix::io::Errno;

/// Copies an entry according to its decision.
pub(super) fn copy(pair: &Pair<'_>, seen: &Seen<'_>, part: &mut Stats) -> Attempt<Placed> {
    let copied = once(pair, seen, part);
    or_again(pair, copied, seen, part)
}

/// Copies a regular file, again if it changes meanwhile. `first`: the source, if it is already open.
pub(super) fn file(pair: &Pair<'_>, seen: &Seen<'_>, first: Option<file::Source>, part: &mut Stats) -> Attempt<Placed> {
    let copied = file::copy(pair, seen, first, part);
    or_again(pair, copied, seen, part)
}

/// Decides again if the source changed meanwhile, or somebody else created the entry or changed its metadata: another
/// run may be copying it. An entry that somebody else changed and that has different content is kept.
fn or_again(pair: &Pair<'_>, copied: Attempt<Placed>, seen: &Seen<'_>, part: &mut Stats) -> Attempt<Placed> {
    if seen.replaces().is_some() {
        return copied;
    }
    writer::retry(copied, |error| {
        let before = seen.existing.as_ref().map(Version::of);
        let Some(seen) = look(pair, seen.name, true)? else { return Ok(Placed::default()) };
        let is_as_before = seen.existing.as_ref().zip(before).is_some_and(|(now, before)| before.is(now));
        if matches!(seen.decision, Decision::Replace(_) | Decision::Blocked) && !is_as_before {
            return Err(Failure::Entry(error));
        }
        once(pair, &seen, part)
    })
}

fn once(pair: &Pair<'_>, seen: &Seen<'_>, part: &mut Stats) -> Attempt<Placed> {
    if seen.decision == Decision::Blocked {
        return Err(blocked(pair, seen));
    }
    if seen.status.file_type() == FileType::Directory {
        let error = Error::failed("copy").at(absolute(&pair.directory.join(seen.name)));
        let hint = "it became a directory while its parent was read; run again";
        return Err(Failure::Entry(error.hint(hint)));
    }
    let context: &Context<'_> = pair.context;
    if context.options.dry_run || seen.decision == Decision::Leave {
        let is_there = matches!(seen.decision, Decision::Leave | Decision::Metadata);
        count::entry(context, &seen.status, is_there, part);
        return Ok(Placed::default());
    }
    match (seen.decision, seen.is_file()) {
        (Decision::Metadata, _) => {
            let seal = metadata::set(pair, seen)?;
            count::entry(context, &seen.status, true, part);
            Ok(Placed { seal, waiting: None })
        }
        (_, true) => file::copy(pair, seen, None, part),
        (_, false) => {
            node::make(pair, seen)?;
            count::entry(context, &seen.status, false, part);
            Ok(Placed::default())
        }
    }
}

/// The failure of an entry with a directory in its place.
pub(super) fn blocked(pair: &Pair<'_>, seen: &Seen<'_>) -> Failure {
    let error = Error::io("copy over", pair.shown(seen.name), Errno::ISDIR);
    Failure::Entry(error.hint("a directory is in its place; remove it, or copy to another place"))
}
