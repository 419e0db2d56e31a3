//! An entry of the source as the walk found it, beside its record in the last snapshot. Nothing is added here.

use super::failure::{Attempt, Failure};
use super::stats::Stats;
use crate::fs::metadata::FileAttr;
use crate::fs::status::Status;
use crate::monitor::Change;
use crate::snapshot::devices::{Devices, Relation};
use crate::snapshot::live_record::unread_body;
use crate::snapshot::manifest::{DirectoryCursor, Entry, Meta};
use crate::tree::walk::Directory;
use rustix::fs::FileType;
use rustix::io::Errno;

/// An entry of the source.
pub(super) struct SourceEntry<'n> {
    pub(super) name: &'n [u8],
    pub(super) status: Status,
    /// Its record in the last snapshot, if it is of the same type.
    pub(super) old: Option<Entry>,
    /// `None`: nothing changed.
    pub(super) change: Option<Change>,
    /// Whether its last version can become this one without a new inode.
    pub(super) in_place: bool,
}

impl<'n> SourceEntry<'n> {
    /// Looks an entry up in its directory and in the last manifest. `relation` is the previous entry's relation, which
    /// most entries of a directory share.
    ///
    /// # Errors
    /// The reason why its status cannot be read, or an error of the manifest.
    pub(super) fn look_up<P>(
        directory: &Directory<P>,
        name: &'n [u8],
        devices: &Devices,
        cursor: &mut Option<DirectoryCursor<'_>>,
        relation: &mut Option<Relation>,
    ) -> Attempt<Self, Errno> {
        let old = match cursor {
            Some(cursor) => cursor.seek(name)?,
            None => None,
        };
        let status = Status::at(&directory.fd, name).map_err(Failure::Entry)?;
        let change = match &old {
            Some(old) => {
                let relation = match relation {
                    Some(relation) if relation.is_of(old.meta.dev, &status) => *relation,
                    _ => *relation.insert(devices.relation(old.meta.dev, status.dev, &directory.fd)),
                };
                compare(old, &status, devices, &relation)
            }
            None => Some(Change::Added),
        };
        let old = old.filter(|old| change != Some(Change::Type) && old.meta.ino != 0);
        let in_place = old.as_ref().is_some_and(|old| can_change_in_place(old, &status, change));
        Ok(SourceEntry { name, status, old, change, in_place })
    }

    /// Adds it to the counts of files and other entries, with this change.
    pub(super) fn count(&self, change: Option<Change>, part: &mut Stats) {
        match self.status.file_type() {
            FileType::RegularFile => {
                part.files += 1;
                match change {
                    None => part.unchanged_files += 1,
                    Some(Change::Added | Change::Type) => part.new_files += 1,
                    Some(_) => part.changed_files += 1,
                }
            }
            FileType::Symlink => part.symlinks += 1,
            _ => part.others += 1,
        }
    }

    /// Its record in a dry run, which makes nothing.
    pub(super) fn planned(&self) -> Entry {
        let meta = Meta::of(&self.status, false);
        Entry { name: self.name.to_vec(), meta, body: unread_body(&self.status) }
    }
}

/// How an entry differs from its record by type, size, mtime, ctime, inode and filesystem; `None` if in none of these.
fn compare(old: &Entry, status: &Status, devices: &Devices, relation: &Relation) -> Option<Change> {
    let meta = &old.meta;
    if FileType::from_raw_mode(meta.mode) != status.file_type() {
        return Some(Change::Type);
    }
    let size = old.file().map_or(0, |file| file.size);
    if meta.mtime != status.mtime || (old.file().is_some() && size != status.size) {
        return Some(Change::Content);
    }
    let is_settled = devices.is_settled(meta, relation) && !old.file().is_some_and(|file| file.changed);
    if meta.ctime != status.ctime || meta.ino != status.ino || !is_settled {
        return Some(Change::Metadata);
    }
    None
}

/// Whether a changed file had and has a single name, and had no metadata that a new file would not have.
fn can_change_in_place(old: &Entry, status: &Status, change: Option<Change>) -> bool {
    let Meta { nlink, has_xattrs, ref kept_xattrs, .. } = old.meta;
    matches!(change, Some(Change::Content | Change::Metadata))
        && old.file().is_some()
        && (nlink, status.nlink) == (1, 1)
        && !has_xattrs
        && kept_xattrs.is_empty()
        && old.meta.fileattr().is_met_by(FileAttr::default())
}
