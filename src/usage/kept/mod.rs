//! Maps of trees that do not change any more, such as snapshots: which ranges of the disk the files of a tree hold, and
//! how often. A map is made once and kept in a file. The maps of several trees then show, in one pass over sorted
//! streams, what each tree holds alone, and what a set of them does.
//!
//! A map cannot show whether anything else holds a range now. So `xfs` and `btrfs` check what the maps show before it
//! counts: on Btrfs against the extent tree, on XFS against the inodes and, for each range that counts, against the
//! extent map of a file that holds it. If a check fails, the map is stale.
//!
//! | file | contains |
//! |---|---|
//! | `file` | the file of a map |
//! | `merge` | one pass over several maps |
//! | `names` | the inodes of a tree |
//! | `types`, `task` | the content of maps; requests and results |
//! | `pass` | one pass over the inodes of an XFS |
//! | `xfs`, `btrfs` | making maps, and figures from maps |
//!
//! Where maps are kept is for the caller to decide.

mod btrfs;
mod file;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod merge;
mod names;
mod pass;
mod task;
#[cfg(test)]
mod tests;
mod types;
mod xfs;

pub(crate) use file::Reader;
pub(crate) use task::{Figures, LinkToTree, Made, Subjects};
pub(crate) use types::Tree;

use crate::error::{Error, Result};
use crate::fs::filesystem::Kind;
use crate::monitor::Monitor;
use types::Identity;

/// Makes the maps of trees on one filesystem. Passes each map that could be made to `each`, with the number of its
/// tree. There is none for a tree if its files have names elsewhere. Returns the number of files that were mapped.
///
/// Memory: 48 bytes for each distinct range of the trees that are mapped together, at most about a million files or one
/// tree.
///
/// # Errors
/// If the run is cancelled, or the filesystem reports an error.
pub(crate) fn make(
    trees: &[Tree<'_>],
    threads: usize,
    monitor: &dyn Monitor,
    each: &mut dyn FnMut(usize, Made),
) -> Result<u64> {
    let Some(first) = trees.first() else { return Ok(0) };
    match Kind::of(first.fd) {
        Ok(Kind::Xfs) => xfs::make(trees, threads, monitor, each),
        Ok(Kind::Btrfs) => btrfs::make(trees, monitor, each).map(|()| 0),
        _ => Ok(0),
    }
}

/// What deleting each tree of the set alone would free, and the set.
///
/// Memory: 48 bytes for each range that only one tree or only the set holds.
///
/// # Errors
/// If the run is cancelled, the filesystem reports an error, or this process may not ask it.
pub(crate) fn figures(subjects: Subjects<'_>, threads: usize, monitor: &dyn Monitor) -> Result<Figures> {
    match Kind::of(subjects.fd) {
        Ok(Kind::Xfs) => xfs::figures(subjects, threads, monitor),
        Ok(Kind::Btrfs) => btrfs::figures(subjects, monitor),
        _ => Err(Error::failed("use the maps of trees on the filesystem of").at(subjects.path)),
    }
}

/// The bytes that each of these trees holds and no other of them, by their maps alone. `None` if a map is damaged.
pub(crate) fn alone(maps: &mut [Reader]) -> Option<Vec<u64>> {
    let mut bytes = vec![0; maps.len()];
    let set = vec![true; maps.len()];
    for (map, bytes) in maps.iter().zip(&mut bytes) {
        if let Identity::Xfs { own, .. } = map.header().identity {
            *bytes += own;
        }
    }
    let each = |piece: merge::Piece| {
        if piece.is_alone {
            bytes[piece.map as usize] += piece.end - piece.start;
        }
    };
    merge::merge(maps, &set, each).ok().map(|()| bytes)
}
