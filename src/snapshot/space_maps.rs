//! The maps of the space that snapshots hold (`usage::kept`): made by `du`, and used for the figures of `du`, `list`
//! and dry runs. Without maps everything is measured.

use super::repository::{self, MapDraft, Repository};
use crate::error::Result;
use crate::monitor::Monitor;
use crate::usage::kept::{self, LinkToTree, Reader, Subjects, Tree};
use crate::usage::{self, Freed};
use std::collections::HashMap;
use std::io::{BufWriter, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

/// How many ranges `list` reads at most.
const MOST: u64 = 16 << 20;

/// The figures from maps.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// What removing each snapshot alone frees, in the order of the names. Empty if it was not wanted.
    pub(super) rows: Vec<Freed>,
    /// What removing all of them frees.
    pub(super) set: Freed,
}

/// The work that was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// The number of maps that were made and kept.
    pub(super) made: u64,
    /// The number of files that were mapped, one by one.
    pub(super) mapped: u64,
}

/// Figures of the snapshots `names` from maps, and with `each` of each of them. `None` if they must be measured. With
/// `remake`, maps that turn out to be wrong are made again.
///
/// # Errors
/// If the run is cancelled.
pub(super) fn figures(
    repository: &Repository,
    names: &[String],
    (each, remake): (bool, bool),
    options: &usage::Options,
    monitor: &dyn Monitor,
    work: &mut Work,
) -> Result<Option<Figures>> {
    for attempt in 0..2 {
        let (known, members) = known(repository, names, each, options, monitor)?;
        match known {
            Some(kept::Figures::Known { rows, set, mapped }) => {
                work.mapped += mapped;
                return Ok(Some(Figures { rows, set }));
            }
            Some(kept::Figures::Stale(stale)) if remake && attempt == 0 => {
                let stale: Vec<&String> = stale.iter().filter_map(|number| members.get(*number)).collect();
                make(repository, &stale, options, monitor, work)?;
            }
            _ => break,
        }
    }
    Ok(None)
}

/// Makes the missing maps of the snapshots `names`. With `again`, makes all of them.
/// Whatever fails is measured instead.
///
/// # Errors
/// If the run is cancelled.
pub(super) fn prepare(
    repository: &Repository,
    names: &[String],
    again: bool,
    options: &usage::Options,
    monitor: &dyn Monitor,
    work: &mut Work,
) -> Result<()> {
    let missing = |name: &&String| again || open(repository, name).is_none();
    let missing: Vec<&String> = names.iter().filter(missing).collect();
    make(repository, &missing, options, monitor, work)
}

/// Makes the maps of these snapshots.
fn make(
    repository: &Repository,
    names: &[&String],
    options: &usage::Options,
    monitor: &dyn Monitor,
    work: &mut Work,
) -> Result<()> {
    let Some(first) = names.first() else { return Ok(()) };
    // Before any work is done: can maps be kept at all?
    match MapDraft::begin(repository, first) {
        Some(draft) => draft.discard(),
        None => return Ok(()),
    }
    if options.sync {
        let _ = repository.sync();
    }
    let opened: Vec<(&String, OwnedFd, u64)> = names
        .iter()
        .filter_map(|name| {
            let files = repository.info(name).map_or(0, |info| info.totals.files);
            Some((*name, repository.tree(name).ok()?, files))
        })
        .collect();
    let trees: Vec<Tree<'_>> = opened
        .iter()
        .filter_map(|(name, fd, files)| {
            let path = std::path::absolute(repository.path().join(name)).ok()?;
            Some(Tree { path, fd: fd.as_fd(), files: *files })
        })
        .collect();
    if trees.len() < opened.len() {
        return Ok(());
    }
    let mut made = 0;
    let result = kept::make(&trees, usage::threads(options), monitor, &mut |number, mut map| {
        let name = opened[number].0;
        let Some(mut draft) = MapDraft::begin(repository, name) else { return };
        let mut out = BufWriter::new(&mut draft.file);
        let written = map.write(name, &mut out).and_then(|()| out.flush());
        drop(out);
        match written {
            Ok(()) => made += u64::from(draft.keep(name).is_ok()),
            Err(_) => draft.discard(),
        }
    });
    work.made += made;
    match result {
        Ok(mapped) => work.mapped += mapped,
        Err(error) if monitor.is_cancelled() => return Err(error),
        Err(_) => {}
    }
    Ok(())
}

