//! Snapshots that are being received, in `.pleach/incoming`. They stay when the transfer ends early, so that it can go
//! on.
//!
//! All functions but one need the repository's lock.

use super::clearing::Clearing;
use super::dir::{Dir, os};
use super::handle::Repository;
use super::layout::{INCOMING, POSITION};
use super::name::check_name;
use super::publish::complete;
use super::staging::Staging;
use super::trash::{clear_entry, throw_away};
use crate::error::Result;
use crate::tree::deletion::FreshNames;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::time::SystemTime;

/// How many unfinished snapshots are kept: the newest ones.
const MOST: usize = 4;

/// What remains of a snapshot that was not received completely. `is_based`: its tree began as a snapshot of another
/// one. `None` if there is nothing, or if the name is taken by now.
pub(crate) fn incoming(repository: &Repository, name: &str, is_based: bool) -> Option<Staging> {
    check_name(name).ok()?;
    repository.root.stat(name).ok().filter(Option::is_none)?;
    let dir = repository.control.dir_if_any(INCOMING)?.dir(name).ok()?;
    Staging::remaining(name, dir, is_based)
}

/// The file that notes how far such a snapshot was received. This changes nothing, and needs no lock.
pub(crate) fn incoming_position(repository: &Repository, name: &str) -> Option<File> {
    check_name(name).ok()?;
    repository.root.stat(name).ok().filter(Option::is_none)?;
    position(&repository.control.dir_if_any(INCOMING)?, name.as_bytes())
}

/// Removes snapshots that cannot continue, and completes those that a killed run published.
pub(super) fn clear_incoming(repository: &Repository, clearing: &Clearing<'_>) {
    let Some(area) = repository.control.dir_if_any(INCOMING) else { return };
    let fresh = FreshNames::new();
    let mut kept: Vec<(SystemTime, Vec<u8>)> = Vec::new();
    for name in clearing.note(area.names()).unwrap_or_default() {
        if let Some(Some(time)) = clearing.note(clear_ended(repository, &area, &name, &fresh)) {
            kept.push((time, name));
        }
    }
    kept.sort();
    let surplus = kept.len().saturating_sub(MOST);
    for (_, name) in kept.iter().take(surplus) {
        clearing.note(throw_away(repository, &area, name, &fresh));
    }
}

/// Removes a snapshot that cannot continue, and completes one that was published. Returns when the position of another
/// one was noted last.
fn clear_ended(repository: &Repository, area: &Dir, name: &[u8], fresh: &FreshNames) -> Result<Option<SystemTime>> {
    complete(repository, area, name)?;
    match begun(area, name) {
        Some(time) if repository.root.stat(os(name))?.is_none() => Ok(Some(time)),
        _ => clear_entry(repository, area, name, fresh).map(|()| None),
    }
}

/// When the position of an unfinished snapshot was noted last, if it can continue.
fn begun(area: &Dir, name: &[u8]) -> Option<SystemTime> {
    position(area, name)?.metadata().ok()?.modified().ok()
}

/// The file that notes how far an unfinished snapshot was received, if it has a tree.
fn position(area: &Dir, name: &[u8]) -> Option<File> {
    let dir = area.dir(os(name)).ok()?;
    dir.has_dir("tree").ok().filter(|has| *has)?;
    dir.file(POSITION, OFlags::RDONLY, Mode::empty()).ok()
}
