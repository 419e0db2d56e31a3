//! Unchanged files as further names of the last snapshot's files (`--unchanged hardlink`): no inode is made for them, and
//! filesystems without reflinks can do it as well.

use super::context::Target;
use super::record::Brought;
use super::seen::Seen;
use super::stats::Stats;
use super::{Previous, Unchanged};
use crate::content::copy;
use crate::error::Result;
use crate::fs::status::Status;
use crate::monitor::Amount;
use crate::snapshot::manifest::{self, Body, Entry, FileBody, Meta, Stored};
use rustix::fs::{AtFlags, FileType};

impl Target<'_> {
    /// Whether this file is to become a name of the last snapshot's.
    pub(super) fn is_to_link(&self, seen: &Seen<'_>) -> bool {
        // The records of an earlier version of the manifest, and perhaps its tree, lack what this one knows of an inode.
        let is_known = |previous: &Previous| previous.reader.version() == manifest::VERSION;
        self.context.options.unchanged == Unchanged::Hardlink
            && seen.change.is_none()
            && seen.old.is_some()
            && self.context.previous.is_some_and(is_known)
    }

    /// Gives the last snapshot's file a further name. `None`: it is not to be, or it cannot be: it has as many names as it
    /// may, lies in another subvolume, or is not what the manifest says. Then it is cloned or copied.
    ///
    /// # Errors
    /// One that every further file would meet.
    pub(super) fn link_previous(&self, seen: &Seen<'_>) -> Result<Option<Brought>> {
        let Some(old) = seen.old.as_ref().filter(|_| self.is_to_link(seen)) else { return Ok(None) };
        let (Some(old_file), Some(previous)) = (old.file(), self.previous()) else { return Ok(None) };
        match rustix::fs::linkat(previous, seen.name, self.above, seen.name, AtFlags::empty()) {
            Ok(()) => {}
            Err(errno) if copy::is_fatal(errno) => return Err(self.cannot_make(seen.name, errno)),
            Err(_) => return Ok(None),
        }
        // Asked for by the new name, which nobody else knows: what was linked is what is looked at.
        if !Status::at(self.above, seen.name).is_ok_and(|status| is_as_recorded(&status, old, old_file)) {
            self.withdraw(seen.name)?;
            return Ok(None);
        }
        let FileBody { size, holes, .. } = *old_file;
        let mut cost = Stats { bytes: size, hole_bytes: holes, ..Stats::default() };
        let data = size.saturating_sub(holes);
        let stored = match old_file.stored {
            Stored::Inline => {
                cost.inline_bytes = data;
                Stored::Inline
            }
            Stored::Cloned | Stored::Copied => {
                cost.cloned_bytes = data;
                Stored::Cloned
            }
        };
        self.context.monitor.advance(Amount { files: 0, bytes: size });
        let meta = Meta { dev: seen.status.dev, ..old.meta.clone() };
        let body = Body::File(FileBody { stored, ..old_file.clone() });
        Ok(Some(Brought { entry: Entry { name: seen.name.to_vec(), meta, body }, cost }))
    }
}

/// Whether a file of the last snapshot is what its record says, as far as its status tells.
fn is_as_recorded(status: &Status, old: &Entry, file: &FileBody) -> bool {
    let meta = &old.meta;
    let is_owned = (status.uid, status.gid, status.mode) == (meta.uid, meta.gid, meta.mode);
    status.file_type() == FileType::RegularFile
        && status.size == file.size
        // Some filesystems keep no more than seconds.
        && status.mtime.seconds == meta.mtime.seconds
        && (is_owned || meta.kept_here)
}
