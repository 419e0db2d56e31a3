//! Entries that a staging tree already has because it began as a snapshot of the last tree. Unchanged entries are only
//! recorded. Changed ones are removed before they are added again, except for files that keep their inodes
//! (`reused_file`). `removal` removes entries that are gone.

use super::context::Context;
use super::failure::{cannot_make, is_no_name};
use super::link_map::Inherited;
use super::new_file::is_inline;
use super::reused_file;
use super::source_entry::SourceEntry;
use super::staged::Staged;
use super::staged_directory::StagedDirectory;
use super::stats::Stats;
use super::target::Target;
use crate::error::Result;
use crate::fs::openat;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::manifest::{Body, Entry, FileBody, Meta, Stored};
use crate::tree::deletion;
use crate::tree::inode_map::Identity;
use crate::tree::walk::{Directory, absolute};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// The record of an entry that the staging tree already has in the right state; `None` for all others.
pub(super) fn record(
    context: &Context<'_>,
    directory: &Directory<StagedDirectory>,
    found: &SourceEntry<'_>,
    part: &mut Stats,
) -> Result<Option<Entry>> {
    let Some(staged) = context.staged.as_ref().filter(|staged| staged.based) else { return Ok(None) };
    let Some(old) = found.old.as_ref().filter(|_| found.change.is_none()) else { return Ok(None) };
    let body = match &old.body {
        Body::File(file) => match file_body(context, staged, directory, found.name, file) {
            Some(file) => Body::File(file),
            None => return Ok(None),
        },
        body => body.clone(),
    };
    let meta = Meta { dev: found.status.dev, ..old.meta.clone() };
    let entry = Entry { name: found.name.to_vec(), meta, body };
    let is_first = match found.status.nlink {
        0 | 1 => true,
        _ => {
            let inherited = staged.links.inherit(&Identity::of(&found.status), &directory.path, &entry);
            match inherited.map_err(|errno| cannot_make(&directory.join(found.name), errno))? {
                Inherited::First => true,
                Inherited::Again => false,
                // Another name of the inode was added by itself. This name becomes a link to it.
                Inherited::Apart => return Ok(None),
            }
        }
    };
    if let Some(file) = entry.file().filter(|_| is_first) {
        part.add(&Stats::of_clone(file));
        context.monitor.advance(Amount { files: 0, bytes: file.size });
    }
    Ok(Some(entry))
}

/// The record that cloning the file once more would have made.
fn file_body(
    context: &Context<'_>,
    staged: &Staged,
    directory: &Directory<StagedDirectory>,
    name: &[u8],
    old: &FileBody,
) -> Option<FileBody> {
    let previous = context.previous?;
    let stored = match old.stored {
        Stored::Copied if (1..=staged.filesystem.block_size).contains(&old.size) => {
            let above = directory.place.previous(previous.tree.as_fd(), &directory.path)?;
            let file = openat::open_regular(above, name).ok()?;
            if is_inline(&file, old.size, staged) { Stored::Inline } else { Stored::Cloned }
        }
        Stored::Copied => Stored::Cloned,
        stored => stored,
    };
    Some(FileBody { stored, ..old.clone() })
}

/// Removes the last snapshot's entries of these names from the staging tree, if the tree began with them. Files that
/// keep their inodes stay.
pub(super) fn make_room(target: &Target<'_>, group: &[SourceEntry<'_>]) -> Result<()> {
    if !target.staged.based {
        return Ok(());
    }
    let is_in_the_way = |found: &&SourceEntry<'_>| {
        found.status.file_type() != FileType::Directory && !reused_file::is_reused(target.staged, found)
    };
    let wanted = group.iter().filter(is_in_the_way);
    wanted
        .map(|found| found.name)
        .try_for_each(|name| take_out(target.above, &target.directory.join(name), target.context.monitor))
}

/// Removes the entry at `path`, of whatever type, from the open directory `above` of the staging tree.
pub(super) fn take_out(above: impl AsFd, path: &[u8], monitor: &dyn Monitor) -> Result<()> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    match rustix::fs::unlinkat(&above, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) if is_no_name(errno) => Ok(()),
        Err(Errno::ISDIR) => deletion::directory(above.as_fd(), name, &absolute(path), monitor).map(|_| ()),
        Err(errno) => Err(cannot_make(path, errno)),
    }
}
