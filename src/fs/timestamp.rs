//! What a change time proves. It can be compared with this machine's clock only if both have the same resolution: ext3,
//! FAT and many servers store whole seconds (FAT two), and a file server uses its own clock.
//!
//! The kernel does not report the resolution of a filesystem's timestamps, so each timestamp is judged by its digits:
//! one that ends in zeros may be truncated. With nanosecond timestamps this only costs a second look at the few files
//! with timestamps that end in zeros by chance.
//!
//! A filesystem that cannot store the time of the clock gets the nearest that it can from the kernel, again and again:
//! after 2038 an ext4 with small inodes, and before 1980 FAT on a machine that begins without a clock.

use crate::fs::filesystem::Kind;
use crate::fs::status::Time;
use crate::util::mutex::lock;
use rustix::io::Result;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Mutex;

const SECOND: i128 = 1_000_000_000;
/// How far another machine's clock may be behind.
const SKEW: i128 = 24 * 60 * 60 * SECOND;

/// The clock that sets the timestamps of a filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// This kernel: [`Time::now`] is never later than the timestamp of a later change.
    #[default]
    Local,
    /// A server, another machine of a cluster, or a FUSE process: its clock may differ by up to a day.
    Remote,
    /// This kernel, but it stamps no store through a shared mapping: tmpfs. No time proves that a file is unchanged.
    Incomplete,
}

impl Clock {
    /// The clock of the filesystem of an open file or directory.
    ///
    /// # Errors
    /// Errors of fstatfs(2).
    pub fn of(fd: impl AsFd) -> Result<Clock> {
        Kind::of(fd).map(Clock::of_kind)
    }

    /// The clock of filesystems of this kind. Unknown kinds count as remote.
    pub fn of_kind(kind: Kind) -> Clock {
        /// `linux/magic.h`, and the sources of the filesystems that are not in it: f2fs, FAT, exFAT, NTFS, UDF, ISO
        /// 9660, squashfs, EROFS, JFS, ReiserFS, NILFS, HFS+, HFS, Minix (3), UBIFS, eCryptfs, cramfs, romfs.
        const LOCAL: [u64; 18] = [
            0xf2f5_2010,
            0x4d44,
            0x2011_bab0,
            0x7366_746e,
            0x1501_3346,
            0x9660,
            0x7371_7368,
            0xe0f5_e1e2,
            0x3153_464a,
            0x5265_4973,
            0x3434,
            0x482b,
            0x4244,
            0x4d5a,
            0x2405_1905,
            0xf15f,
            0x28cd_3d45,
            0x7275,
        ];
        /// Filesystems that keep files only in the page cache: ramfs, hugetlbfs.
        const IN_MEMORY: [u64; 2] = [0x8584_58f6, 0x9584_58f6];
        match kind {
            Kind::Tmpfs => Clock::Incomplete,
            Kind::Other(magic) if IN_MEMORY.contains(&magic.number()) => Clock::Incomplete,
            Kind::Xfs | Kind::Btrfs | Kind::Ext4 | Kind::Overlay | Kind::Bcachefs | Kind::Zfs => Clock::Local,
            Kind::Nfs | Kind::Fuse => Clock::Remote,
            Kind::Other(magic) if LOCAL.contains(&magic.number()) => Clock::Local,
            Kind::Other(_) => Clock::Remote,
        }
    }
}

/// The clocks of filesystems, by device.
#[derive(Debug, Default)]
pub(crate) struct Clocks(Mutex<HashMap<u64, Clock>>);

impl Clocks {
    /// The clock of the device `dev`, where `fd` is a file or directory. It counts as remote if it cannot be queried.
    pub(crate) fn of(&self, dev: u64, fd: impl AsFd) -> Clock {
        *lock(&self.0).entry(dev).or_insert_with(|| Clock::of(fd).unwrap_or(Clock::Remote))
    }
}

/// Whether an inode with this `ctime` may have changed at or after `moment`, which is from [`Time::now`] or a timestamp
/// itself. If not, equal ctimes before and after `moment` mean an unchanged inode.
///
/// ```
/// use pleach::testing::status::Time;
/// use pleach::testing::timestamp::{Clock, may_have_changed_since};
/// let moment = Time { seconds: 100, nanos: 700_000_000 };
/// let fine = Time { seconds: 100, nanos: 612_345_678 };
/// let coarse = Time { seconds: 100, nanos: 0 };
/// assert!(!may_have_changed_since(fine, moment, Clock::Local));
/// assert!(may_have_changed_since(coarse, moment, Clock::Local));
/// ```
pub fn may_have_changed_since(ctime: Time, moment: Time, clock: Clock) -> bool {
    if is_limit(ctime) {
        return true;
    }
    let skew = match clock {
        Clock::Local => 0,
        Clock::Remote => SKEW,
        Clock::Incomplete => return true,
    };
    let earliest = nanoseconds(moment) - skew;
    // The timestamp of a change at that moment, truncated as this one may be.
    nanoseconds(ctime) >= earliest - earliest.rem_euclid(coarsest_tick(ctime))
}

