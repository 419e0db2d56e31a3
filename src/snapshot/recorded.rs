//! The extended attributes that a snapshot has of an inode: those in its tree, and those that only the manifest has.

use crate::fs::metadata::{self, Xattr};
use crate::snapshot::manifest::{Entry, Meta};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The extended attributes that a snapshot has of an inode.
pub(super) struct Recorded {
    /// The attributes, sorted by name.
    pub(super) xattrs: Vec<Xattr>,
    /// Whether the source had no other attributes, as far as the snapshot shows.
    pub(super) is_complete: bool,
}

impl Recorded {
    /// Whether an inode with these attributes, sorted by name, has the snapshot's attributes. It must have no others,
    /// unless the snapshot may lack some.
    pub(super) fn is_met_by(&self, present: &[Xattr]) -> bool {
        match self.is_complete {
            true => self.xattrs == present,
            false => self.xattrs.iter().all(|xattr| present.binary_search(xattr).is_ok()),
        }
    }
}

/// The extended attributes of the tree, read by `present`, and those that only the manifest has.
///
/// # Errors
/// If the tree does not have the inode.
pub(super) fn recorded(
    meta: &Meta,
    present: impl FnOnce() -> (Vec<Xattr>, Option<Errno>),
) -> rustix::io::Result<Recorded> {
    let (xattrs, unread) = if meta.has_xattrs { present() } else { (Vec::new(), None) };
    let is_complete = match unread {
        None => !meta.has_xattrs || !xattrs.is_empty() || !meta.kept_xattrs.is_empty(),
        // A node that the tree could not take is only in the manifest.
        Some(Errno::NOENT) if meta.kept_here => true,
        Some(Errno::NOENT) => return Err(Errno::NOENT),
        Some(_) => false,
    };
    Ok(Recorded { xattrs: meta.xattrs(xattrs), is_complete })
}

/// The extended attributes of an entry of the tree that is not a file. None if the tree could not take the entry.
///
/// # Errors
/// Errors of reading them.
pub(super) fn of_node(dir: &OwnedFd, entry: &Entry) -> rustix::io::Result<Vec<Xattr>> {
    if !entry.meta.has_xattrs {
        return Ok(Vec::new());
    }
    match metadata::xattrs_at(dir, &entry.name) {
        Err(Errno::NOENT) if entry.meta.kept_here => Ok(Vec::new()),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_without_the_attributes_that_its_source_had_is_incomplete() {
        let attribute = |name: &str| (name.as_bytes().to_vec(), b"value".to_vec());
        let meta = |has_xattrs| Meta { has_xattrs, ..Meta::default() };
        let is_complete =
            |meta: &Meta, xattrs: &[Xattr], unread| recorded(meta, || (xattrs.to_vec(), unread)).unwrap().is_complete;
        assert!(is_complete(&meta(false), &[], None));
        assert!(is_complete(&meta(true), &[attribute("user.a")], None));
        assert!(!is_complete(&meta(true), &[], None), "none could be read when the snapshot was taken");
        assert!(!is_complete(&meta(true), &[attribute("user.a")], Some(Errno::IO)));
        let kept = vec![(b"user.b".to_vec().into(), b"value".to_vec().into())];
        let kept = Meta { kept_xattrs: kept, ..meta(true) };
        assert!(is_complete(&kept, &[], None));
        assert_eq!(recorded(&kept, || (vec![attribute("user.a")], None)).unwrap().xattrs.len(), 2);
        assert!(recorded(&meta(true), || (Vec::new(), Some(Errno::NOENT))).is_err());
        let some = Recorded { xattrs: vec![attribute("user.a")], is_complete: false };
        let both = [attribute("user.a"), attribute("user.b")];
        assert!(some.is_met_by(&both) && !some.is_met_by(&both[1..]));
        assert!(!Recorded { is_complete: true, ..some }.is_met_by(&both));
        let only_here = Meta { kept_here: true, ..meta(true) };
        assert!(is_complete(&only_here, &[], Some(Errno::NOENT)));
    }
}
