//! A run that was killed sent packs that no index names. The next run finds them by a mark in the user's cache, and has
//! the library read their headers, so that nothing is sent twice. The mark is locked meanwhile: two runs of one user
//! would send the same.

use super::super::library_log;
use super::super::progress::watch;
use super::super::store::Store;
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::Monitor;
use rustic_core::repofile::{IndexFile, PackId};
use rustic_core::{FileType, Id, RepairIndexOptions, RusticResult, WriteBackend};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;

/// The bytes of the length at the end of a pack.
const LENGTH: u32 = 4;
/// A header has at least the code of its encryption.
const SHORTEST: u32 = 32;

/// A run that has begun.
pub(super) struct Unfinished {
    /// Without it, data may be sent twice after a kill.
    mark: Option<(PathBuf, File)>,
}

impl Unfinished {
    /// Begins a run. If the last one on this machine was killed, finds what it sent.
    ///
    /// # Errors
    /// Of kind `Locked`, if another run sends to this store.
    pub(super) fn begin(store: &Store, monitor: &dyn Monitor) -> Result<Unfinished> {
        let Some(path) = mark(store) else { return Ok(Unfinished { mark: None }) };
        let was_killed = path.exists();
        let made = path.parent().is_some_and(|above| fs::create_dir_all(above).is_ok());
        let file = File::options().create(true).truncate(false).write(true).open(&path).ok().filter(|_| made);
        let Some(file) = file else { return Ok(Unfinished { mark: None }) };
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            let error = Error::new(ErrorKind::Locked, format!("push to {}", store.url));
            return Err(error.because(std::io::Error::other("another push to it is running")).hint("try again later"));
        }
        if was_killed {
            index_packs(store, monitor)?;
        }
        Ok(Unfinished { mark: Some((path, file)) })
    }

    /// The run is complete.
    pub(super) fn end(self) {
        if let Some((path, _file)) = self.mark {
            let _ = fs::remove_file(path);
        }
    }
}

/// The mark of runs to this store.
fn mark(store: &Store) -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    let id = store.repository.config().id.to_hex().to_string();
    Some(base.join("pleach").join("offsite").join(id))
}

/// Adds packs to the index that it lacks. It is left alone if it names packs that are missing: that is damage.
fn index_packs(store: &Store, monitor: &dyn Monitor) -> Result<()> {
    let fault = || store.fault("look for data of an interrupted run in");
    let (result, _) = watch(
        &store.counts,
        None,
        monitor,
        || store.watch.end(),
        || {
            let backend = store.backend();
            let Some(packs) = packs_without_index(store, &*backend)? else { return Ok(()) };
            // A store that was full may have parts of packs. The library expects whole ones.
            let (whole, parts): (Vec<_>, Vec<_>) =
                packs.into_iter().partition(|(id, size)| is_whole(&*backend, id, *size));
            if whole.is_empty() {
                return Ok(());
            }
            store.watch.hide(parts.into_iter().map(|(id, _)| id));
            store.repository.repair_index(&RepairIndexOptions::default(), false)
        },
    )?;
    library_log::take();
    if monitor.is_cancelled() {
        return Err(Error::interrupted());
    }
    match result {
        Ok(result) => result.map_err(fault()),
        // What cannot be read is sent again.
        Err(_) => Ok(()),
    }
}

/// The packs that no index names. `None`: an index names packs that are missing.
fn packs_without_index(store: &Store, backend: &dyn WriteBackend) -> RusticResult<Option<HashMap<PackId, u32>>> {
    let listed = backend.list_with_size(FileType::Pack)?;
    let mut packs: HashMap<PackId, u32> = listed.into_iter().map(|(id, size)| (id.into(), size)).collect();
    for index in store.repository.stream_files::<IndexFile>()? {
        let (_, index) = index?;
        for pack in index.packs.into_iter().chain(index.packs_to_delete) {
            if packs.remove(&pack.id).is_none() {
                return Ok(None);
            }
        }
    }
    Ok(Some(packs))
}

/// Whether the length of the header at the end of a pack fits into it.
fn is_whole(backend: &dyn WriteBackend, id: &PackId, size: u32) -> bool {
    let Some(offset) = size.checked_sub(LENGTH).filter(|offset| *offset >= SHORTEST) else { return false };
    let id: &Id = id;
    let Ok(end) = backend.read_partial(FileType::Pack, id, false, offset, LENGTH) else { return false };
    let length = end.first_chunk().map(|length| u32::from_le_bytes(*length));
    length.is_some_and(|length| length >= SHORTEST && length <= offset)
}
