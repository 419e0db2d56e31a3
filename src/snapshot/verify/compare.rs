//! Compares the status of an entry with its record. Pure, but for the target of a link, which is read on request.

use crate::fs::status::{Status, Time};
use crate::monitor::Fault;
use crate::snapshot::manifest::{Body, Meta};
use rustix::fs::FileType;
use rustix::io::Result;

/// The first difference between an inode and its record. `body` is `None` for a directory. `has_fine_times`: the
/// filesystem stores nanoseconds, or the inode shows that it does not.
///
/// # Errors
/// Errors of reading the link.
pub(super) fn fault(
    meta: &Meta,
    body: Option<&Body>,
    status: &Status,
    has_fine_times: bool,
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
    let is_timely = status.has_mtime(meta.mtime)
        || is_clamped(status.mtime, meta.mtime)
        || (!has_fine_times && is_rounded(status.mtime, meta.mtime));
    Ok((!is_timely).then_some(Fault::Mtime))
}

/// Whether an entry of the manifest need not be in the tree: the tree could not take it.
pub(super) fn may_be_absent(meta: &Meta, body: &Body) -> bool {
    meta.kept_here && !matches!(body, Body::File(_))
}

/// Whether a filesystem may have stored this time for that one, because it stores times more coarsely, as NTFS, SMB,
/// exFAT and FAT do.
fn is_rounded(present: Time, wanted: Time) -> bool {
    let is_same = |step: u32| present.seconds == wanted.seconds && present.nanos == wanted.nanos - wanted.nanos % step;
    let is_even = present.nanos == 0 && present.seconds == wanted.seconds - wanted.seconds.rem_euclid(2);
    is_even || [100, 1000, 1_000_000, 10_000_000, 1_000_000_000].into_iter().any(is_same)
}

/// Whether a filesystem may have stored this time for that one, because it stores none so early or so late.
fn is_clamped(present: Time, wanted: Time) -> bool {
    let is_beyond = i32::try_from(wanted.seconds).is_err();
    let is_nearer = present.seconds.unsigned_abs() < wanted.seconds.unsigned_abs();
    is_beyond && is_nearer && present.nanos == 0 && i32::try_from(present.seconds / 2).is_ok_and(|half| half != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn each_difference_is_found_and_what_the_tree_could_not_take_is_none() {
        let time = Time { seconds: 1_700_000_000, nanos: 5 };
        let status = Status { mode: 0o100_644, uid: 1, gid: 2, size: 3, mtime: time, ..Status::default() };
        let meta = Meta { mode: 0o100_644, uid: 1, gid: 2, mtime: time, ..Meta::default() };
        let of = |meta: &Meta, status: &Status| fault(meta, None, status, true, || Err(Errno::INVAL)).unwrap();
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
        assert_eq!(fault(&link, Some(&target), &there, true, || Ok(b"there".to_vec())), Ok(None));
        assert_eq!(fault(&link, Some(&target), &there, true, || Ok(b"here".to_vec())), Ok(Some(Fault::Target)));
    }

    #[test]
    fn times_are_compared_as_finely_as_the_filesystem_stores_them() {
        let time = |seconds, nanos| Time { seconds, nanos };
        let wanted = time(1_700_000_001, 123_456_789);
        for present in [time(1_700_000_001, 123_456_700), time(1_700_000_001, 120_000_000), time(1_700_000_000, 0)] {
            assert!(is_rounded(present, wanted), "{present:?}");
        }
        assert!(!is_rounded(time(1_700_000_001, 123_456_788), wanted) && !is_rounded(time(1_700_000_002, 0), wanted));
    }

    #[test]
    fn a_time_that_a_filesystem_cannot_store_is_the_nearest_that_it_can() {
        let time = |seconds| Time { seconds, nanos: 0 };
        assert!(is_clamped(time(2_147_483_647), time(4_000_000_000)), "XFS without bigtime");
        assert!(is_clamped(time(-2_147_483_648), time(-4_000_000_000)));
        assert!(!is_clamped(time(1), time(4_000_000_000)) && !is_clamped(time(1_700_000_000), time(1_800_000_000)));
    }
}
