//! Two snapshots of one moment: the first looks only at what changed, and the second at everything.

use super::{has, take};
use crate::harness::own::Own;
use crate::harness::*;
use pleach::snapshot::create::{Options, Stats};
use pleach::testing::manifest::{Body, Entry, Item, Reader};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// All records of a snapshot's manifest except those of the directories above the source. Devices are numbered in the
/// order of their appearance: a frozen subvolume has another device each time.
fn records(repo: &Path, name: &str) -> Vec<Item> {
    let manifest = Reader::open(&repo.join(".pleach/manifests").join(name)).expect("the manifest is whole");
    let items = manifest.items().map(|item| item.expect("the manifest is whole"));
    let items = items.filter(|item| !matches!(item, Item::Directory(directory) if directory.scaffold));
    let mut devices = Vec::new();
    let renumbered = items.map(|mut item| {
        let meta = match &mut item {
            Item::Directory(directory) => &mut directory.meta,
            Item::Entry(entry) => &mut entry.meta,
        };
        // See `is_place_of_subvolume`.
        if meta.ino == 2 {
            (meta.mtime, meta.ctime) = Default::default();
        }
        // Renaming a subvolume changes the time of its root only in memory.
        if meta.ino == 256 {
            meta.ctime = Default::default();
        }
        if !devices.contains(&meta.dev) {
            devices.push(meta.dev);
        }
        meta.dev = devices.iter().position(|dev| *dev == meta.dev).unwrap_or_default() as u64;
        item
    });
    renumbered.collect()
}

/// Whether a directory is the place of a subvolume in the snapshot of another one. Its times are those of its first
/// look-up.
fn is_place_of_subvolume(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|status| status.ino() == 2)
}

/// The path of each record.
fn path_of(item: &Item) -> String {
    match item {
        Item::Directory(directory) => String::from_utf8_lossy(&directory.path).into_owned(),
        Item::Entry(entry) => String::from_utf8_lossy(&entry.name).into_owned(),
    }
}

/// The bytes in holes of all files. Names of one inode count once.
fn hole_bytes(records: &[Item]) -> u64 {
    let mut linked = HashSet::new();
    let entries = records.iter().filter_map(|item| if let Item::Entry(entry) = item { Some(entry) } else { None });
    let first = entries.filter(|entry| entry.meta.nlink < 2 || linked.insert((entry.meta.dev, entry.meta.ino)));
    first.filter_map(|entry| entry.file()).map(|file| file.holes).sum()
}

/// A source, a repository with narrow walks, and one with walks of everything.
pub(super) struct Both {
    /// The filesystem of the sources.
    kind: Kind,
    sources: Vec<PathBuf>,
    narrow: PathBuf,
    whole: PathBuf,
    options: Options,
}

impl Both {
    pub(super) fn new(kind: Kind, repos: &Own, name: &str, sources: Vec<PathBuf>, options: Options) -> Both {
        let path = |walk| repos.join(format!("{walk}-{name}"));
        Both { kind, sources, narrow: path("narrow"), whole: path("whole"), options }
    }

    /// Takes both snapshots, and asserts that trees, records and counts are the same. Returns whether the first one was
    /// narrow.
    pub(super) fn night(&self, name: &str, what: &str) -> bool {
        settle();
        let (one, recording) = take(name, &self.sources, &self.narrow, &self.options);
        let all = Options { narrow_walks: Some(0), ..self.options.clone() };
        let (other, checks) = take(name, &self.sources, &self.whole, &all);
        assert!(!has(&checks, "ChangeMissed") && !has(&checks, "ChangesOnly"), "{what}: {:?}", checks.events);
        let [narrow, whole] = [&self.narrow, &self.whole].map(|repo| records(repo, name));
        // The next narrow walk subtracts the records that it meets from these sums.
        for (records, stats) in [(&narrow, &one), (&whole, &other)] {
            assert_eq!(hole_bytes(records), stats.hole_bytes, "{name} after {what}");
        }
        let [narrow, whole] = [narrow, whole].map(|records| self.comparable(records));
        for (a, b) in narrow.iter().zip(&whole) {
            assert_eq!(a, b, "{name} after {what}, at {}", path_of(b));
        }
        assert_eq!(narrow.len(), whole.len(), "{name} after {what}");
        let [narrow, whole] = [one, other].map(|stats| self.comparable_sums(stats));
        assert_eq!(narrow, whole, "{name} after {what}");
        for source in &self.sources {
            let copies = [&self.narrow, &self.whole].map(|repo| inside(repo, name, source));
            let differences = tools::differences(&copies[1], &copies[0]);
            let is_real = |line: &&str| {
                let path = line.strip_prefix(".d..t...... ").unwrap_or_default();
                !line.is_empty() && !is_place_of_subvolume(&source.join(path))
            };
            let differences: Vec<_> = differences.lines().filter(is_real).collect();
            assert!(differences.is_empty(), "{name} after {what}: {differences:?}");
        }
        has(&recording, "ChangesOnly")
    }

    /// The records without what depends on the moment: to XFS, unwritten ranges are data once they were read.
    fn comparable(&self, mut records: Vec<Item>) -> Vec<Item> {
        for item in &mut records {
            if let (Kind::Xfs, Item::Entry(Entry { body: Body::File(file), .. })) = (self.kind, item) {
                file.holes = 0;
            }
        }
        records
    }

    /// The counts without those that depend on the moment. How much is read of renamed files depends on the order in
    /// which they are found.
    fn comparable_sums(&self, stats: Stats) -> Stats {
        let stats = Stats { read_bytes: 0, ..stats };
        if self.kind != Kind::Xfs {
            return stats;
        }
        // XFS may show a range as a hole or as data, so only the sum is the same.
        let cloned_bytes = stats.cloned_bytes + stats.copied_bytes + stats.hole_bytes;
        let stats = Stats { cloned_bytes, copied_bytes: 0, hole_bytes: 0, ..stats };
        Stats { range_shared_bytes: 0, rounding_bytes: 0, reasons: Default::default(), ..stats }
    }

    pub(super) fn remove(&self) {
        for repo in [&self.narrow, &self.whole] {
            tools::let_be_removed(repo);
            fs::remove_dir_all(repo).unwrap();
        }
    }
}
