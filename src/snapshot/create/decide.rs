//! Decides whether a run looks only at what changed since the last snapshot, and finds that from the transactions of
//! Btrfs and from the inodes of XFS. `docs/design/narrow.md` describes it. Whatever does not fit leads to a walk of
//! everything.

use super::narrowing::{Changes, KnownPart, Narrowing};
use super::options::Options;
use super::previous::Previous;
use super::spot_check;
use super::swept;
use super::watch::{Subvolume, Watch};
use super::ways::Ways;
use crate::fs::mounts;
use crate::fs::status::Status;
use crate::monitor::{Event, Monitor, WholeWalk};
use crate::snapshot::repository::{Part, Seen, SeenSubvolume, Top};
use crate::tree::changed::{self, Changed};
use crate::tree::sweep::Sweep;
use crate::tree::walk::{Sources, absolute};
use crate::util::path::{is_below, join};
use std::collections::{HashMap, hash_map};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// With more changes than this for each entry of the last snapshot, a walk of everything is faster.
const MANY: u64 = 4;
/// As many changes are never too many.
const FEW: u64 = 10_000;
/// How many runs in a row look only at changes, by default.
const NARROW_WALKS: u64 = 29;

/// A digest of all that decides what a run records, apart from the sources.
pub(super) fn conditions(options: &Options) -> [u8; 32] {
    let text = format!(
        "{}\n{:?}\n{:?}\n{}\n{}",
        env!("CARGO_PKG_VERSION"),
        options.hash,
        options.unchanged,
        options.freeze,
        options.excludes.description(),
    );
    *blake3::hash(text.as_bytes()).as_bytes()
}

/// Decides what to look at, and reports why if that is everything although the last run was recorded.
pub(super) fn decide(
    previous: &Previous,
    seen: Option<Seen>,
    (watch, sources): (&Watch, &Sources),
    options: &Options,
    monitor: &dyn Monitor,
) -> Option<Narrowing> {
    let whole = |why: WholeWalk<'_>| monitor.event(Event::WholeWalk(why));
    let seen = seen.filter(|seen| seen.tops.iter().any(|top| top.part.is_some()))?;
    match narrow(previous, seen, (watch, sources), options) {
        Ok(narrowing) => {
            if narrowing.is_check {
                whole(WholeWalk::Due);
            } else {
                let inodes = narrowing.known.values().map(|known| known.changes.len() as u64).sum();
                monitor.event(Event::ChangesOnly { inodes, since: &previous.reader.header().name });
            }
            return Some(narrowing);
        }
        Err(Why::Plain(why)) => whole(why),
        Err(Why::Disagrees(path)) => whole(WholeWalk::Disagrees(&absolute(&path))),
    }
    None
}

