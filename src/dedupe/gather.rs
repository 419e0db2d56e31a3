//! The walk: every regular file below the paths, into the catalogue. No file is opened.
//!
//! Filesystems are told apart by their own identity, not by `st_dev`, which differs between the subvolumes of one Btrfs.

use super::Options;
use super::catalogue::{Catalogue, NO_PARENT};
use super::places::Places;
use crate::error::{Error, Result};
use crate::exclude::Filter;
use crate::filesystem::Kind;
use crate::monitor::{Amount, Monitor};
use crate::mutex::{self, lock};
use crate::status::Status;
use crate::walk::{self, Directory, Name, Names, Sources, Visitor, absolute};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// What the walk found.
pub(super) struct Gathered {
    pub(super) catalogue: Catalogue,
    /// What could not be looked at, each told already.
    pub(super) errors: u64,
}

/// Threads that list directories and ask for the status of files: cold inodes want requests under way, not cores.
const THREADS: usize = 8;

/// Walks the paths. `own` is the inode of a file of ours, to be left alone.
///
/// # Errors
/// If none of the paths is there, or the user stops it.
pub(super) fn gather(
    paths: &[PathBuf],
    own: Option<(u64, u64)>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Gathered> {
    let errors = AtomicU64::new(0);
    let sources = sources(paths, &errors, monitor)?;
    let gather = Gather {
        filter: Filter::new(&options.excludes, &sources),
        own,
        monitor,
        errors,
        places: Places::default(),
        directories: Mutex::new(Catalogue::default()),
    };
    let mut entries: Vec<Batch> = Vec::new();
    walk::walk(&sources, &gather, options.threads.unwrap_or(THREADS), |batch| {
        entries.extend(batch);
        // The names wait only until the walk is over it; a batch at a time they go into the catalogue.
        if entries.len() >= 64 { gather.put(&mut entries) } else { Ok(()) }
    })?;
    gather.put(&mut entries)?;
    gather.filter.tell_unmatched(monitor);
    let errors = gather.errors.into_inner();
    let mut catalogue = mutex::into_inner(gather.directories);
    let (subvolumes, volumes) = gather.places.into_parts();
    catalogue.set_places(subvolumes, volumes);
    Ok(Gathered { catalogue, errors })
}

/// The paths that are there; each other one is told. None at all is a failure.
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
    own: Option<(u64, u64)>,
    monitor: &'a dyn Monitor,
    errors: AtomicU64,
    places: Places,
    directories: Mutex<Catalogue>,
}

/// A directory: its number, and the subvolume that its files lie in, where they can share.
pub(super) struct Place {
    number: u32,
    subvolume: Option<u16>,
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

    fn put(&self, batches: &mut Vec<Batch>) -> Result<()> {
        let mut catalogue = self.directories();
        for batch in batches.drain(..) {
            for (name, status) in batch.files {
                catalogue
                    .add_file(batch.directory, &name, batch.subvolume, &status)
                    .ok_or_else(|| Error::failed("keep so many names (4 GiB)").hint("name fewer paths at a time"))?;
            }
        }
        Ok(())
    }

    /// Whether a directory is to be entered, and the subvolume that its files lie in.
    fn place(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<Place>>,
    ) -> rustix::io::Result<Option<Option<u16>>> {
        let above = parent.and_then(|parent| parent.place.subvolume);
        if let (Some(subvolume), Some(parent)) = (above, parent)
            && parent.status.dev == directory.status.dev
        {
            return Ok(Some(Some(subvolume)));
        }
        let (kind, subvolume) = self.places.find(&directory.fd, &directory.status)?;
        if directory.scaffold {
            return Ok(Some(subvolume));
        }
        let named = parent.is_none_or(|parent| parent.scaffold);
        let path = absolute(&directory.path);
        if subvolume.is_none() {
            if named {
                self.problem(&unsupported(kind).at(path));
            } else if self.places.is_first_of(directory.status.dev) {
                let path = crate::text::path(&path);
                self.monitor.notice(&format!("{path} is left out: {kind} cannot share extents"));
            }
            return Ok(None);
        }
        Ok(Some(subvolume))
    }
}

fn unsupported(kind: Kind) -> Error {
    let cause = io::Error::other(format!("{kind} cannot share extents"));
    Error::failed("dedupe").because(cause).hint("XFS and Btrfs can")
}

impl Visitor for Gather<'_> {
    type Place = Place;
    type Output = Option<Batch>;

    fn enter(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<Place>>,
    ) -> Result<Option<(Place, Option<Batch>)>> {
        let subvolume = match self.place(directory, parent) {
            Ok(Some(subvolume)) => subvolume,
            Ok(None) => return Ok(None),
            Err(errno) => {
                self.problem(&Error::io("look at the filesystem of", absolute(&directory.path), errno));
                return Ok(None);
            }
        };
        let above = parent.map_or(NO_PARENT, |parent| parent.place.number);
        let number = self.directories().add_directory(above, directory.name());
        let number = number.ok_or_else(|| Error::failed("keep so many names (4 GiB)"))?;
        Ok(Some((Place { number, subvolume }, None)))
    }

    fn list(&self, directory: &Directory<()>) -> (Names, Option<io::Error>) {
        self.filter.list(directory)
    }

    fn approach(&self, parent: &Directory<Place>, path: &[u8]) -> Result<ControlFlow<Option<Option<Batch>>>> {
        Ok(if self.filter.stops_at(parent, path) { ControlFlow::Break(None) } else { ControlFlow::Continue(()) })
    }

    fn batch(&self, directory: &Directory<Place>, names: &mut dyn Iterator<Item = Name<'_>>) -> Result<Option<Batch>> {
        if self.monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        let mut files = Vec::new();
        let path = |name: &Name<'_>| absolute(&directory.join(name.bytes));
        for name in names {
            match Status::at(&directory.fd, name.bytes) {
                Ok(status) if status.file_type() != FileType::RegularFile => {}
                Ok(status) if self.own == Some((status.dev, status.ino)) => {}
                Ok(status) => files.push((name.bytes.to_vec(), status)),
                // Removed since it was listed.
                Err(Errno::NOENT) => {}
                Err(errno) => self.problem(&Error::io("look at", path(&name), errno)),
            }
        }
        let bytes = files.iter().map(|(_, status)| status.size).sum();
        self.monitor.advance(Amount { files: files.len() as u64, bytes });
        let Some(subvolume) = directory.place.subvolume else {
            for (name, _) in files {
                let kind = self.places.find(&directory.fd, &directory.status).map_or(Kind::Other(0), |(kind, _)| kind);
                self.problem(&unsupported(kind).at(absolute(&directory.join(&name))));
            }
            return Ok(None);
        };
        Ok(Some(Batch { directory: directory.place.number, subvolume, files }))
    }

    fn leave(&self, _: &Directory<Place>) -> Result<()> {
        Ok(())
    }

    fn incomplete(&self, error: Error) {
        self.filter.note_unreadable();
        self.problem(&error);
    }

    fn unreadable(&self, _: Option<&Directory<Place>>, _: &[u8], error: Error) -> Result<Option<Option<Batch>>> {
        self.filter.note_unreadable();
        self.problem(&error);
        Ok(None)
    }
}
