//! Gives a directory its metadata, when everything in it is made and in its place.

use super::context::Context;
use super::job::Leaving;
use super::outcome;
use crate::fs::metadata::{self, Attributes, FileAttr, Others};
use crate::tree::writer::{Attempt, Target as _};

/// Gives a directory its metadata.
pub(super) fn give(context: &Context<'_>, leaving: &Leaving) -> Attempt<()> {
    let Leaving { target, status, xattrs, wanted, keeps_others, path } = leaving;
    let give = || {
        if !keeps_others && metadata::remove_other_xattrs(target, xattrs)? == Others::Unlisted {
            outcome::report_unlisted(context, path);
        }
        // The project comes with the seals.
        let attributes = Attributes::of(status, xattrs).with(FileAttr { project: None, ..*wanted });
        let (attributes, is_foreign) = context.creator.within_rights(attributes);
        let mut refused = context.creator.apply(target, &attributes)?;
        refused.fileattr.add(wanted.seal(target));
        Ok((refused, is_foreign))
    };
    let (refused, is_foreign) = give().or_else(|errno| context.failed(path, "set the metadata of", errno))?;
    context.not_kept.refused(&refused, is_foreign, || context.shown(path));
    Ok(())
}
