//! The largest changes: each snapshot is compared with the one before it in its group.

use super::growth::new_bytes;
use super::stats::{Changes, PathChange, Stats};
use super::top::{Top, change};
use super::work::Work;
use crate::error::{Error, Result};
use crate::monitor::Change;
use crate::snapshot::diff::{self, Difference};
use crate::usage::Bound;
use std::cmp::Reverse;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;

/// How many paths the report has.
const SHOWN: usize = 20;
/// Memory for finding renames in one comparison.
const RENAMES: usize = 64 << 20;

/// Compares the newest snapshots, and finds the paths with the most new and the most removed data.
pub(super) fn compare(work: &Work<'_>, stats: &mut Stats) -> Result<()> {
    let mut pairs: Vec<[usize; 2]> = Vec::new();
    for group in &stats.groups {
        pairs.extend(group.snapshots.windows(2).map(|pair| [pair[0], pair[1]]));
    }
    // The newest first.
    pairs.sort_by_key(|[_, new]| Reverse(*new));
    let all = pairs.len();
    pairs.truncate(work.options.compared);
    let (mut new, mut removed) = (Top::default(), Top::default());
    let mut changes = Changes { omitted: (all - pairs.len()) as u64, ..Changes::default() };
    let options = diff::Options { rename_memory: RENAMES, threads: work.options.threads, ..diff::Options::default() };
    for [old_row, new_row] in pairs {
        work.check_cancelled()?;
        let names = (stats.snapshots[old_row].name.as_str(), stats.snapshots[new_row].name.as_str());
        let mut note = |difference: &Difference<'_>| {
            take(work, difference, names.1, &mut new, &mut removed);
            Ok(())
        };
        let compared = diff::diff(work.repo, names, &options, work.monitor, &mut note);
        if work.of_snapshots(&[names.0, names.1], compared)?.is_some() {
            changes.compared += 1;
            changes.since = Some(names.0.to_string());
        }
    }
    changes.new = new.finish(SHOWN);
    changes.removed = removed.finish(SHOWN);
    stats.changes = changes;
    Ok(())
}

fn take(work: &Work<'_>, difference: &Difference<'_>, snapshot: &str, new: &mut Top, removed: &mut Top) {
    let file = |facts: Option<diff::Facts>| facts.filter(|facts| facts.is_file);
    let (before, after) = (file(difference.old), file(difference.new));
    let path = difference.path.as_os_str().as_bytes();
    match (difference.change, before, after) {
        (Change::Removed, Some(before), _) => {
            let change = PathChange { removed: 1, ..change(difference.path, before.size, snapshot) };
            removed.add(path, change);
        }
        (Change::Added, _, Some(after)) if new.has_room_for(path, after.size) => {
            let (bytes, bound) = grown(work, difference, after.size);
            new.add(path, PathChange { added: 1, bound, ..change(difference.path, bytes, snapshot) });
        }
        (Change::Content | Change::Rotten | Change::Type, _, Some(after)) if new.has_room_for(path, after.size) => {
            let (bytes, bound) = grown(work, difference, after.size);
            new.add(path, PathChange { changed: 1, bound, ..change(difference.path, bytes, snapshot) });
        }
        _ => {}
    }
}

/// The new data of a file. If it cannot be counted, it is at most the size of the file.
fn grown(work: &Work<'_>, difference: &Difference<'_>, size: u64) -> (u64, Bound) {
    let measured = open(difference).and_then(|(old, new)| {
        let Some(new) = new else { return Ok(None) };
        let failed = |errno| Error::io("read the extents of", difference.path, errno);
        match new_bytes(old.as_ref(), &new) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOTTY) => Ok(None),
            other => other.map_err(failed),
        }
    });
    match measured {
        Ok(Some(measured)) => measured,
        Ok(None) => (size, Bound::AtMost),
        Err(error) => {
            work.monitor.problem(&error);
            (size, Bound::AtMost)
        }
    }
}

fn open(difference: &Difference<'_>) -> Result<(Option<File>, Option<File>)> {
    let old = if difference.change == Change::Added { None } else { difference.open_old()? };
    Ok((old, difference.open_new()?))
}