/// Figures from maps, or the maps that do not fit; `None` if maps are missing. With the names of the maps.
fn known(
    repository: &Repository,
    names: &[String],
    each: bool,
    options: &usage::Options,
    monitor: &dyn Monitor,
) -> Result<(Option<kept::Figures>, Vec<String>)> {
    let mut maps: Vec<(String, Reader)> = Vec::new();
    let numbers: HashMap<&String, usize> = names.iter().zip(0..).collect();
    for name in names {
        let Some(map) = open(repository, name) else { return Ok((None, Vec::new())) };
        maps.push((name.clone(), map));
    }
    for name in repository.snapshot_names()? {
        if !numbers.contains_key(&name)
            && let Some(map) = open(repository, &name)
        {
            maps.push((name, map));
        }
    }
    if options.sync {
        // Data of other files that is only in memory has no place on the disk yet.
        let _ = repository.sync();
    }
    let set: Vec<bool> = (0..maps.len()).map(|map| map < names.len()).collect();
    let roots = maps.iter().map(|(name, _)| repository.path().join(name)).collect();
    let beside = maps.iter().map(|(name, _)| beside(repository, name)).collect();
    let link = link(repository, names);
    let (members, maps) = maps.into_iter().unzip();
    let subjects = Subjects { fd: repository.fd(), path: repository.path(), maps, set, roots, beside, link, each };
    match kept::figures(subjects, usage::threads(options), monitor) {
        Ok(figures) => Ok((Some(figures), members)),
        Err(error) if monitor.is_cancelled() => Err(error),
        Err(_) => Ok((None, members)),
    }
}

/// Everything that is removed with a snapshot, except its tree.
fn beside(repository: &Repository, name: &str) -> Vec<PathBuf> {
    let tree = repository.path().join(name);
    repository::parts(repository, name).into_iter().filter(|path| *path != tree).collect()
}

/// The link `latest`, if it leads to one of these snapshots.
fn link(repository: &Repository, names: &[String]) -> Option<LinkToTree> {
    let with_set = repository::latest_that_goes(repository, names)?;
    let goes_with = |name: &String| repository::latest_that_goes(repository, std::slice::from_ref(name));
    let (tree, alone) = names.iter().enumerate().find_map(|(tree, name)| Some((tree, goes_with(name)?)))?;
    Some(LinkToTree { tree, alone, with_set })
}

/// The map of a snapshot, if there is one that can still be right.
fn open(repository: &Repository, name: &str) -> Option<Reader> {
    let map = Reader::open(repository::map(repository, name)?).ok()?;
    let is_plausible = map.header().name == name && map.header().identity.is_plausible(repository.tree(name).ok()?);
    is_plausible.then_some(map)
}

/// The bytes that each snapshot holds and no other snapshot does, by name, and whether all of `names` have maps.
pub(super) fn alone(repository: &Repository, names: &[String]) -> (HashMap<String, u64>, bool) {
    let opened: Vec<_> = names.iter().filter_map(|name| Some((name.clone(), open(repository, name)?))).collect();
    let is_complete = opened.len() == names.len();
    let (names, mut maps): (Vec<String>, Vec<Reader>) = opened.into_iter().unzip();
    if maps.iter().map(|map| map.header().ranges).fold(0, u64::saturating_add) > MOST {
        return (HashMap::new(), false);
    }
    match kept::alone(&mut maps) {
        Some(bytes) => (names.into_iter().zip(bytes).collect(), is_complete),
        None => (HashMap::new(), false),
    }
}
