//! The data that a snapshot alone holds, from the extents of each of its files.

use crate::error::{Error, Result};
use crate::extents::extent::ExtentFlags;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::manifest::{Entry, Item};
use crate::snapshot::repository::Repository;
use crate::sys::fiemap;
use crate::tree::walk::absolute;
use crate::util::mutex::{self, lock};
use crate::util::pool;
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// How many files are measured together, and how many directories at most they lie in: each directory is held open.
const BATCH: usize = 4096;
const OPEN: usize = 256;

/// A directory of a snapshot's tree.
struct Place {
    fd: OwnedFd,
    path: Vec<u8>,
}

/// Bytes that only this snapshot's files hold, and how many entries could not be read.
pub(super) fn exclusive(repository: &Repository, name: &str, monitor: &dyn Monitor) -> Result<(u64, u64)> {
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
        let each = pool::map(std::mem::take(batch), |(directory, entry)| {
            monitor.advance(Amount { files: 1, bytes: 0 });
            alone(&directory.fd, &entry, &linked).unwrap_or_else(|errno| {
                let path = absolute(&[&directory.path[..], b"/", &entry.name].concat());
                problem(&Error::io(format!("read the extents in the snapshot {name} of"), path, errno));
                0
            })
        });
        if monitor.is_cancelled() { Err(Error::interrupted()) } else { Ok(each.into_iter().sum()) }
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
