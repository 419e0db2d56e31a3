//! The library on a store in a directory, for what neither pleach nor restic does to a store.

use super::stores::{PASSWORD, Store};
use crate::harness::*;
use pleach::snapshot::offsite::Local;
use rustic_core::repofile::{Node, SnapshotFile};
use rustic_core::{
    BackupOptions, Credentials, IndexedFullStatus, PackedId, ParentOptions, ReadSource, ReadSourceEntry, Repository,
    RepositoryBackends, RepositoryOptions, RusticResult,
};
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the store.
pub(super) fn open(store: &Store) -> Repository<IndexedFullStatus> {
    let backend = Local::new(Path::new(&store.url));
    let mut options = RepositoryOptions::default();
    options.no_cache = true;
    let closed = Repository::new(&options, &RepositoryBackends::new(Arc::new(backend), None)).unwrap();
    closed.open(&Credentials::Password(PASSWORD.into())).unwrap().to_indexed().unwrap()
}

/// The entry of a path in the only snapshot.
pub(super) fn node(repository: &Repository<IndexedFullStatus>, path: &Path) -> Node {
    let [snapshot] = &repository.get_all_snapshots().unwrap()[..] else { panic!("there is one snapshot") };
    repository.node_from_path(snapshot.tree, path).unwrap()
}

/// The lengths of a blob: as it is stored, and decompressed.
pub(super) fn lengths(repository: &Repository<IndexedFullStatus>, id: &impl PackedId) -> (u32, u32) {
    let location = repository.get_index_entry(id).unwrap().location;
    (location.length, location.data_length())
}

/// Exchanges two blobs of the same length, for which nobody needs the key.
#[track_caller]
pub(super) fn exchange<T: PackedId>(store: &Store, blobs: [&T; 2]) {
    let repository = open(store);
    let [one, other] = blobs.map(|id| {
        let entry = repository.get_index_entry(id).unwrap();
        let pack = entry.pack.to_hex().to_string();
        let pack = Path::new(&store.url).join("data").join(&pack[..2]).join(pack);
        fs::set_permissions(&pack, fs::Permissions::from_mode(0o600)).unwrap();
        let mut content = vec![0; entry.location.length as usize];
        let at = u64::from(entry.location.offset);
        fs::File::open(&pack).unwrap().read_exact_at(&mut content, at).unwrap();
        (pack, at, content)
    });
    assert_eq!(one.2.len(), other.2.len());
    overwrite(&one.0, one.1, &other.2);
    overwrite(&other.0, other.1, &one.2);
}

/// An entry with its path, and the content of a file.
pub(super) type Entry = (PathBuf, Node, Option<&'static [u8]>);

/// A source with any entries.
struct Forged(Vec<Entry>);

impl ReadSource for Forged {
    type Open = Cursor<&'static [u8]>;
    type Iter = std::vec::IntoIter<RusticResult<ReadSourceEntry<Self::Open>>>;

    fn size(&self) -> RusticResult<Option<u64>> {
        Ok(None)
    }

    fn entries(&self) -> Self::Iter {
        let entry = |(path, node, content): &Entry| {
            let open = content.map(Cursor::new);
            Ok(ReadSourceEntry { path: path.clone(), node: node.clone(), open })
        };
        self.0.iter().map(entry).collect::<Vec<_>>().into_iter()
    }
}

/// Stores a snapshot with these entries, as someone with the password could.
#[track_caller]
pub(super) fn forge(store: &Store, name: &str, entries: Vec<Entry>) {
    let mut snapshot = SnapshotFile::default();
    snapshot.tags.add(format!("pleach:{name}"));
    let options = BackupOptions::default().parent_opts(ParentOptions::default().force(true)).no_scan(true);
    open(store).archive(&options, &Forged(entries), snapshot, &["/".into()]).unwrap();
}
