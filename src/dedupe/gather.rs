//! The walk: adds every regular file below the paths to the catalogue. It opens no file.
//!
//! Filesystems are distinguished by their own identity, not by `st_dev`, which differs between the subvolumes of one
//! Btrfs. On a filesystem that cannot share extents, the walk enters only directories that lead to a mounted filesystem
//! that can.

use super::catalogue::{Catalogue, NO_PARENT};
use super::durable::Disks;
use super::filesystems::Filesystems;
use super::options::Options;
use super::skip::Skip;
use crate::content::hash;
use crate::error::{Error, Result};
use crate::fs::filesystem::Kind;
use crate::fs::mounts;
use crate::fs::status::Status;
use crate::monitor::{Amount, Event, Monitor};
use crate::tree::exclude::Filter;
use crate::tree::walk::{self, Directory, Name, Names, Sources, Visitor, absolute};
use crate::util::mutex::{self, lock};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The results of the walk.
pub(super) struct Gathered {
    pub(super) catalogue: Catalogue,
    /// The filesystems that they lie on.
    pub(super) disks: Disks,
    /// Files and directories that could not be examined; each was reported.
    pub(super) errors: u64,
    /// Files that are not in the catalogue, by reason. A directory that cannot be deduplicated counts as one file.
    pub(super) skipped: BTreeMap<Skip, u64>,
}

/// Threads that list directories and get the status of files. Reading uncached inodes needs many requests under way,
/// not many cores.
const THREADS: usize = 8;

