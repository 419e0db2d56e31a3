//! Lists of hashes of large files (`delta::list`). The newest snapshot's lists serve to compare the changed files of
//! the next snapshot. The snapshot in the making gets its own lists.
//!
//! They lie in `.pleach/blocks/NAME`: one directory for each snapshot, one file for each list, named by the content's
//! BLAKE3. Lists that a new snapshot still needs are linked into its own directory. The directory of the snapshot
//! before is removed when the new snapshot is complete.
//!
//! They only save time, so nothing here fails a run.
//!
//! All functions that change the repository need its lock.

use super::clearing::Clearing;
use super::dir::{Dir, os};
use super::handle::Repository;
use super::layout::BLOCKS;
use super::staging::Staging;
use super::trash::{clear_entry, throw_away};
use crate::content::delta::{List, NewList};
use crate::content::hash::tree::GRAIN;
use crate::error::Result;
use crate::tree::deletion::FreshNames;
use data_encoding::HEXLOWER;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use std::sync::atomic::{AtomicU64, Ordering};

/// The lists of one run.
#[derive(Debug)]
pub(crate) struct BlockHashes {
    old: Option<Dir>,
    new: Dir,
    next: AtomicU64,
}

/// A list that is being made, and its provisional name.
#[derive(Debug)]
pub(crate) struct Draft {
    /// The list.
    pub list: NewList,
    name: String,
}

impl BlockHashes {
    /// The list of the last snapshot's file with this size and BLAKE3, if there is one.
    pub(crate) fn list(&self, size: u64, hash: &[u8; 32]) -> Option<List> {
        let file = self.old.as_ref()?.file(HEXLOWER.encode(hash), OFlags::RDONLY, Mode::empty()).ok()?;
        List::open(file, size, hash)
    }

    /// Begins a list for a file of this size. `None` if this is impossible: a list only saves time.
    pub(crate) fn begin(&self, size: u64) -> Option<Draft> {
        let name = format!("new.{:x}", self.next.fetch_add(1, Ordering::Relaxed));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = self.new.file(&name, flags, Mode::RUSR | Mode::WUSR).ok()?;
        Some(Draft { list: NewList::new(file, size, GRAIN), name })
    }

    /// Keeps a finished list under its name, or drops it if there is no hash.
    pub(crate) fn end(&self, draft: &Draft, hash: Option<&[u8; 32]>) {
        let name = draft.name.as_str();
        let kept = hash.is_some_and(|hash| fs::renameat(&self.new, name, &self.new, HEXLOWER.encode(hash)).is_ok());
        if !kept {
            let _ = self.new.unlink(name);
        }
    }

    /// Takes the list of a file over from the last snapshot, if it has one and this snapshot has none.
    pub(crate) fn carry(&self, hash: &[u8; 32]) {
        if let Some(old) = &self.old {
            self.carry_from(old, hash);
        }
    }

    /// Takes over the lists of the last snapshot's files that have hashes for which `is_out` is false.
    pub(crate) fn carry_others(&self, is_out: impl Fn(&[u8; 32]) -> bool) {
        let Some(old) = &self.old else { return };
        let hashes = old.names().unwrap_or_default().into_iter().filter_map(|name| HEXLOWER.decode(&name).ok());
        let hashes = hashes.filter_map(|hash| <[u8; 32]>::try_from(hash).ok());
        hashes.filter(|hash| !is_out(hash)).for_each(|hash| self.carry_from(old, &hash));
    }

    /// Like [`carry`](Self::carry), from another directory of lists, which a killed run left.
    pub(crate) fn carry_from(&self, lists: &Dir, hash: &[u8; 32]) {
        let name = HEXLOWER.encode(hash);
        let _ = fs::linkat(lists, name.as_str(), &self.new, name.as_str(), AtFlags::empty());
    }
}

/// The lists for a run that makes `staging` and compares it with the snapshot `parent`.
pub(crate) fn blocks(repository: &Repository, staging: &Staging, parent: Option<&str>) -> Result<BlockHashes> {
    let new = staging.dir.make_dir(BLOCKS)?;
    // Those of an earlier snapshot of this name would be in the way.
    drop_blocks(repository, staging.name());
    let all = repository.control.dir_if_any(BLOCKS);
    let old = all.zip(parent).and_then(|(all, parent)| all.dir_if_any(parent));
    Ok(BlockHashes { old, new, next: AtomicU64::new(0) })
}

/// Puts the lists of a snapshot into the trash, because a newer snapshot has its own, or because it is gone. The lists
/// of a snapshot that is gone are tried again by the next run.
pub(crate) fn drop_blocks(repository: &Repository, name: &str) {
    if let Some(all) = repository.control.dir_if_any(BLOCKS) {
        let _ = clear_entry(repository, &all, name.as_bytes(), &FreshNames::new());
    }
}

/// Puts the lists of a staged snapshot into their place, if possible: without them, the next run only reads more. Until
/// the snapshot's tree is in its place, they are leftovers there.
pub(super) fn publish(repository: &Repository, staging: &Staging) {
    let is_empty = || fs::unlinkat(&staging.dir, BLOCKS, AtFlags::REMOVEDIR).is_ok();
    let has_any = staging.dir.has_dir(BLOCKS).unwrap_or(false) && !is_empty();
    if has_any && let Ok(all) = repository.control.make_dir(BLOCKS) {
        let _ = fs::renameat(&staging.dir, BLOCKS, &all, staging.name());
    }
}

/// Puts the lists of snapshots that no longer exist into the trash.
pub(super) fn clear(repository: &Repository, clearing: &Clearing<'_>) {
    let Some(all) = repository.control.dir_if_any(BLOCKS) else { return };
    let fresh = FreshNames::new();
    for name in clearing.note(all.names()).unwrap_or_default() {
        if clearing.note(repository.is_gone(os(&name))).unwrap_or(false) {
            clearing.note(throw_away(repository, &all, &name, &fresh));
        }
    }
}
