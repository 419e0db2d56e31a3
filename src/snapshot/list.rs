//! Lists the snapshots of a repository: quickly from the ends of their manifests, and on request with their exclusive
//! data.

use super::kept;
use super::manifest::{Entry, Header, Item, Time, Totals};
use super::repository::{self, Added, Marks, Repository, SnapshotInfo};
use crate::error::{Error, Result};
use crate::extents::extent::ExtentFlags;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::sys::fiemap;
use crate::tree::walk::absolute;
use crate::util::mutex::{self, lock};
use rayon::prelude::*;
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// How many files are measured together, and how many directories at most they lie in: each directory is held open.
const BATCH: usize = 4096;
const OPEN: usize = 256;

/// Options of [`list`].
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Measure the data that each snapshot alone holds. This costs one call for each file.
    pub exclusive: bool,
    /// How many threads measure; by default as many as there are processors.
    pub threads: Option<usize>,
}

/// A snapshot of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Its name, which is also the name of its directory in the repository.
    pub name: String,
    /// The time when it was begun.
    pub created: Time,
    /// The machine's name.
    pub host: String,
    /// The absolute paths of its sources.
    pub sources: Vec<PathBuf>,
    /// The tags given by the user.
    pub tags: Vec<String>,
    /// Whether it is pinned, so that it is not removed.
    pub pinned: bool,
    /// The sums over its entries.
    pub totals: Totals,
    /// Bytes of its extents that no other file holds, in this snapshot or elsewhere. Deleting the snapshot frees at
    /// least these. (Data that only its own files share with each other is freed too, but not counted.) Measured from
    /// extents, on request.
    pub exclusive_bytes: Option<u64>,
    /// Bytes of the disk that it holds and no other snapshot of the repository does, by the maps that
    /// [`du`](super::du::du) keeps; `None` without a map of it. Other files may hold them too.
    pub only_here_bytes: Option<u64>,
    /// Whether all snapshots have maps. Otherwise `only_here_bytes` is an upper bound.
    pub has_all_maps: bool,
    /// The space that it added on the disk, measured when it was made; `None` if that was not recorded.
    pub added: Option<Added>,
}

/// The list and its sums.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The snapshots, oldest first.
    pub rows: Vec<Row>,
    /// Manifests and files that could not be read; each was reported to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Lists the snapshots of the repository at `repo`.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, list};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// create::create(&[source], &repo, &create::Options::default(), &Silent)?;
///
/// let snapshots = list::list(&repo, &list::Options::default(), &Silent)?;
/// assert_eq!(snapshots.rows[0].totals.files, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the repository cannot be opened, or the run is cancelled. A damaged manifest is reported as a problem and hides
/// no other snapshot.
pub fn list(repo: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let repository = Repository::open(repo)?;
    let listing = repository.listing()?;
    listing.problems.iter().for_each(|problem| monitor.problem(problem));
    repository.report_strays(monitor)?;
    let mut stats = Stats { errors: listing.problems.len() as u64, ..Stats::default() };
    let pool = match (options.exclusive, options.threads) {
        (true, Some(threads)) => Some(
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|_| Error::failed("start the threads that measure"))?,
        ),
        _ => None,
    };
    let mut names: Vec<String> = listing.snapshots.iter().map(|info| info.name.clone()).collect();
    names.extend(listing.unlisted);
    let (mut only_here, has_all_maps) = kept::alone(&repository, &names);
    for info in listing.snapshots {
        let mut exclusive_bytes = None;
        if options.exclusive {
            let expected = Amount { files: info.totals.files, bytes: 0 };
            monitor.phase(&format!("measuring {}", info.name), Some(expected));
            let measure = || exclusive(&repository, &info.name, monitor);
            let measured = pool.as_ref().map_or_else(measure, |pool| pool.install(measure));
            match measured {
                Ok((bytes, errors)) => {
                    exclusive_bytes = Some(bytes);
                    stats.errors += errors;
                }
                Err(error) if monitor.is_cancelled() => return Err(error),
                Err(error) => {
                    monitor.problem(&error);
                    stats.errors += 1;
                }
            }
        }
        let added = repository::added(&repository, &info.name);
        let marks = repository::marks(&repository, &info.name, &info.header.tags).unwrap_or_else(|error| {
            monitor.problem(&error);
            stats.errors += 1;
            Marks { tags: info.header.tags.clone(), pinned: true }
        });
        let only_here_bytes = only_here.remove(&info.name);
        stats.rows.push(Row { only_here_bytes, has_all_maps, ..row(info, marks, exclusive_bytes, added) });
    }
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