/// Walks the paths. `cache_inode` is the inode of the cache, which the walk skips.
///
/// # Errors
/// If none of the paths exists, or the user stops the walk.
pub(super) fn gather(
    paths: &[PathBuf],
    cache_inode: Option<(u64, u64)>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Gathered> {
    let errors = AtomicU64::new(0);
    let sources = sources(paths, &errors, monitor)?;
    let gather = Gather {
        filter: Filter::new(&options.excludes, &sources),
        cache_inode,
        monitor,
        errors,
        too_sparse: AtomicU64::new(0),
        unsupported: AtomicU64::new(0),
        sharing_mounts: if options.excludes.one_file_system { Vec::new() } else { mounts_that_can_share() },
        filesystems: Filesystems::default(),
        directories: Mutex::new(Catalogue::default()),
    };
    let mut entries: Vec<Batch> = Vec::new();
    walk::walk(&sources, &gather, options.threads.unwrap_or(THREADS), |batch| {
        entries.extend(batch);
        // Names are held only until the walk has passed them; they are added to the catalogue in batches.
        if entries.len() >= 64 { gather.put(&mut entries) } else { Ok(()) }
    })?;
    gather.put(&mut entries)?;
    gather.filter.report_unmatched(monitor);
    let skipped =
        [(Skip::Sparse, gather.too_sparse.into_inner()), (Skip::Unsupported, gather.unsupported.into_inner())];
    let skipped = skipped.into_iter().filter(|(_, files)| *files > 0).collect();
    let errors = gather.errors.into_inner();
    let mut catalogue = mutex::into_inner(gather.directories);
    let (subvolumes, volumes, disks) = gather.filesystems.into_parts();
    catalogue.set_places(subvolumes, volumes);
    Ok(Gathered { catalogue, disks, errors, skipped })
}

/// The existing paths; each missing path is reported. If no path exists, that is an error.
fn sources(paths: &[PathBuf], errors: &AtomicU64, monitor: &dyn Monitor) -> Result<Sources> {
    let mut there = Vec::new();
    for path in paths {
        match path.canonicalize() {
            Ok(resolved) => there.push(resolved),
            Err(cause) => {
                let error = Error::io("find", path, cause);
                if paths.len() == 1 {
                    return Err(error);
                }
                monitor.problem(&error);
                errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    if there.is_empty() {
        return Err(Error::failed("find any of the paths"));
    }
    Sources::resolve(&there)
}

struct Gather<'a> {
    filter: Filter,
    cache_inode: Option<(u64, u64)>,
    monitor: &'a dyn Monitor,
    errors: AtomicU64,
    /// Files that consist almost entirely of holes, which are skipped.
    too_sparse: AtomicU64,
    /// Named paths on a filesystem that cannot share extents.
    unsupported: AtomicU64,
    /// The mount points of filesystems that can share extents.
    sharing_mounts: Vec<PathBuf>,
    filesystems: Filesystems,
    directories: Mutex<Catalogue>,
}

/// A directory, with the facts that matter for its files.
pub(super) struct DirectoryFacts {
    /// Its number.
    number: u32,
    /// The subvolume of its files, if they can share extents.
    subvolume: Option<u16>,
    /// The files cannot share extents. The directory is entered only because a filesystem that can is mounted below it.
    is_passage: bool,
}

/// Files of one directory.
pub(super) struct Batch {
    directory: u32,
    subvolume: u16,
    files: Vec<(Vec<u8>, Status)>,
}

impl Gather<'_> {
    fn directories(&self) -> MutexGuard<'_, Catalogue> {
        lock(&self.directories)
    }

    fn problem(&self, error: &Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.monitor.problem(error);
    }

    /// Handles a directory that cannot be read.
    fn skipped(&self, error: &Error) {
        self.filter.note_unreadable();
        self.problem(error);
    }

    fn put(&self, batches: &mut Vec<Batch>) -> Result<()> {
        let mut catalogue = self.directories();
        for batch in batches.drain(..) {
            for (name, status) in batch.files {
                catalogue
                    .add_file(batch.directory, &name, batch.subvolume, &status)
                    .ok_or_else(|| Error::failed("keep more than 4 GiB of names").hint("name fewer paths at a time"))?;
            }
        }
        Ok(())
    }

    /// The subvolume of a directory's files, and whether the directory is a passage. `None`: the directory is not
    /// entered.
    fn classify(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<DirectoryFacts>>,
    ) -> rustix::io::Result<Option<(Option<u16>, bool)>> {
        let above = parent.and_then(|parent| parent.place.subvolume);
        if let (Some(subvolume), Some(parent)) = (above, parent)
            && parent.status.dev == directory.status.dev
        {
            return Ok(Some((Some(subvolume), false)));
        }
        let (kind, subvolume) = self.filesystems.find(&directory.fd, &directory.status)?;
        if directory.scaffold || subvolume.is_some() {
            return Ok(Some((subvolume, false)));
        }
        let named = parent.is_none_or(|parent| parent.scaffold);
        let path = absolute(&directory.path);
        let is_first = self.filesystems.is_first_of(directory.status.dev);
        if named {
            self.unsupported.fetch_add(1, Ordering::Relaxed);
            self.problem(&unsupported(kind).at(&path));
        } else if is_first {
            self.monitor.event(Event::FilesystemSkipped { path: &path, filesystem: &kind.to_string() });
        }
        Ok(self.leads_on(&path).then_some((None, true)))
    }

    /// Whether a filesystem that can share extents is mounted below a directory.
    fn leads_on(&self, path: &Path) -> bool {
        self.sharing_mounts.iter().any(|point| point != path && point.starts_with(path))
    }
}

/// The mount points of filesystems that can share extents. Without `/proc` none are known.
fn mounts_that_can_share() -> Vec<PathBuf> {
    // By the names the kernel lists: statfs(2) may wait for a server that is gone.
    let can = |mount: &mounts::Mount| matches!(mount.kind.as_str(), "xfs" | "btrfs" | "bcachefs");
    mounts::all().unwrap_or_default().into_iter().filter(can).map(|mount| mount.point).collect()
}

fn unsupported(kind: Kind) -> Error {
    let cause = io::Error::other(format!("{kind} cannot share extents"));
    Error::failed("dedupe").because(cause).hint("XFS and Btrfs can")
}

impl Visitor for Gather<'_> {
    type Place = DirectoryFacts;
    type Output = Option<Batch>;

    fn enter(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<DirectoryFacts>>,
    ) -> Result<Option<(DirectoryFacts, Option<Batch>)>> {
        let (subvolume, is_passage) = match self.classify(directory, parent) {
            Ok(Some(facts)) => facts,
            Ok(None) => return Ok(None),
            Err(errno) => {
                self.problem(&Error::io("query the filesystem of", absolute(&directory.path), errno));
                return Ok(None);
            }
        };
        let above = parent.map_or(NO_PARENT, |parent| parent.place.number);
        let number = self.directories().add_directory(above, directory.name());
        let number = number.ok_or_else(|| Error::failed("keep more than 4 GiB of names"))?;
        Ok(Some((DirectoryFacts { number, subvolume, is_passage }, None)))
    }

    fn list(&self, directory: &Directory<()>, _: &DirectoryFacts) -> (Names, Option<io::Error>) {
        self.filter.list(directory)
    }

    fn approach(&self, parent: &Directory<DirectoryFacts>, path: &[u8]) -> Result<ControlFlow<Option<Option<Batch>>>> {
        let path_of = || absolute(path);
        let is_dead_end =
            || parent.place.is_passage && !(self.leads_on(&path_of()) || self.sharing_mounts.contains(&path_of()));
        let stops = is_dead_end() || self.filter.stops_at(parent, path);
        Ok(if stops { ControlFlow::Break(None) } else { ControlFlow::Continue(()) })
    }

    fn batch(
        &self,
        directory: &Directory<DirectoryFacts>,
        names: &mut dyn Iterator<Item = Name<'_>>,
    ) -> Result<Option<Batch>> {
        if self.monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        if directory.place.is_passage {
            return Ok(None);
        }
        let mut files = Vec::new();
        let path = |name: &Name<'_>| absolute(&directory.join(name.bytes));
        for name in names {
            match Status::at(&directory.fd, name.bytes) {
                Ok(status) if status.file_type() != FileType::RegularFile => {}
                Ok(status) if self.cache_inode == Some((status.dev, status.ino)) => {}
                Ok(status) if hash::is_too_sparse(&status) => {
                    self.too_sparse.fetch_add(1, Ordering::Relaxed);
                }
                Ok(status) => files.push((name.bytes.to_vec(), status)),
                // Removed since it was listed.
                Err(Errno::NOENT) => directory.note_missing(name.bytes),
                Err(errno) => self.problem(&Error::io("look at", path(&name), errno)),
            }
        }
        let bytes = files.iter().map(|(_, status)| status.size).sum();
        self.monitor.advance(Amount { files: files.len() as u64, bytes });
        let Some(subvolume) = directory.place.subvolume else {
            for (name, _) in files {
                let kind =
                    self.filesystems.find(&directory.fd, &directory.status).map_or(Kind::UNKNOWN, |(kind, _)| kind);
                self.unsupported.fetch_add(1, Ordering::Relaxed);
                self.problem(&unsupported(kind).at(absolute(&directory.join(&name))));
            }
            return Ok(None);
        };
        if !files.is_empty() {
            self.filesystems.use_directory(&directory.fd, subvolume);
        }
        Ok(Some(Batch { directory: directory.place.number, subvolume, files }))
    }

    fn leave(&self, _: &Directory<DirectoryFacts>) -> Result<()> {
        Ok(())
    }

    fn incomplete(&self, error: Error) {
        self.skipped(&error);
    }

    /// One that was removed or moved, as the staging tree of a running snapshot is, is no failure, like a removed file.
    fn gone(&self) {
        self.filter.note_unreadable();
    }

    fn unreadable(
        &self,
        _: Option<&Directory<DirectoryFacts>>,
        _: &[u8],
        error: Error,
    ) -> Result<Option<Option<Batch>>> {
        self.skipped(&error);
        Ok(None)
    }
}