/// Why everything is looked at.
enum Why {
    Plain(WholeWalk<'static>),
    Disagrees(Vec<u8>),
}

fn narrow(
    previous: &Previous,
    seen: Seen,
    (watch, sources): (&Watch, &Sources),
    options: &Options,
) -> Result<Narrowing, Why> {
    let header = previous.reader.header();
    if seen.conditions != conditions(options) || !are_same(&header.sources, sources.paths()) {
        return Err(Why::Plain(WholeWalk::OtherConditions));
    }
    if options.excludes.older_than.is_some() {
        return Err(Why::Plain(WholeWalk::ExcludesByAge));
    }
    let most = most(previous);
    let mut known: HashMap<u64, KnownPart> = HashMap::new();
    let mut places: Vec<(Subvolume, u64, &Top)> = Vec::new();
    let (mut paths, mut is_mounted_again) = (Vec::new(), false);
    for top in &seen.tops {
        let (number, Some(then)) = (top.dev, &top.part) else { continue };
        let Ok(fd) = watch.open(&top.path) else { continue };
        let Ok(Status { dev, ino, .. }) = Status::of(&fd) else { continue };
        if ino != top.ino {
            continue;
        }
        match then {
            Part::Subvolume(then) => {
                let Some(now) = watch.subvolume(fd.as_fd()) else { continue };
                if (now.filesystem, now.uuid) != (then.filesystem, then.uuid) {
                    continue;
                }
                if now.mount != then.mount {
                    is_mounted_again = true;
                    continue;
                }
                if let hash_map::Entry::Vacant(unknown) = known.entry(dev) {
                    let changed = Box::new(changes(&fd, now.root, then, most)?);
                    unknown.insert(KnownPart { number, changes: Changes::Subvolume(changed) });
                }
                places.push((now, dev, top));
            }
            Part::Xfs(then) => {
                let Some(sweep) = watch.sweep(dev).filter(|sweep| sweep.filesystem == *then) else { continue };
                if let hash_map::Entry::Vacant(unknown) = known.entry(dev) {
                    let found = swept_changes(previous, number, &sweep.found, most)?;
                    paths.extend(found.paths);
                    unknown.insert(KnownPart { number, changes: Changes::Xfs(found.inodes) });
                }
            }
        }
    }
    for (now, dev, top) in &places {
        if let (Some(known), Some(fd)) = (known.get_mut(dev), watch.filesystem(&now.filesystem)) {
            let added = add_links(previous, known, (fd, now.root), top);
            added.map_err(|()| Why::Plain(WholeWalk::Unreadable))?;
        }
    }
    if known.is_empty() {
        let why = if is_mounted_again { WholeWalk::MountedAgain } else { WholeWalk::OtherSubvolumes };
        return Err(Why::Plain(why));
    }
    let is_check = u64::from(seen.narrow) >= options.narrow_walks.unwrap_or(NARROW_WALKS);
    let ways = ways(&seen, &paths, sources).map_err(|_| Why::Plain(WholeWalk::Unreadable))?;
    let narrowing = Narrowing { known, ways, is_check, caches: options.excludes.caches, seen };
    let disagrees = spot_check::disagreement(&previous.reader, &narrowing, watch);
    match disagrees.map_err(|_| Why::Plain(WholeWalk::Unreadable))? {
        Some(path) => Err(Why::Disagrees(path)),
        None => Ok(narrowing),
    }
}

/// Whether these are the recorded sources.
fn are_same(recorded: &[impl AsRef<[u8]>], now: &[PathBuf]) -> bool {
    recorded.iter().map(AsRef::as_ref).eq(now.iter().map(|path| path.as_os_str().as_bytes()))
}

/// With more changes than this, everything is looked at.
pub(super) fn most(previous: &Previous) -> usize {
    most_of(previous.reader.totals().entries())
}

fn most_of(entries: u64) -> usize {
    usize::try_from(entries / MANY + FEW).unwrap_or(usize::MAX)
}

/// The inodes of a subvolume that changed since it was seen, if they are at most `most`.
fn changes(fd: &OwnedFd, root: u64, then: &SeenSubvolume, most: usize) -> Result<Changed, Why> {
    let found = changed::since(fd, (root, then.transaction), most);
    found.map_err(|_| Why::Plain(WholeWalk::Unreadable))?.ok_or(Why::Plain(WholeWalk::ManyChanges))
}

/// The changes on an XFS that has this device in the last manifest, if they are at most `most`.
fn swept_changes(previous: &Previous, number: u64, sweep: &Sweep, most: usize) -> Result<swept::Changes, Why> {
    let found = match &sweep.candidates {
        Some(candidates) => swept::changes(previous, number, candidates, most),
        None => Ok(None),
    };
    found.map_err(|_| Why::Plain(WholeWalk::Unreadable))?.ok_or(Why::Plain(WholeWalk::ManyChanges))
}

/// Renaming a directory does not change the inodes below it. But a file there with other names elsewhere must be looked
/// at under all its names, so that they stay names of one inode in the snapshot.
fn add_links(
    previous: &Previous,
    KnownPart { number, changes }: &mut KnownPart,
    (fd, root): (BorrowedFd<'_>, u64),
    top: &Top,
) -> Result<(), ()> {
    let Changes::Subvolume(changed) = changes else { return Ok(()) };
    for directory in changed.directories().to_vec() {
        let Some(below) = changed.path(top.ino, directory).map_err(|_| ())? else { continue };
        let path = if below.is_empty() { top.path.clone() } else { join(&top.path, &below) };
        let record = previous.reader.directory(&path).map_err(|_| ())?;
        let is_there = record.is_some_and(|cursor| {
            let meta = &cursor.directory().meta;
            (meta.dev, meta.ino) == (*number, directory)
        });
        if !is_there {
            changed.add_links_below(fd, root, directory).map_err(|_| ())?;
        }
    }
    Ok(())
}

/// The ways to the paths in `changed`, to those that are not settled, and to the places where another filesystem or
/// subvolume begins, or began in the last run.
fn ways(seen: &Seen, changed: &[Vec<u8>], sources: &Sources) -> io::Result<Ways> {
    let mounted = mounts::all()?;
    let points = mounted.iter().filter_map(|mount| mount.point.as_os_str().as_bytes().strip_prefix(b"/"));
    let is_in_sources = |path: &&[u8]| {
        let sources = sources.paths().iter().filter_map(|source| source.as_os_str().as_bytes().strip_prefix(b"/"));
        sources.into_iter().any(|source| is_below(path, source))
    };
    let tops = seen.tops.iter().map(|top| &top.path[..]);
    let others = changed.iter().chain(&seen.unsettled).map(|path| &path[..]);
    let mut ways = Ways::default();
    points.filter(is_in_sources).chain(tops).chain(others).for_each(|path| ways.add(path));
    Ok(ways)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_changes_are_never_too_many_and_a_part_of_all_entries_is() {
        assert_eq!([0, 3, 4, 1_000_000].map(most_of), [10_000, 10_000, 10_001, 260_000]);
    }

    #[test]
    fn the_sources_are_the_same_only_if_each_one_is_and_in_this_order() {
        let now = ["/home", "/srv"].map(PathBuf::from);
        let same = |recorded: &[&str]| {
            let recorded: Vec<_> = recorded.iter().map(|path| path.as_bytes().to_vec()).collect();
            are_same(&recorded, &now)
        };
        assert!(same(&["/home", "/srv"]));
        for other in
            [&["/srv", "/home"][..], &["/home", "/sr"], &["/etc", "/srv"], &["/home"], &["/home", "/srv", "/x"], &[]]
        {
            assert!(!same(other), "{other:?}");
        }
    }
}
