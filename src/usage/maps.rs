//! The space that is freed on a filesystem with files that were mapped one by one: the shared ranges that nothing
//! outside the set holds, and everything that its files hold alone.

use super::census::{Leaving, Tally};
use super::device::Volume;
use super::freed::Freed;
use super::references::cover;
use super::xfs::deleted::Deleted;
use super::xfs::outside;
use crate::error::Result;
use crate::extents::bound::Bound;
use crate::extents::intervals::covered_bytes;
use crate::extents::ranges::RangeSet;
use crate::fs::filesystem::Kind;
use crate::monitor::{Event, Monitor};

/// The space that is freed with `deleted`. Also sums up the shared ranges of each path and of the set.
pub(super) fn judge(volume: &Volume, tally: &mut Tally, deleted: &Deleted<'_>, monitor: &dyn Monitor) -> Result<Freed> {
    for part in &mut tally.paths {
        let shared = covered_bytes(part.references(volume).sorted());
        part.totals.shared_bytes += shared;
    }
    let sorted = tally.set.references(volume).sorted();
    let shared = covered_bytes(sorted);
    // A shared range that occurs once is also held by something outside. So is a range of a file that stays.
    let mut doubtful = RangeSet::default();
    cover(sorted, |range, count, leaving| {
        if count >= 2 && leaving == count {
            doubtful.insert(range);
        }
    });
    tally.set.totals.shared_bytes += shared;
    let Leaving { own, encoded, extents, unmapped } = tally.leaving(volume);
    let mut freed = Freed { bytes: own - encoded, undecided_bytes: encoded, ..Freed::default() };
    let (mut is_at_least, mut is_at_most) = (false, false);
    match volume.kind {
        Kind::Xfs => {
            let mut ranges = extents;
            if !doubtful.is_empty() {
                monitor.phase("asking other files", None);
                match outside::subtract(volume, deleted.inodes, doubtful.clone(), monitor) {
                    Ok(certain) => {
                        freed.bytes += certain.length();
                        ranges += certain.count();
                    }
                    Err(error) if monitor.is_cancelled() => return Err(error),
                    Err(error) => {
                        monitor.event(Event::SharersUnknown(&error));
                        freed.undecided_bytes += doubtful.length();
                    }
                }
            }
            freed = freed.and(deleted.beside(volume, ranges, unmapped));
        }
        Kind::Ext4 => {}
        // An extent is freed as a whole, with parts of it that no file shows any more.
        Kind::Btrfs => {
            is_at_least = true;
            freed.undecided_bytes += doubtful.length();
        }
        _ => {
            is_at_most = !volume.lacks_maps();
            freed.undecided_bytes += doubtful.length();
        }
    }
    is_at_least |= freed.undecided_bytes > 0;
    freed.bound = freed.bound.and(Bound::of(is_at_least, is_at_most));
    Ok(freed)
}
