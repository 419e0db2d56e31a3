//! Copies the metadata of a source to its entry in the destination, as far as this process has the right to set it.
//! Directories are in `leaving`, setting it is in `set_metadata` of `tree::writer`.

use super::file::{self, Kept};
use super::outcome;
use super::pair::{Pair, Seen};
use crate::fs::metadata::{self, FileAttr};
use crate::fs::status::Status;
use crate::tree::writer::{Attempt, Inode, Rights, Version};
use std::os::fd::AsFd as _;

/// Copies the metadata of a source to an existing entry with equal content. Returns the seal that its inode gets once
/// it has all its names.
///
/// # Errors
/// `Meanwhile` if the source changed after its content was compared: with its new time, the old content would look
/// like a good copy.
pub(super) fn set(pair: &Pair<'_>, seen: &Seen<'_>) -> Attempt<Option<FileAttr>> {
    let kept = match seen.is_file() {
        true => match file::open(pair, seen.name)? {
            Some(source) if source.kept.status.is_untouched_since(&seen.status) => {
                file::flush(pair.context, source.fd.as_fd(), &source.kept.status);
                source.kept
            }
            Some(_) => return Err(file::changed(pair, seen.name)),
            None => return Ok(None),
        },
        false => of_node(pair, seen),
    };
    // The number of names is not compared: another thread may be replacing a name of the same inode.
    let is_as_seen = |status: &_| seen.existing.is_some_and(|there| Version::of(&there).is(status));
    let opened = pair.slot(seen.name).open_existing(&Rights::of(&seen.status), is_as_seen);
    let inode = opened.map_err(|errno| pair.wrong(seen.name, "set the metadata of", errno))?;
    give(pair, seen, &inode, &kept, (seen.existing.as_ref(), true))?;
    Ok((seen.status.nlink > 1 && inode.is_file()).then_some(kept.fileattr))
}

/// The metadata of a source that is a link or special node.
pub(super) fn of_node(pair: &Pair<'_>, seen: &Seen<'_>) -> Kept {
    let (xattrs, unread) = metadata::readable_xattrs_at(&pair.directory.fd, seen.name);
    Kept { status: seen.status, xattrs, fileattr: FileAttr::default(), unread }
}

/// Copies the metadata of a source to an inode. `present`: the status of an existing inode. `has_others`: it may have
/// other attributes.
pub(super) fn give(
    pair: &Pair<'_>,
    seen: &Seen<'_>,
    inode: &Inode,
    kept: &Kept,
    (present, has_others): (Option<&Status>, bool),
) -> Attempt<()> {
    let context = pair.context;
    let (attributes, is_foreign) = context.creator.within_rights(kept.attributes());
    let removes_others = has_others && kept.unread.is_none();
    let narrow = || present.map_or(Ok(()), |present| inode.narrow(&context.creator, present, &attributes));
    let given = narrow()
        .and_then(|()| inode.give(&context.creator, &attributes, removes_others, seen.status.nlink < 2))
        .map_err(|errno| pair.wrong(seen.name, "set the metadata of", errno))?;
    if given.has_unlisted {
        outcome::report_unlisted(context, &pair.target_path(seen.name));
    }
    outcome::report_unread_of(context, pair.directory, seen.name, kept.unread);
    context.not_kept.refused(&given.refused, is_foreign, || pair.shown(seen.name));
    Ok(())
}
