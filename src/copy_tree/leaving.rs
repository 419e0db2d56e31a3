//! Sets the metadata of a directory when everything in it was created and is in its place.

use super::context::Context;
use super::job::Leaving;
use super::outcome;
use crate::fs::metadata::Attributes;
use crate::tree::writer::{self, Attempt, Target as _};

/// Sets the metadata of a directory.
pub(super) fn give(context: &Context<'_>, leaving: &Leaving) -> Attempt<()> {
    let Leaving { target, instead, status, xattrs, wanted, is_new, has_unread, path } = leaving;
    let instead = instead.as_ref().and_then(|instead| instead.get());
    let keeps_others = *has_unread || (*is_new && instead.is_none());
    let target = instead.unwrap_or(target);
    let (attributes, is_foreign) = context.creator.within_rights(Attributes::of(status, xattrs).with(*wanted));
    let given = writer::give_and_seal(&context.creator, target, &attributes, !keeps_others)
        .or_else(|errno| context.failed(path, "set the metadata of", errno))?;
    if given.has_unlisted {
        outcome::report_unlisted(context, path);
    }
    context.not_kept.refused(&given.refused, is_foreign, || context.shown(path));
    Ok(())
}
