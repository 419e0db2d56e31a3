//! The versions of one path in all snapshots of a repository. Reads only the parts of the manifests that have the path.

use super::manifest::{Body, Entry, Item, Meta, Reader, Time};
use super::repository::{Repository, SnapshotInfo};
use super::skipped::Skipped;
use super::source_path::normal;
use crate::error::{Error, Result};
use crate::monitor::{Amount, Monitor};
use crate::tree::walk::absolute;
use crate::util::path::{is_below, join, split};
use crate::util::text;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Options of [`log()`].
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {}

/// The type of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A regular file.
    File {
        /// Its apparent size.
        size: u64,
        /// BLAKE3 of its content. `None`: its size, mtime and inode identify the version.
        hash: Option<[u8; 32]>,
    },
    /// A directory. The names and types of its entries, its mode and its owner identify the version.
    Directory,
    /// A symbolic link to this target.
    Symlink(PathBuf),
    /// A device, named pipe or socket.
    Other,
    /// The path did not exist.
    Absent,
    /// It is unknown whether the path existed: the run of the snapshot skipped it with an error.
    Unreadable,
}

/// A version of a path, or a time when it did not exist or was unreadable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Version {
    /// The type and the content.
    pub kind: Kind,
    /// The time of its last change, in the newest snapshot that has it. `None` if the path did not exist.
    pub mtime: Option<Time>,
    /// The name of the oldest snapshot that has this version.
    pub first: String,
    /// The name of the newest snapshot that has it.
    pub last: String,
    /// How many snapshots have it. If an older version came back, others may be between the first and the last.
    pub snapshots: u64,
}

/// The versions, and the counts.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The versions, and the times without one, the newest first.
    pub versions: Vec<Version>,
    /// The snapshots that were searched: those with the path in a source, or a source below the path.
    pub snapshots: u64,
    /// The snapshots without the path that are incomplete: it may have been unreadable.
    pub incomplete: u64,
    /// Snapshots that could not be searched; each was reported to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Lists the versions of the absolute path `path` in the repository at `repo`. Two versions with the same content are
/// one, also if their metadata differs. Times before the first version are not an absence.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, log};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// for content in ["Dear Ann", "Dear Ann,"] {
///     std::fs::write(source.join("letter"), content)?;
///     create::create(&[source.clone()], &repo, &create::Options::default(), &Silent)?;
/// }
/// let letter = source.canonicalize()?.join("letter");
/// let stats = log::log(&repo, &letter, &log::Options::default(), &Silent)?;
/// assert_eq!((stats.versions.len(), stats.versions[0].snapshots), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the repository cannot be opened, no snapshot has the path, or the run is cancelled. A snapshot that cannot be
/// read is reported to the monitor and counted.
pub fn log(repo: &Path, path: &Path, _: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let wanted = normal("look for", path)?;
    let repository = Repository::open(repo)?;
    let listing = repository.listing()?;
    listing.problems.iter().for_each(|problem| monitor.problem(problem));
    repository.report_strays(monitor)?;
    let mut stats = Stats { errors: listing.problems.len() as u64, ..Stats::default() };
    let shown = absolute(&wanted);
    let searched: Vec<SnapshotInfo> = listing.snapshots.into_iter().filter(|info| info.may_have(&shown)).collect();
    monitor.phase("searching", Some(Amount { files: searched.len() as u64, bytes: 0 }));
    let mut found: Vec<(Identity, Version)> = Vec::new();
    // The last one that may lack it for that reason.
    let mut incomplete = None;
    let mut last_kind = Kind::Unreadable;
    for info in searched {
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        monitor.advance(Amount { files: 1, bytes: 0 });
        let state = match repository.manifest(&info.name).and_then(|manifest| find(&manifest, &wanted)) {
            Ok(state) => state,
            Err(error) => {
                stats.errors += 1;
                monitor.problem(&error);
                continue;
            }
        };
        stats.snapshots += 1;
        let (identity, kind, mtime) = match state {
            Some((identity, kind, mtime)) => (identity, kind, Some(mtime)),
            None => {
                let skipped = Skipped::of(&repository, &info.name, &info.totals);
                let kind = match &skipped {
                    Some(skipped) if skipped.has(&wanted) => Kind::Unreadable,
                    _ => Kind::Absent,
                };
                if let Some(skipped) = skipped.filter(|skipped| kind == Kind::Unreadable || skipped.may_have_others()) {
                    stats.incomplete += 1;
                    incomplete = Some(skipped);
                }
                // It did not exist yet.
                if kind == Kind::Absent && found.iter().all(|(identity, _)| *identity == Identity::None) {
                    continue;
                }
                (Identity::None, kind, None)
            }
        };
        let is_same_kind = std::mem::replace(&mut last_kind, kind.clone()) == kind;
        // Each time without a version is of its own; a version that comes back is not.
        let known = match identity {
            Identity::None => found.last_mut().filter(|_| is_same_kind),
            _ => found.iter_mut().find(|(known, _)| *known == identity),
        };
        match known {
            Some((_, version)) => {
                version.last.clone_from(&info.name);
                (version.mtime, version.kind) = (mtime, kind);
                version.snapshots += 1;
            }
            None => {
                let (first, last) = (info.name.clone(), info.name);
                found.push((identity, Version { kind, mtime, first, last, snapshots: 1 }));
            }
        }
    }
    if let Some(skipped) = incomplete {
        skipped.report(monitor);
    }
    if found.is_empty() && stats.errors == 0 {
        let action = format!("find {} in any snapshot in", text::path(&shown));
        return Err(Error::failed(action).at(repo).hint("give an absolute path, as in the sources"));
    }
    // In the order in which they began, the newest first.
    found.reverse();
    stats.versions = found.into_iter().map(|(_, version)| version).collect();
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// How many records of a subdirectory are passed one after the other: about a block of the manifest.
const PASSED: usize = 512;

/// What makes two versions the same.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    Hash([u8; 32]),
    /// A file without a hash: size, mtime, inode.
    Inode(u64, Time, u64),
    Target(Vec<u8>),
    /// A directory: a hash of its entries, mode, owner, group.
    Directory([u8; 32], u32, u32, u32),
    /// A device, named pipe or socket: mode and numbers.
    Node(u32, u32, u32),
    /// There is no version.
    None,
}

