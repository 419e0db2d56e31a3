//! Each inode of the source is added once, whatever number of names it has. Further names become hard links. `link_map`
//! knows the inodes.

use super::added_entry::AddedEntry;
use super::failure::is_fatal;
use super::source_entry::SourceEntry;
use super::stats::Stats;
use super::target::Target;
use crate::error::Result;
use crate::snapshot::manifest::Entry;
use crate::tree::inode_map::Identity;
use rustix::fs::AtFlags;

/// Adds an entry with `make`, unless it is a further name of an inode that was already added. An entry that cannot be
/// linked becomes an inode of its own.
pub(super) fn add(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    part: &mut Stats,
    mut make: impl FnMut(&mut Stats) -> Result<Option<AddedEntry>>,
) -> Result<Option<AddedEntry>> {
    if found.status.nlink < 2 {
        return make(part);
    }
    let inode = Identity::of(&found.status);
    if let Some(entry) = join(target, &inode, found)? {
        return Ok(Some(AddedEntry { entry, cost: Stats::default() }));
    }
    let Some(added) = make(part)? else { return Ok(None) };
    match target.staged.links.offer(&inode, target.above, &target.directory.path, &added.entry) {
        Ok(true) => return Ok(Some(added)),
        Ok(false) => {}
        Err(errno) if is_fatal(errno) => return Err(target.cannot_make(found.name, errno)),
        Err(_) => return Ok(Some(added)),
    }
    // Another thread added the inode at the same time and was first.
    rustix::fs::unlinkat(target.above, found.name, AtFlags::empty())
        .map_err(|errno| target.cannot_make(found.name, errno))?;
    match join(target, &inode, found)? {
        Some(entry) => Ok(Some(AddedEntry { entry, cost: Stats::default() })),
        None => make(part),
    }
}

/// Makes the entry a further name of an inode. `None` if the inode has not been added, or cannot have that name. Then
/// the entry is made by itself, which reports the same error.
fn join(target: &Target<'_>, inode: &Identity, found: &SourceEntry<'_>) -> Result<Option<Entry>> {
    match target.staged.links.join(inode, target.above, found.name) {
        Err(errno) if is_fatal(errno) => Err(target.cannot_make(found.name, errno)),
        joined => Ok(joined.unwrap_or(None)),
    }
}
