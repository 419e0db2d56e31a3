//! A second look at a file that was just cloned. A clone holds one moment of its source, whatever is written to the
//! source meanwhile. So the clone can be right without another read of a source that changes.

use super::added_entry::{AddedEntry, Try};
use super::failure::{Attempt, Failure};
use super::file_hash;
use super::source_entry::SourceEntry;
use super::source_file::SourceFile;
use super::target::Target;
use crate::content::hash;
use crate::fs::openat;
use crate::fs::sparse;
use crate::fs::status::Status;
use crate::snapshot::manifest::Body;
use rustix::io::Errno;

/// Hashes a file that was cloned a moment ago, if hashes are wanted. The source is read, since it may be in memory. If
/// the source changes meanwhile, the clone is read instead. If the source had changed before, the clone may not match
/// the recorded status and is withdrawn. Only the last try keeps it: the recorded status is then the older one, so the
/// next run looks at the file again.
///
/// # Errors
/// The reason why it could not be read, or an error that ends the run.
pub(super) fn settle(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    mut added: AddedEntry,
    is_last_try: bool,
) -> Attempt<Try, Errno> {
    let is_hashed = found.change.is_some() && target.context.hashes();
    if source.is_untouched() {
        if is_hashed {
            file_hash::add(target, source, &mut added).map_err(Failure::Entry)?;
        }
        if !is_hashed || source.is_untouched() {
            return Ok(Try::Frozen(added));
        }
    } else if !is_last_try {
        target.withdraw(found.name)?;
        return Ok(Try::Changed);
    }
    read_clone(target, found, &mut added).map_err(Failure::Entry)?;
    Ok(Try::Frozen(added))
}

/// Makes the record describe the clone, since the source may have changed by now.
fn read_clone(target: &Target<'_>, found: &SourceEntry<'_>, added: &mut AddedEntry) -> rustix::io::Result<()> {
    let clone = openat::open_file(target.above, found.name)?;
    let size = Status::of(&clone)?.size;
    let Body::File(file) = &mut added.entry.body else { return Ok(()) };
    if file.size != size {
        file.size = size;
        file.holes = sparse::holes(&clone, size)?;
    }
    file.hash = None;
    if target.context.hashes() {
        let hashed = hash::file(&clone, size, target.context.monitor)?;
        added.cost.read_bytes += hashed.read;
        file.hash = hashed.hash;
    }
    added.count_clone();
    Ok(())
}
