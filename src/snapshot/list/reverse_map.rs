//! The data that each snapshot alone holds, for all snapshots together and without opening a file: from the inodes and
//! the reverse map of an XFS, as root.

use crate::error::{Error, Result};
use crate::fs::openat;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::manifest::Item;
use crate::snapshot::repository::Repository;
use crate::tree::walk::{Name, Names, absolute};
use crate::usage::{Inodes, Unshared};
use crate::util::pool;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::AsFd as _;

/// For each of these snapshots: the bytes that only its files hold, and how many entries could not be read. A snapshot
/// that is not in the result must be measured by its files.
///
/// # Errors
/// If the run is cancelled.
pub(super) fn exclusive(
    repository: &Repository,
    names: &[String],
    monitor: &dyn Monitor,
) -> Result<HashMap<String, Result<(u64, u64)>>> {
    let Some(unshared) = Unshared::of(repository.fd(), repository.path()) else { return Ok(HashMap::new()) };
    monitor.phase("listing snapshots", None);
    let listed = pool::map(names, |name| inodes(repository, name, monitor));
    if monitor.is_cancelled() {
        return Err(Error::interrupted());
    }
    let mut results = HashMap::new();
    let (mut measured, mut sets) = (Vec::new(), Vec::new());
    for (name, listed) in names.iter().zip(listed) {
        match listed {
            Ok((inodes, errors)) => {
                measured.push((name.clone(), errors));
                sets.push(inodes);
            }
            Err(error) => {
                results.insert(name.clone(), Err(error));
            }
        }
    }
    match unshared.bytes(&sets, monitor) {
        Ok(Some(bytes)) => {
            let measured = measured.into_iter().zip(bytes);
            results.extend(measured.map(|((name, errors), bytes)| (name, Ok((bytes, errors)))));
            Ok(results)
        }
        Err(error) if monitor.is_cancelled() => Err(error),
        Ok(None) | Err(_) => Ok(HashMap::new()),
    }
}

/// The inodes of the files of a snapshot, and how many entries were not found; each was reported.
fn inodes(repository: &Repository, name: &str, monitor: &dyn Monitor) -> Result<(Inodes, u64)> {
    let manifest = repository.manifest(name)?;
    let tree = repository.tree(name)?;
    let mut inodes = Inodes::default();
    let mut errors = 0;
    let mut problem = |error: &Error| {
        monitor.problem(error);
        errors += 1;
    };
    let mut items = manifest.items().peekable();
    while let Some(item) = items.next() {
        let Item::Directory(record) = item? else { continue };
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        let names = match openat::open_dir(tree.as_fd(), &record.path) {
            Ok(fd) => Names::list(fd, |_, is_directory| !is_directory).0,
            Err(errno) => {
                let action = format!("open the directory in the snapshot {name}");
                problem(&Error::io(action, absolute(&record.path), errno));
                continue;
            }
        };
        let names: Vec<Name<'_>> = (0..names.batches()).flat_map(|batch| names.batch(batch)).collect();
        while let Some(Ok(Item::Entry(entry))) = items.next_if(|item| matches!(item, Ok(Item::Entry(_)))) {
            if entry.file().is_none_or(|file| file.size == 0) {
                continue;
            }
            match names.binary_search_by(|known| known.bytes.cmp(&entry.name)) {
                Ok(at) => {
                    inodes.add(names[at].ino);
                }
                Err(_) => {
                    let path = absolute(&[&record.path[..], b"/", &entry.name].concat());
                    problem(&Error::io(format!("read the extents in the snapshot {name} of"), path, Errno::NOENT));
                }
            }
        }
    }
    monitor.advance(Amount { files: inodes.count(), bytes: 0 });
    Ok((inodes, errors))
}