/// The path in a snapshot.
fn find(manifest: &Reader, path: &[u8]) -> Result<Option<(Identity, Kind, Time)>> {
    let (directory, name) = split(path);
    // The record of a directory is in another block than those of the entries beside it.
    if let Some(entry) = manifest.entry(directory, name)? {
        return Ok(Some(describe(entry)));
    }
    let Some(found) = manifest.directory(path)? else { return Ok(None) };
    let Meta { mode, uid, gid, mtime, .. } = found.directory().meta;
    let identity = Identity::Directory(entries(manifest, path)?, mode, uid, gid);
    Ok(Some((identity, Kind::Directory, mtime)))
}

/// A hash of the names and types of everything in a directory. Records of large subdirectories are not read.
fn entries(manifest: &Reader, path: &[u8]) -> Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut add = |name: &[u8], kind: u32| {
        hasher.update(name).update(&[0]).update(&(kind & 0o170_000).to_le_bytes());
    };
    let mut items = manifest.items_from(path);
    // The subdirectory that was added last, and how many records in it were passed.
    let mut child: Option<(Vec<u8>, usize)> = None;
    while let Some(item) = items.next() {
        let item = item?;
        let directory = items.directory();
        if !is_below(directory, path) {
            break;
        }
        if directory == path {
            if let Item::Entry(entry) = item {
                add(&entry.name, entry.meta.mode);
            }
            continue;
        }
        let rest = &directory[if path.is_empty() { 0 } else { path.len() + 1 }..];
        let name = rest.split(|byte| *byte == b'/').next().unwrap_or_default();
        match &mut child {
            Some((known, passed)) if known == name => {
                *passed += 1;
                if *passed == PASSED {
                    // No name is between this one and its successors.
                    let next = [join(path, name).as_slice(), b"\0"].concat();
                    items = manifest.items_from(&next);
                }
            }
            _ => {
                add(name, 0o040_000);
                child = Some((name.to_vec(), 0));
            }
        }
    }
    Ok(*hasher.finalize().as_bytes())
}

fn describe(entry: Entry) -> (Identity, Kind, Time) {
    let Meta { mode, mtime, ino, .. } = entry.meta;
    let node = |major, minor| (Identity::Node(mode & 0o170_000, major, minor), Kind::Other);
    let (identity, kind) = match entry.body {
        Body::File(file) => {
            let identity = file.hash.map_or(Identity::Inode(file.size, mtime, ino), Identity::Hash);
            (identity, Kind::File { size: file.size, hash: file.hash })
        }
        Body::Symlink(target) => (Identity::Target(target.clone()), Kind::Symlink(OsString::from_vec(target).into())),
        Body::Device(major, minor) => node(major, minor),
        Body::Fifo | Body::Socket => node(0, 0),
    };
    (identity, kind, mtime)
}