/// Whether this is the earliest or the latest time that a filesystem can store. Each change beyond it has that time.
pub(super) fn is_limit(time: Time) -> bool {
    /// 32 bits with a sign: ext4 with small inodes, XFS without bigtime. The last of ext4, of XFS, and of 32 bits.
    const LIMITS: [i64; 5] =
        [i32::MIN as i64, i32::MAX as i64, (1 << 34) - 1 - (1 << 31), 16_299_260_424, u32::MAX as i64];
    /// 1980 and the end of 2107: FAT, in local time, and exFAT.
    const FAT: [i64; 3] = [315_532_800, 4_354_819_198, 4_354_819_199];
    let is_local = |limit: i64| {
        let offset = time.seconds.saturating_sub(limit);
        offset % (15 * 60) == 0 && offset.unsigned_abs() <= 14 * 60 * 60
    };
    time.nanos == 0 && (LIMITS.contains(&time.seconds) || FAT.into_iter().any(is_local))
}

/// The coarsest resolution that can show this time, in nanoseconds: at most two seconds.
fn coarsest_tick(time: Time) -> i128 {
    if time.nanos == 0 {
        return if time.seconds % 2 == 0 { 2 * SECOND } else { SECOND };
    }
    let mut tick = 1;
    while time.nanos.is_multiple_of(tick * 10) {
        tick *= 10;
    }
    i128::from(tick)
}

fn nanoseconds(time: Time) -> i128 {
    i128::from(time.seconds) * SECOND + i128::from(time.nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: i64, nanos: u32) -> Time {
        Time { seconds, nanos }
    }

    #[test]
    fn no_stamp_proves_anything_where_stores_through_a_mapping_are_not_stamped() {
        assert_eq!(Clock::of_kind(Kind::Tmpfs), Clock::Incomplete);
        assert!(may_have_changed_since(at(1, 1), at(1_000_000, 0), Clock::Incomplete));
    }

    #[test]
    fn a_stamp_in_whole_seconds_covers_its_second_and_a_stamp_of_fat_two() {
        let moment = at(101, 300_000_000);
        let changed = |ctime| may_have_changed_since(ctime, moment, Clock::Local);
        assert!(changed(at(101, 0)) && changed(at(100, 0)));
        assert!(!changed(at(99, 0)) && !changed(at(98, 0)));
        assert!(!may_have_changed_since(at(101, 0), at(102, 0), Clock::Local));
        assert!(may_have_changed_since(at(102, 0), at(102, 0), Clock::Local));
        // exFAT: 10 milliseconds.
        assert!(changed(at(101, 300_000_000)) && !changed(at(101, 290_000_000)));
        // The stamp may be of 11.999 on FAT.
        assert!(may_have_changed_since(at(10, 0), at(11, 500), Clock::Local));
    }

    #[test]
    fn a_fine_stamp_is_compared_as_it_is() {
        let moment = at(101, 300_000_007);
        assert!(may_have_changed_since(moment, moment, Clock::Local));
        assert!(!may_have_changed_since(at(101, 300_000_006), moment, Clock::Local));
        assert!(!may_have_changed_since(at(-5, 1), at(-5, 2), Clock::Local));
    }

    #[test]
    fn the_clock_of_a_server_may_be_a_day_behind() {
        let moment = at(1_000_000, 5);
        assert!(may_have_changed_since(at(1_000_000 - 86_399, 5), moment, Clock::Remote));
        assert!(!may_have_changed_since(at(1_000_000 - 86_403, 5), moment, Clock::Remote));
        assert_eq!(Clock::of_kind(Kind::Nfs), Clock::Remote);
        assert_eq!([Kind::Fuse, Kind::UNKNOWN].map(Clock::of_kind), [Clock::Remote; 2]);
        assert_eq!(Clock::of_kind(Kind::Ext4), Clock::Local);
    }

    #[test]
    fn the_last_time_that_a_filesystem_can_store_proves_nothing() {
        let moment = at(20_000_000_000, 1);
        let changed = |seconds, nanos| may_have_changed_since(at(seconds, nanos), moment, Clock::Local);
        for limit in ["1901-12-13T20:45:52Z", "2038-01-19T03:14:07Z", "2446-05-10T22:38:55Z", "2486-07-02T20:20:24Z"] {
            let seconds = limit.parse::<jiff::Timestamp>().unwrap().as_second();
            assert!(changed(seconds, 0), "{limit}");
            assert!(!changed(seconds, 5) && !changed(seconds - 1, 0) && !changed(seconds + 1, 0), "{limit}");
        }
        // The first of FAT in Berlin, and the last in Kathmandu.
        assert!(changed(315_532_800 - 3600, 0) && changed(4_354_819_198 - 20_700, 0));
        assert!(!changed(315_532_800 - 3601, 0) && !changed(315_532_800 + 15 * 3600, 0));
    }

    proptest! {
        /// Whatever the tick of a filesystem, a change at or after the moment is never taken for an older one.
        #[test]
        fn no_change_goes_unnoticed_at_any_tick(
            moment in -10_000_000_000_i64..10_000_000_000,
            later in 0_i64..5_000_000_000,
            tick in prop::sample::select(vec![1_i64, 100, 1000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000]),
        ) {
            let time = |ns: i64| at(ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000) as u32);
            let change = moment + later;
            let stamp = time(change - change.rem_euclid(tick));
            prop_assert!(may_have_changed_since(stamp, time(moment), Clock::Local));
        }
    }
}
