//! Blobs of a store that have their IDs. An ID is the hash of the content. The library only checks that a blob was
//! encrypted with the key of the store, so whoever keeps the store could exchange two of them unnoticed.

use super::fault::{causes, in_one_line};
use super::named::{self, WrongHash};
use super::store::Store;
use super::stored::Stored;
use crate::error::Result;
use crate::util::mutex::{into_inner, lock};
use crate::util::{parallel, text};
use bytes::Bytes;
use rustic_core::repofile::Tree;
use rustic_core::{
    BlobId, DataId, ErrorKind, IndexedFullStatus, PackedId, Repository, RusticError, RusticResult, TreeId,
};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// How many directories are read at once, as in the library.
const READERS: usize = 4;

/// Reads a block of files.
///
/// # Errors
/// If it cannot be read, or does not have its ID.
pub(super) fn data(repository: &Repository<IndexedFullStatus>, id: &DataId) -> RusticResult<Bytes> {
    blob(repository, id)
}

/// Reads a directory.
///
/// # Errors
/// If it cannot be read, does not have its ID, or is not a directory.
pub(super) fn tree(repository: &Repository<IndexedFullStatus>, id: &TreeId) -> RusticResult<Tree> {
    let data = blob(repository, id)?;
    let failed = |cause| RusticError::with_source(ErrorKind::Internal, "The directory cannot be understood.", cause);
    serde_json::from_slice(&data).map_err(failed)
}

fn blob<T: PackedId>(repository: &Repository<IndexedFullStatus>, id: &T) -> RusticResult<Bytes> {
    let id: BlobId = (*id).into();
    named::blob(&id, repository.get_blob_cached(&id, T::TYPE)?)
}

/// Whether this is the error of a blob that can be read, but does not have its ID.
pub(super) fn is_exchanged(error: &RusticError) -> bool {
    causes(error).any(|cause| cause.is::<WrongHash>())
}

/// The damaged directories of snapshots, in words.
#[derive(Default)]
pub(super) struct Damaged {
    /// Those that are other ones than they should be.
    pub(super) exchanged: Vec<String>,
    /// One that cannot be read.
    pub(super) unread: Option<String>,
}

/// Reads the directories of these snapshots.
///
/// # Errors
/// If the index cannot be read.
pub(super) fn directories(store: &Store, snapshots: &[Stored], action: &str) -> Result<Damaged> {
    let repository = store.again().and_then(Repository::to_indexed).map_err(store.fault(action))?;
    let mut seen = HashSet::new();
    let damaged = Mutex::new(Damaged::default());
    for snapshot in snapshots {
        let name = snapshot.name.clone().unwrap_or_else(|| snapshot.file.id.to_hex().to_string());
        let mut level = vec![(PathBuf::from("/"), snapshot.file.tree)];
        while !level.is_empty() && !store.counts.is_cancelled() {
            level.retain(|(_, id)| seen.insert(*id));
            let inner = parallel::each(READERS, level, |(path, id)| match tree(&repository, &id) {
                Ok(tree) => inner(&path, tree),
                Err(error) => {
                    lock(&damaged).add(&name, &path, &error);
                    Vec::new()
                }
            });
            level = inner.into_iter().flatten().collect();
        }
    }
    Ok(into_inner(damaged))
}

impl Damaged {
    fn add(&mut self, snapshot: &str, path: &Path, error: &RusticError) {
        let directory = format!("snapshot {}: directory {}", text::escape(snapshot.as_ref()), text::path(path));
        match is_exchanged(error) {
            true => self.exchanged.push(format!("{directory}: the data does not have its hash")),
            false => {
                self.unread.get_or_insert_with(|| format!("{directory}: {}", in_one_line(error)));
            }
        }
    }
}

/// The directories in a directory.
fn inner(path: &Path, tree: Tree) -> Vec<(PathBuf, TreeId)> {
    tree.into_iter().filter_map(|node| Some((path.join(node.name()), node.subtree?))).collect()
}
