//! Copies the metadata of a source to its entry in the destination. Directories are in `leaving`.

use super::file;
use super::outcome;
use super::pair::{Pair, Seen};
use crate::fs::metadata::{self, Attributes, FileAttr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::tree::writer::{self, Attempt, Version, pin};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Copies the metadata of a source to an existing entry. Returns the seal that its inode gets once it has all its
/// names.
pub(super) fn set(pair: &Pair<'_>, seen: &Seen<'_>) -> Attempt<Option<FileAttr>> {
    let wrong = |errno| pair.wrong(seen.name, "set the metadata of", errno);
    if !seen.is_file() {
        return set_of_node(pair, seen).map(|()| None);
    }
    let Some(source) = file::open(pair, seen.name)? else { return Ok(None) };
    let file = match openat::open_file(pair.above()?, pair.target_name(seen.name)) {
        Ok(file) => file,
        // Nobody may read it, not even its owner. It gets everything except its flags.
        Err(Errno::ACCESS) => return set_of_node(pair, seen).map(|()| None),
        Err(errno) => return Err(wrong(errno)),
    };
    if !Status::of(&file).is_ok_and(|status| is_as_seen(seen, &status)) {
        return Err(wrong(Errno::STALE));
    }
    let kept = &source.kept;
    let (attributes, is_foreign) = pair.context.creator.within_rights(kept.attributes());
    let given = writer::give(&pair.context.creator, &file, &attributes, kept.unread.is_none()).map_err(wrong)?;
    report(pair, seen, kept.unread, given.has_unlisted);
    let mut refused = given.refused;
    let later = seen.status.nlink > 1;
    if !later {
        refused.fileattr.add(kept.fileattr.seal(&file));
    }
    pair.context.not_kept.refused(&refused, is_foreign, || pair.shown(seen.name));
    Ok(later.then_some(kept.fileattr))
}

/// Copies the metadata of a source to an existing link or special node, or to a file that cannot be opened.
fn set_of_node(pair: &Pair<'_>, seen: &Seen<'_>) -> Attempt<()> {
    let pinned = pin(pair.above()?, pair.target_name(seen.name), |status| is_as_seen(seen, status))
        .map_err(|errno| pair.wrong(seen.name, "set the metadata of", errno))?;
    give_to_node(pair, seen, &pinned, true)
}

fn is_as_seen(seen: &Seen<'_>, status: &Status) -> bool {
    seen.existing.is_some_and(|there| Version::of(&there).is(status))
}

/// Copies the metadata of a source to an inode that must not be opened. `has_others`: it may have other attributes.
pub(super) fn give_to_node(pair: &Pair<'_>, seen: &Seen<'_>, node: &OwnedFd, has_others: bool) -> Attempt<()> {
    let wrong = |errno| pair.wrong(seen.name, "set the metadata of", errno);
    let (xattrs, unread) = metadata::readable_xattrs_at(&pair.directory.fd, seen.name);
    let (attributes, is_foreign) = pair.context.creator.within_rights(Attributes::of(&seen.status, &xattrs));
    let removes_others = has_others && unread.is_none();
    let given = writer::give_to_node(&pair.context.creator, node, &attributes, removes_others).map_err(wrong)?;
    report(pair, seen, unread, given.has_unlisted);
    pair.context.not_kept.refused(&given.refused, is_foreign, || pair.shown(seen.name));
    Ok(())
}

/// Reports which attributes were not compared, or not copied.
fn report(pair: &Pair<'_>, seen: &Seen<'_>, unread: Option<Errno>, has_unlisted: bool) {
    if has_unlisted {
        outcome::report_unlisted(pair.context, &pair.target_path(seen.name));
    }
    outcome::report_unread_of(pair.context, pair.directory, seen.name, unread);
}
