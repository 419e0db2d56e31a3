//! Reports extended attributes that were not restored, kept or compared: the snapshot lacks them, or the existing entry
//! has more names than the kernel lists.

use super::context::Context;
use super::options::Overwrite;
use super::origin::Origin;
use super::place::Place;
use crate::error::Error;
use crate::snapshot::manifest::Entry;
use crate::snapshot::recorded::Recorded;
use crate::tree::writer::{Decision, Target as _};
use rustix::io::Errno;

/// Reports the faults of an entry's attributes after this decision (or, in a dry run, because of it), and counts them.
/// `is_unlisted`: the existing entry had more names than the kernel lists.
pub(super) fn report(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    decision: Decision,
    is_unlisted: bool,
    origin: &mut Origin<'_>,
) -> u64 {
    if decision == Decision::Leave && context.options.overwrite == Overwrite::Never {
        return 0;
    }
    let is_complete = !entry.meta.has_xattrs || origin.recorded().is_ok_and(|recorded| recorded.is_complete);
    let is_replaced = matches!(decision, Decision::Replace(_));
    let error = match (is_complete, is_unlisted) {
        _ if decision == Decision::Keep => {
            let hint = "it would have to be replaced, which would lose its extended attributes: \
                        their names exceed 64 KiB; it was kept";
            Error::failed("set the metadata of").hint(hint)
        }
        (true, false) => return 0,
        (true, true) if is_replaced => too_many("keep the extended attributes of").hint(
            "their names exceed 64 KiB; those of the replaced file are lost, the new file has those of the snapshot",
        ),
        (true, true) => unlisted(),
        (false, true) if is_replaced => lacking(context, "those of the replaced file are lost"),
        (false, _) if is_replaced || decision == Decision::Make => lacking(context, "the rest is restored"),
        (false, _) => lacking(context, "those that are there were kept"),
    };
    context.monitor.problem(&error.at(context.shown(&place.join(&entry.name))));
    1
}

/// The error for a directory's attributes. `is_unlisted`: it has more names than the kernel lists.
pub(super) fn of_directory(context: &Context<'_>, recorded: &Recorded, is_unlisted: bool) -> Option<Error> {
    match (recorded.is_complete, is_unlisted) {
        (false, _) => Some(lacking(context, "those that are there were kept")),
        (true, true) => Some(unlisted()),
        (true, false) => None,
    }
}

/// The error for attributes that the snapshot does not have.
fn lacking(context: &Context<'_>, rest: &str) -> Error {
    let why = match context.creator.is_root() {
        true => "the snapshot does not have them, because they could not be read",
        false => "the snapshot does not have them, or only root can read them",
    };
    Error::failed("restore all extended attributes of").hint(format!("{why}; {rest}"))
}

fn unlisted() -> Error {
    too_many("compare all extended attributes of")
        .hint("their names exceed 64 KiB; those that the snapshot does not have were kept")
}

fn too_many(action: &str) -> Error {
    Error::failed(action).because(Errno::TOOBIG)
}
