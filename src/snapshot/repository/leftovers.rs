//! The leftovers of killed runs: snapshots in the making. They are set aside while a new run takes finished files over,
//! and are then deleted. None of them ever becomes a snapshot.
//!
//! All functions that change the repository need its lock.

use super::block_hashes;
use super::clearing::{Clearing, Unreported};
use super::dir::{Dir, os};
use super::handle::Repository;
use super::incoming::clear_incoming;
use super::layout::{BLOCKS, FINISHED};
use super::marks;
use super::publish::complete;
use super::records;
use super::reopened::complete_repairs;
use super::staging::Staging;
use super::trash::{clear_entry, empty_trash, throw_away};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::rename;
use crate::monitor::Monitor;
use crate::tree::deletion::{self, FreshNames};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};

/// The beginning of the names of leftovers that were set aside. No snapshot's name begins so.
const ASIDE: &str = ".killed-";
/// How many leftovers a run uses: the newest ones.
const MOST: usize = 4;

/// A leftover of a killed run.
#[derive(Debug)]
pub(crate) struct Leftover {
    /// Its tree.
    pub tree: OwnedFd,
    /// Its list of finished files.
    pub finished: File,
    /// Its lists of hashes, if it has any.
    pub(crate) blocks: Option<Dir>,
    name: Vec<u8>,
}

/// The useful leftovers of killed runs, newest first. They stay until [`clear_leftovers`] runs without them.
pub(crate) fn leftovers(repository: &Repository) -> Result<Vec<Leftover>> {
    let partial = repository.partial()?;
    let mut found = Vec::new();
    for name in partial.names()? {
        // One that cannot be read is not useful. Clearing the leftovers reports it.
        if partial.has_dir(os(&name)).unwrap_or(false)
            && let Some(parts) = partial.dir(os(&name)).ok().and_then(|dir| Parts::of(&dir))
        {
            let modified = parts.finished.metadata().and_then(|metadata| metadata.modified()).ok();
            found.push((modified, name, parts));
        }
    }
    found.sort_by(|(a, ..), (b, ..)| b.cmp(a));
    found.truncate(MOST);
    let mut leftovers = Vec::new();
    for (_, name, Parts { tree, finished, blocks }) in found {
        if deletion::mount_at(partial.as_fd(), &name).is_some() {
            // Moving it would move the mount. Clearing the leftovers reports the mount.
            continue;
        }
        // Under its own name it serves as well, unless the new snapshot has that name and is killed too.
        let name = set_aside(&partial, &name).map_or(name, String::into_bytes);
        leftovers.push(Leftover { tree, finished, blocks, name });
    }
    Ok(leftovers)
}

/// Removes the leftovers of killed or failed runs: staged snapshots except those in `used`, manifests without a
/// tree, the trash. Must not be called between [`begin`](super::begin) and [`publish`](super::publish).
///
/// `clearing` counts the failures. Each is reported, and what could not be cleared stays for the next run.
///
/// # Errors
/// Only if the run is cancelled.
pub(crate) fn clear_leftovers(
    repository: &Repository,
    used: &[Leftover],
    threads: usize,
    clearing: &Clearing<'_>,
) -> Result<()> {
    // An earlier run may have failed to sync a snapshot that appeared or was removed. Until that is on the disk, a
    // power cut may make a leftover a part of a snapshot again.
    let synced = repository.root.sync().map_err(|error| error.hint("nothing is cleared until this succeeds"));
    if clearing.note(synced).is_none() {
        return Ok(());
    }
    complete_repairs(repository, clearing);
    clear_incoming(repository, clearing);
    clear_partial(repository, used, clearing);
    clear_manifests(repository, clearing);
    block_hashes::clear(repository, clearing);
    records::clear(repository);
    marks::clear(repository, clearing);
    match empty_trash(repository, threads, clearing) {
        Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
        // What stays in the trash was reported.
        emptied => clearing.note(emptied),
    };
    Ok(())
}

/// Like [`clear_leftovers`], at the beginning of a run that calls that at its end: more may be possible then, because
/// space was freed. Reports no failure. Returns whether nothing stayed.
///
/// # Errors
/// Only if the run is cancelled.
pub(crate) fn try_clearing(
    repository: &Repository,
    used: &[Leftover],
    threads: usize,
    monitor: &dyn Monitor,
) -> Result<bool> {
    let unreported = Unreported(monitor);
    let clearing = Clearing::new(&unreported);
    clear_leftovers(repository, used, threads, &clearing).map(|()| clearing.errors() == 0)
}

/// Clears the staging area.
fn clear_partial(repository: &Repository, used: &[Leftover], clearing: &Clearing<'_>) {
    let Some(partial) = clearing.note(repository.partial()) else { return };
    let fresh = FreshNames::new();
    for name in clearing.note(partial.names()).unwrap_or_default() {
        if !used.iter().any(|leftover| leftover.is_named(&name)) {
            // Its directory stays until it is completed.
            let completed = complete(repository, &partial, &name);
            clearing.note(completed.and_then(|()| throw_away(repository, &partial, &name, &fresh)));
        }
    }
}

/// Clears the manifests without a tree. If somebody renamed a tree, it can be renamed back, and none is cleared.
fn clear_manifests(repository: &Repository, clearing: &Clearing<'_>) {
    let strays = clearing.note(repository.trees_without_manifest());
    if strays.is_none_or(|strays| !strays.is_empty()) {
        return;
    }
    let fresh = FreshNames::new();
    for name in clearing.note(repository.manifests_without_tree()).unwrap_or_default() {
        clearing.note(clear_entry(repository, &repository.manifests, &name, &fresh));
    }
}

/// Gives a staged snapshot up, and deletes it together with all other leftovers. The next run reports what stays.
pub(crate) fn discard(repository: &Repository, staging: Staging, threads: usize, monitor: &dyn Monitor) -> Result<()> {
    throw_away(repository, &staging.area.of(repository)?, staging.name().as_bytes(), &FreshNames::new())?;
    try_clearing(repository, &[], threads, monitor).map(|_| ())
}

impl Leftover {
    /// Whether it has this name in the directory of snapshots in the making.
    pub(super) fn is_named(&self, name: &[u8]) -> bool {
        self.name == name
    }
}

/// The useful parts of a leftover.
struct Parts {
    tree: OwnedFd,
    finished: File,
    blocks: Option<Dir>,
}

impl Parts {
    /// The parts in its directory; `None` without a tree and a list of finished files.
    fn of(dir: &Dir) -> Option<Parts> {
        let finished = dir.file(FINISHED, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).ok()?;
        finished.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(())?;
        Some(Parts { tree: dir.dir("tree").ok()?.into(), finished, blocks: dir.dir(BLOCKS).ok() })
    }
}

/// Gives a leftover a name that no new snapshot can have.
fn set_aside(partial: &Dir, name: &[u8]) -> Result<String> {
    if let Some(name) = std::str::from_utf8(name).ok().filter(|name| name.starts_with(ASIDE)) {
        return Ok(name.to_string());
    }
    let mut number = 0_u64;
    loop {
        let aside = format!("{ASIDE}{number}");
        match rename::without_replacing(partial, name, partial, aside.as_str()) {
            Ok(()) => return Ok(aside),
            Err(Errno::EXIST) => number += 1,
            Err(errno) => return Err(Error::io("set aside", partial.join(os(name)), errno)),
        }
    }
}
