//! Who shares with whom: finds the sets of files that hold the same physical ranges, among files with known extents.
//!
//! [`Holdings`] collects extents, [`find`] sorts them by their physical place and sweeps over them once or twice; no
//! file is ever compared with another. The results are [`Group`]s: everything that exactly the same set of files
//! has in common is one group, however many ranges it lies in. No I/O here, and nothing is printed.
//!
//! Limits: all pieces of a compressed extent have the address of its beginning. Two files with pieces of the same
//! compressed extent share its blocks on the disk, but the kernel does not report which bytes, or how many. Such pieces
//! are compared by that address alone and counted separately, as [`Amount::encoded_bytes`], an upper bound.
//!
//! **Memory**: 32 bytes an extent (adjacent extents in the file and on disk count as one), and about 100 bytes for each
//! set of files that has something in common. **Time**: sorting, and a step for each extent, whatever the number of
//! holders; lists of holders are built only within the limits of [`Options`].

mod found;
mod holdings;
mod pairs;
mod ranges;
mod set_key;
mod sets;
mod sweep;
#[cfg(test)]
mod tests;

pub(crate) use found::{Amount, FileSharing, Group, Pair};
pub(crate) use holdings::{FileId, Holdings};
pub(crate) use ranges::Range;
pub(crate) use sweep::Holder;

use crate::error::Result;
use crate::monitor::Monitor;
use pairs::Pairing;
use ranges::RangeSweep;
use sets::Sets;

/// The limits of the results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Files linked by sharing, directly or through others, are reported pair by pair, up to this number of linked
    /// files. Beyond that, their groups contain the same information, and the number of pairs would grow with the
    /// square of the files.
    pub paired_files: u32,
    /// Ranges are listed holder by holder, the largest groups first, until the lines would exceed both this number and
    /// four times the extents. Further groups are only summed up.
    pub listed_holders: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { paired_files: 64, listed_holders: 1 << 20 }
    }
}

/// Who shares with whom.
#[derive(Debug)]
pub(crate) struct Sharing {
    holdings: Holdings,
    sets: Sets,
    /// Indexed by file.
    pub files: Vec<FileSharing>,
    /// The largest first.
    pub groups: Vec<Group>,
    /// The largest first.
    pub pairs: Vec<Pair>,
    /// Files without reported pairs, because too many files are linked with them: see [`Options::paired_files`].
    pub unpaired_files: u32,
}

/// Finds out who shares with whom.
///
/// # Errors
/// Only if the monitor asks to stop.
pub(crate) fn find(mut holdings: Holdings, options: &Options, monitor: &dyn Monitor) -> Result<Sharing> {
    holdings.sort();
    let mut sets = Sets::new(holdings.file_count());
    sweep::sweep(&holdings, &mut sets, u32::MAX, monitor)?;
    let extents = holdings.piece_count() as u64;
    let mut groups = sets.rank(options.listed_holders.max(extents.saturating_mul(4)));
    let mut pairing = Pairing::new(&mut sets, holdings.file_count(), options.paired_files);
    sweep::sweep(&holdings, &mut pairing, 0, monitor)?;
    let unpaired_files = pairing.unpaired_files();
    let pairs = pairing.finish();
    let mut sweep = RangeSweep::new(&sets, |range: &Range<'_>| {
        let group = &mut groups[range.group];
        group.ranges += 1;
        if group.files.is_empty() {
            group.files = range.holders.iter().map(|holder| holder.file).collect();
            group.files.dedup();
        }
    });
    sweep::sweep(&holdings, &mut sweep, u32::MAX, monitor)?;
    sweep.finish();
    let files = sets.files();
    Ok(Sharing { holdings, sets, files, groups, pairs, unpaired_files })
}

impl Sharing {
    /// Passes the ranges of the listed groups to `each`, in the order of their physical places (on each filesystem,
    /// compressed ranges after the others). Ranges that are adjacent in all holders are joined.
    ///
    /// # Errors
    /// Only if the monitor asks to stop.
    pub(crate) fn ranges(&self, each: impl FnMut(&Range<'_>), monitor: &dyn Monitor) -> Result<()> {
        let mut sweep = RangeSweep::new(&self.sets, each);
        sweep::sweep(&self.holdings, &mut sweep, u32::MAX, monitor)?;
        sweep.finish();
        Ok(())
    }

    /// Passes all ranges to `each`, including those of unlisted groups, with the holders that are among the first
    /// `files` files, sorted by file and place. Ranges are not joined.
    ///
    /// # Errors
    /// Only if the monitor asks to stop.
    pub(crate) fn ranges_of_first(
        &self,
        files: u32,
        each: impl FnMut(&Range<'_>),
        monitor: &dyn Monitor,
    ) -> Result<()> {
        let mut watch = ranges::Watch::new(&self.sets, each);
        sweep::sweep(&self.holdings, &mut watch, files, monitor)
    }
}
