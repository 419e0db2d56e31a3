//! A store's backend under watch: it counts the bytes that are written, remembers the first failure and the snapshots
//! that were removed, and after a failure takes no snapshot and removes nothing.
//!
//! The library continues with the next file if one cannot be stored or removed, and publishes a snapshot without it. So
//! a failure of the store, or an interruption, must end the run here.

use super::fault::in_one_line;
use super::keys;
use super::named;
use crate::util::mutex::lock;
use bytes::Bytes;
use rustic_core::repofile::PackId;
use rustic_core::{ErrorKind, FileType, Id, ReadBackend, RusticError, RusticResult, WriteBackend};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What happened so far.
#[derive(Debug, Default)]
pub(super) struct Watch {
    written: AtomicU64,
    is_over: AtomicBool,
    /// Snapshots are not written, although the library believes so.
    holds_snapshots: AtomicBool,
    failure: Mutex<Option<Box<RusticError>>>,
    read_failure: Mutex<Option<Box<RusticError>>>,
    snapshot: Mutex<Id>,
    removed: Mutex<HashSet<Id>>,
    /// Packs that are not whole.
    hidden: Mutex<HashSet<Id>>,
    /// Whether the last list of key files was empty.
    lacks_keys: AtomicBool,
    /// Key files that the library does not see, and why.
    odd_keys: Mutex<BTreeMap<Id, String>>,
}

impl Watch {
    /// Bytes of packs that were written.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether nothing may be published any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// From now on nothing is published.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Snapshots may be published again.
    pub(super) fn restart(&self) {
        self.is_over.store(false, Ordering::Relaxed);
    }

    /// Holds snapshots back, or no longer.
    pub(super) fn hold_snapshots(&self, holds: bool) {
        self.holds_snapshots.store(holds, Ordering::Relaxed);
    }

    /// The library does not see these packs.
    pub(super) fn hide(&self, packs: impl Iterator<Item = PackId>) {
        lock(&self.hidden).extend(packs.map(|id| *id));
    }

    /// The ID of the last snapshot that was published.
    pub(super) fn snapshot(&self) -> Id {
        *lock(&self.snapshot)
    }

    /// The IDs of the snapshots that were removed.
    pub(super) fn removed(&self) -> HashSet<Id> {
        lock(&self.removed).clone()
    }

    /// The key files that were skipped, and why.
    pub(super) fn odd_keys(&self) -> Vec<String> {
        lock(&self.odd_keys).iter().map(|(id, why)| format!("keys/{}: {why}", id.to_hex().as_str())).collect()
    }

    /// Whether the store has no key file, not even a bad one.
    pub(super) fn lacks_keys(&self) -> bool {
        self.lacks_keys.load(Ordering::Relaxed)
    }

    /// The first failure to write.
    pub(super) fn failure(&self) -> Option<Box<RusticError>> {
        lock(&self.failure).take()
    }

    /// The first failure to read.
    pub(super) fn read_failure(&self) -> Option<Box<RusticError>> {
        lock(&self.read_failure).take()
    }

    /// Reads, unless the run is over.
    fn read(&self, read: impl FnOnce() -> RusticResult<Bytes>) -> RusticResult<Bytes> {
        if self.is_over() {
            return Err(over());
        }
        read().map_err(|error| {
            // A run that ends does not wait for another answer.
            if self.is_over() {
                return error;
            }
            let copy = RusticError::new(ErrorKind::Backend, "the store cannot be read");
            lock(&self.read_failure).get_or_insert(error);
            copy
        })
    }

    fn fail(&self, error: Box<RusticError>) -> Box<RusticError> {
        self.end();
        let copy = RusticError::new(ErrorKind::Backend, "the store failed");
        lock(&self.failure).get_or_insert(error);
        copy
    }
}

/// The error of a request after the end of the run.
fn over() -> Box<RusticError> {
    RusticError::new(ErrorKind::Other, "the run has ended")
}

/// The backend.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) inner: Arc<dyn WriteBackend>,
    pub(super) watch: Arc<Watch>,
}

impl Watched {
    /// The key files that the library can try.
    fn usable_keys(&self, found: Vec<(Id, u32)>) -> Vec<(Id, u32)> {
        let fault = |id: &Id, size: u32| {
            if size > keys::LONGEST {
                return Some("it is too long".to_string());
            }
            match self.inner.read_full(FileType::Key, id) {
                Ok(content) => match named::file(FileType::Key, id, content) {
                    Ok(content) => keys::fault(&content),
                    Err(_) => Some("its content does not have its hash".to_string()),
                },
                Err(error) => {
                    let why = in_one_line(&error);
                    lock(&self.watch.read_failure).get_or_insert(error);
                    Some(why)
                }
            }
        };
        self.watch.lacks_keys.store(found.is_empty(), Ordering::Relaxed);
        let mut odd = lock(&self.watch.odd_keys);
        found.into_iter().filter(|(id, size)| fault(id, *size).map(|why| odd.insert(*id, why)).is_none()).collect()
    }
}

impl ReadBackend for Watched {
    fn location(&self) -> String {
        self.inner.location()
    }

    fn list_with_size(&self, tpe: FileType) -> RusticResult<Vec<(Id, u32)>> {
        let mut found = self.inner.list_with_size(tpe)?;
        if tpe == FileType::Pack {
            let hidden = lock(&self.watch.hidden);
            found.retain(|(id, _)| !hidden.contains(id));
        }
        Ok(if tpe == FileType::Key { self.usable_keys(found) } else { found })
    }

    fn list(&self, tpe: FileType) -> RusticResult<Vec<Id>> {
        match tpe {
            FileType::Key => Ok(self.list_with_size(tpe)?.into_iter().map(|(id, _)| id).collect()),
            _ => self.inner.list(tpe),
        }
    }

    fn read_full(&self, tpe: FileType, id: &Id) -> RusticResult<Bytes> {
        self.watch.read(|| named::file(tpe, id, self.inner.read_full(tpe, id)?))
    }

    fn read_partial(&self, tpe: FileType, id: &Id, cache: bool, offset: u32, length: u32) -> RusticResult<Bytes> {
        self.watch.read(|| self.inner.read_partial(tpe, id, cache, offset, length))
    }

    fn warmup_path(&self, tpe: FileType, id: &Id) -> String {
        self.inner.warmup_path(tpe, id)
    }
}

impl WriteBackend for Watched {
    fn create(&self) -> RusticResult<()> {
        self.inner.create()
    }

    fn write_bytes(&self, tpe: FileType, id: &Id, cacheable: bool, content: Bytes) -> RusticResult<()> {
        if tpe == FileType::Snapshot && self.watch.is_over() {
            return Err(over());
        }
        if tpe == FileType::Snapshot && self.watch.holds_snapshots.load(Ordering::Relaxed) {
            return Ok(());
        }
        let length = content.len() as u64;
        self.inner.write_bytes(tpe, id, cacheable, content).map_err(|error| self.watch.fail(error))?;
        if tpe == FileType::Snapshot {
            *lock(&self.watch.snapshot) = *id;
        }
        if tpe == FileType::Pack {
            self.watch.written.fetch_add(length, Ordering::Relaxed);
        }
        Ok(())
    }

    fn remove(&self, tpe: FileType, id: &Id, cacheable: bool) -> RusticResult<()> {
        if self.watch.is_over() {
            return Err(over());
        }
        self.inner.remove(tpe, id, cacheable).map_err(|error| self.watch.fail(error))?;
        if tpe == FileType::Snapshot {
            lock(&self.watch.removed).insert(*id);
        }
        Ok(())
    }
}
