//! The hash of a cloned file: noted by a killed run, known from the last snapshot, or computed by reading.

use super::added_entry::AddedEntry;
use super::renamed_file;
use super::resumed_file;
use super::source_file::SourceFile;
use super::target::Target;
use crate::content::hash;
use crate::fs::openat;
use crate::snapshot::manifest::Body;

/// Adds the hash of the source to the record.
pub(super) fn add(target: &Target<'_>, source: &SourceFile, added: &mut AddedEntry) -> rustix::io::Result<()> {
    let status = &source.status;
    let hash = if let Some(hash) = resumed_file::noted_hash(target, status, &added.entry.name) {
        added.cost.resumed_files = 1;
        Some(hash)
    } else if let Some(hash) = renamed_file::known_hash(target.context, status, &source.fd) {
        Some(hash)
    } else {
        // A source that may change without a trace may already differ from its clone.
        let is_loose = target.context.devices.may_change_unnoticed(&added.entry.meta, None, &source.fd);
        let clone = is_loose.then(|| openat::open_file(target.above, &added.entry.name).ok()).flatten();
        let hashed = hash::file(clone.as_ref().unwrap_or(&source.fd), status.size, target.context.monitor)?;
        added.cost.read_bytes += hashed.read;
        hashed.hash
    };
    if let Body::File(file) = &mut added.entry.body {
        file.hash = hash;
    }
    Ok(())
}
