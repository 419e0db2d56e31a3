//! Unchanged files become further names of the last snapshot's files (`--unchanged hardlink`). No inode is made for
//! them, and this also works on filesystems without reflinks.

use super::added_entry::AddedEntry;
use super::context::Context;
use super::options::Unchanged;
use super::previous::Previous;
use super::source_entry::SourceEntry;
use super::stats::Stats;
use super::target::Target;
use crate::content::copy;
use crate::error::Result;
use crate::fs::status::Status;
use crate::monitor::Amount;
use crate::snapshot::manifest::{self, Body, Entry, FileBody, Meta, Stored};
use rustix::fs::{AtFlags, FileType};

/// Whether this file will become a name of the last snapshot's file, if possible.
pub(super) fn is_to_link(context: &Context<'_>, found: &SourceEntry<'_>) -> bool {
    // The records of an earlier manifest version, and perhaps its tree, lack facts about an inode that this version
    // knows.
    let is_known = |previous: &Previous| previous.reader.version() == manifest::VERSION;
    context.options.unchanged == Unchanged::Hardlink
        && found.change.is_none()
        && found.old.is_some()
        && context.previous.is_some_and(is_known)
}

/// Gives the last snapshot's file a further name. `None` if that is not wanted or not possible: the file has as many
/// names as it may, lies in another subvolume, or does not match the manifest. Then it is cloned or copied.
///
/// # Errors
/// An error that every further file would meet.
pub(super) fn add(target: &Target<'_>, found: &SourceEntry<'_>) -> Result<Option<AddedEntry>> {
    let Some(old) = found.old.as_ref().filter(|_| is_to_link(target.context, found)) else { return Ok(None) };
    let (Some(old_file), Some(previous)) = (old.file(), target.previous_directory()) else { return Ok(None) };
    match rustix::fs::linkat(previous, found.name, target.above, found.name, AtFlags::empty()) {
        Ok(()) => {}
        Err(errno) if copy::is_fatal(errno) => return Err(target.cannot_make(found.name, errno)),
        Err(_) => return Ok(None),
    }
    // Nobody else knows the new name, so it leads to the file that was linked.
    if !Status::at(target.above, found.name).is_ok_and(|status| is_as_recorded(&status, old, old_file)) {
        target.withdraw(found.name)?;
        return Ok(None);
    }
    let stored = if old_file.stored == Stored::Inline { Stored::Inline } else { Stored::Cloned };
    let body = FileBody { stored, ..old_file.clone() };
    let cost = Stats::of_clone(&body);
    target.context.monitor.advance(Amount { files: 0, bytes: body.size });
    let (meta, body) = (Meta { dev: found.status.dev, ..old.meta.clone() }, Body::File(body));
    Ok(Some(AddedEntry { entry: Entry { name: found.name.to_vec(), meta, body }, cost }))
}

/// Whether a file of the last snapshot matches its record, as far as its status shows.
fn is_as_recorded(status: &Status, old: &Entry, file: &FileBody) -> bool {
    let meta = &old.meta;
    let is_owned = (status.uid, status.gid, status.mode) == (meta.uid, meta.gid, meta.mode);
    status.file_type() == FileType::RegularFile
        && status.size == file.size
        // Some filesystems store only whole seconds.
        && status.mtime.seconds == meta.mtime.seconds
        && (is_owned || meta.kept_here)
}
