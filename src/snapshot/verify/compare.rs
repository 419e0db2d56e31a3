//! Compares the status of an entry with its record. Pure, but for the target of a link, which is read on request.

use crate::fs::status::Status;
use crate::fs::stored_time::TimeStore;
use crate::monitor::Fault;
use crate::snapshot::manifest::{Body, Meta};
use rustix::fs::FileType;
use rustix::io::Result;

/// The first difference between an inode and its record. `body` is `None` for a directory. `times`: how the filesystem
/// stores times.
///
/// # Errors
/// Errors of reading the link.
pub(super) fn fault(
    meta: &Meta,
    body: Option<&Body>,
    status: &Status,
    times: TimeStore,
    link: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<Option<Fault>> {
    let file_type = FileType::from_raw_mode(meta.mode);
    if status.file_type() != file_type {
        return Ok(Some(Fault::Type));
    }
    match body {
        Some(Body::File(file)) if file.size != status.size => return Ok(Some(Fault::Size)),
        Some(Body::Symlink(target)) if *target != link()? => return Ok(Some(Fault::Target)),
        Some(Body::Device(major, minor)) if (*major, *minor) != status.rdev => return Ok(Some(Fault::Device)),
        _ => {}
    }
    // What the tree could not take is only in the manifest.
    if !meta.kept_here {
        if (status.uid, status.gid) != (meta.uid, meta.gid) {
            return Ok(Some(Fault::Owner));
        }
        if file_type != FileType::Symlink && status.permissions() != meta.mode & 0o7777 {
            return Ok(Some(Fault::Mode));
        }
    }
    Ok((!times.may_have_kept(status, meta.mtime)).then_some(Fault::Mtime))
}

/// Whether an entry of the manifest need not be in the tree: the tree could not take it.
pub(super) fn may_be_absent(meta: &Meta, body: &Body) -> bool {
    meta.kept_here && !matches!(body, Body::File(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::status::Time;
    use rustix::io::Errno;

    #[test]
    fn each_difference_is_found_and_what_the_tree_could_not_take_is_none() {
        let time = Time { seconds: 1_700_000_000, nanos: 5 };
        let status = Status { mode: 0o100_644, uid: 1, gid: 2, size: 3, mtime: time, ..Status::default() };
        let meta = Meta { mode: 0o100_644, uid: 1, gid: 2, mtime: time, ..Meta::default() };
        let of =
            |meta: &Meta, status: &Status| fault(meta, None, status, TimeStore::Fine, || Err(Errno::INVAL)).unwrap();
        assert_eq!(of(&meta, &status), None);
        assert_eq!(of(&meta, &Status { mode: 0o040_644, ..status }), Some(Fault::Type));
        assert_eq!(of(&meta, &Status { mode: 0o100_600, ..status }), Some(Fault::Mode));
        assert_eq!(of(&meta, &Status { uid: 0, ..status }), Some(Fault::Owner));
        assert_eq!(of(&meta, &Status { mtime: Time { nanos: 6, ..time }, ..status }), Some(Fault::Mtime));
        let kept = Meta { kept_here: true, ..meta.clone() };
        assert_eq!(of(&kept, &Status { uid: 0, mode: 0o100_600, ..status }), None);
        let link = Meta { mode: 0o120_777, ..meta.clone() };
        let target = Body::Symlink(b"there".to_vec());
        let there = Status { mode: 0o120_777, ..status };
        assert_eq!(fault(&link, Some(&target), &there, TimeStore::Fine, || Ok(b"there".to_vec())), Ok(None));
        assert_eq!(
            fault(&link, Some(&target), &there, TimeStore::Fine, || Ok(b"here".to_vec())),
            Ok(Some(Fault::Target))
        );
    }
}
