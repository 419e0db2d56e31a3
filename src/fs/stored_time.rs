//! Whether a filesystem may have stored one time in place of another: some store times coarsely, and all have a first
//! and a last one.

use crate::fs::filesystem::Kind;
use crate::fs::status::{Status, Time};
use crate::fs::timestamp::is_limit;
use std::os::fd::AsFd;

/// How a filesystem stores times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeStore {
    /// To the nanosecond, or an inode shows that it does not.
    Fine,
    /// More coarsely, as NTFS, SMB, exFAT and FAT do, or nobody knows.
    Coarse,
}

impl TimeStore {
    /// That of the filesystem of an open file.
    pub(crate) fn of(file: impl AsFd) -> TimeStore {
        let is_fine = |kind| [Kind::Xfs, Kind::Btrfs, Kind::Ext4, Kind::Tmpfs].contains(&kind);
        if Kind::of(file).is_ok_and(is_fine) { TimeStore::Fine } else { TimeStore::Coarse }
    }

    /// Whether an inode with this status may have been given this modification time.
    pub(crate) fn may_have_kept(self, status: &Status, wanted: Time) -> bool {
        status.has_mtime(wanted)
            || is_clamped(status.mtime, wanted)
            || (self == TimeStore::Coarse && is_rounded(status.mtime, wanted))
    }
}

/// Whether an open file with this status may have been given this modification time.
pub(crate) fn is_kept(file: impl AsFd, status: &Status, wanted: Time) -> bool {
    status.mtime == wanted || TimeStore::of(file).may_have_kept(status, wanted)
}

fn is_rounded(present: Time, wanted: Time) -> bool {
    let is_same = |step: u32| present.seconds == wanted.seconds && present.nanos == wanted.nanos - wanted.nanos % step;
    let is_even = present.nanos == 0 && present.seconds == wanted.seconds - wanted.seconds.rem_euclid(2);
    is_even || [100, 1000, 1_000_000, 10_000_000, 1_000_000_000].into_iter().any(is_same)
}

/// Whether a filesystem that stores no time so early or so late has the nearest one.
fn is_clamped(present: Time, wanted: Time) -> bool {
    let is_first = present.seconds < i64::from(i32::MAX / 2);
    let is_beyond = if is_first { wanted.seconds < present.seconds } else { wanted.seconds > present.seconds };
    is_beyond && is_limit(present)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: i64, nanos: u32) -> Time {
        Time { seconds, nanos }
    }

    #[test]
    fn a_coarse_time_is_that_of_its_filesystem() {
        let wanted = time(1_700_000_001, 123_456_789);
        for present in [time(1_700_000_001, 123_456_700), time(1_700_000_001, 120_000_000), time(1_700_000_000, 0)] {
            assert!(is_rounded(present, wanted), "{present:?}");
        }
        assert!(!is_rounded(time(1_700_000_001, 123_456_788), wanted) && !is_rounded(time(1_700_000_002, 0), wanted));
        let status = Status { mtime: time(1_700_000_000, 0), ctime: time(1_700_000_000, 5), ..Status::default() };
        assert!(TimeStore::Coarse.may_have_kept(&status, wanted) && !TimeStore::Fine.may_have_kept(&status, wanted));
    }

    #[test]
    fn a_time_that_a_filesystem_cannot_store_is_the_nearest_that_it_can() {
        let is_clamped = |present, wanted| is_clamped(time(present, 0), time(wanted, 5));
        assert!(is_clamped(2_147_483_647, 4_000_000_000), "XFS without bigtime");
        assert!(is_clamped(-2_147_483_648, -11_644_473_600), "the first time of NTFS, on all others");
        assert!(is_clamped(16_299_260_424, 16_725_225_600), "the year 2500 on XFS");
        assert!(is_clamped(15_032_385_535, 16_725_225_600), "the year 2500 on ext4");
        assert!(is_clamped(315_532_800 + 3600, 0), "FAT, in local time");
        assert!(!is_clamped(2_147_483_647, 2_147_483_646) && !is_clamped(-2_147_483_648, 0));
        assert!(!is_clamped(1, 4_000_000_000) && !is_clamped(1_700_000_000, 16_725_225_600));
        assert!(!super::is_clamped(time(2_147_483_647, 1), time(4_000_000_000, 0)), "a limit is a whole second");
    }
}