fn row(info: SnapshotInfo, marks: Marks, exclusive_bytes: Option<u64>, added: Option<Added>) -> Row {
    let sources = info.sources().map(Path::to_path_buf).collect();
    let SnapshotInfo { name, header, totals } = info;
    let Header { created, host, .. } = header;
    let Marks { tags, pinned } = marks;
    let (only_here_bytes, has_all_maps) = (None, false);
    Row { name, created, host, sources, tags, pinned, totals, exclusive_bytes, only_here_bytes, has_all_maps, added }
}

/// A directory of a snapshot's tree.
struct Place {
    fd: OwnedFd,
    path: Vec<u8>,
}

/// Bytes that only this snapshot's files hold, and how many entries could not be read.
fn exclusive(repository: &Repository, name: &str, monitor: &dyn Monitor) -> Result<(u64, u64)> {
    let manifest = repository.manifest(name)?;
    let tree = repository.tree(name)?;
    let errors = AtomicU64::new(0);
    let problem = |error: &Error| {
        monitor.problem(error);
        errors.fetch_add(1, Ordering::Relaxed);
    };
    let linked = Mutex::default();
    let mut batch: Vec<(Arc<Place>, Entry)> = Vec::new();
    let mut directory: Option<Arc<Place>> = None;
    let (mut open, mut bytes) = (0, 0);
    let measure = |batch: &mut Vec<(Arc<Place>, Entry)>| -> Result<u64> {
        let sum = batch
            .par_drain(..)
            .map(|(directory, entry)| {
                monitor.advance(Amount { files: 1, bytes: 0 });
                alone(&directory.fd, &entry, &linked).unwrap_or_else(|errno| {
                    let path = absolute(&[&directory.path[..], b"/", &entry.name].concat());
                    problem(&Error::io(format!("read the extents in the snapshot {name} of"), path, errno));
                    0
                })
            })
            .sum();
        if monitor.is_cancelled() { Err(Error::interrupted()) } else { Ok(sum) }
    };
    for item in manifest.items() {
        match item? {
            Item::Directory(record) => {
                if open >= OPEN {
                    bytes += measure(&mut batch)?;
                    open = 0;
                }
                let opened = openat::open_dir(tree.as_fd(), &record.path);
                open += 1;
                directory = match opened {
                    Ok(fd) => Some(Arc::new(Place { fd, path: record.path })),
                    Err(errno) => {
                        let action = format!("open the directory in the snapshot {name}");
                        problem(&Error::io(action, absolute(&record.path), errno));
                        None
                    }
                };
            }
            Item::Entry(entry) => {
                let Some(directory) = &directory else { continue };
                if entry.file().is_some_and(|file| file.size > 0) {
                    batch.push((Arc::clone(directory), entry));
                }
                if batch.len() >= BATCH {
                    bytes += measure(&mut batch)?;
                    open = 1;
                }
            }
        }
    }
    bytes += measure(&mut batch)?;
    bytes +=
        mutex::into_inner(linked).values().filter(|file| file.found == file.names).map(|file| file.bytes).sum::<u64>();
    Ok((bytes, errors.into_inner()))
}

/// A file with several names in its source.
#[derive(Default)]
struct Linked {
    /// Its names, in all snapshots.
    names: u64,
    /// Its names that were found in this snapshot.
    found: u64,
    /// Bytes that are freed with its last name.
    bytes: u64,
}

/// Bytes that are freed with this entry alone. A file with several names is added to `linked`, by its inode.
fn alone(directory: &OwnedFd, entry: &Entry, linked: &Mutex<HashMap<u64, Linked>>) -> rustix::io::Result<u64> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, &entry.name, flags, Mode::empty())?;
    let status = Status::of(&file)?;
    match (status.nlink, entry.meta.nlink) {
        (0 | 1, _) => unshared(&file),
        // Its other names are in other snapshots.
        (_, 0 | 1) => Ok(0),
        (names, _) => {
            let is_first = {
                let mut linked = lock(linked);
                let known = linked.entry(status.ino).or_default();
                known.found += 1;
                known.found == 1
            };
            if is_first {
                let bytes = unshared(&file)?;
                let mut linked = lock(linked);
                let known = linked.entry(status.ino).or_default();
                (known.names, known.bytes) = (names, bytes);
            }
            Ok(0)
        }
    }
}

/// Bytes in the extents of a file that have an address and are not shared.
fn unshared(file: &OwnedFd) -> rustix::io::Result<u64> {
    let mut bytes = 0;
    for extent in fiemap::extents(file, true) {
        let extent = extent?;
        if extent.physical.is_some() && !extent.flags.contains(ExtentFlags::SHARED) {
            bytes += extent.length;
        }
    }
    Ok(bytes)
}
