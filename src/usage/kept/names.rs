//! The inodes of a tree, and by how many names each was found: one walk that only lists directories.

use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::tree::walk::{self, Directory, Name, Sources, Visitor};
use crate::usage::inodes::Inodes;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The inodes below a directory, with its own. `None` if they cannot all be listed, or if something is mounted there.
///
/// # Errors
/// If the run is cancelled.
pub(super) fn inodes(path: &Path, dev: u64, threads: usize, monitor: &dyn Monitor) -> Result<Option<Inodes>> {
    let Ok(sources) = Sources::resolve(&[path.to_path_buf()]) else { return Ok(None) };
    let lister = Lister { dev, is_incomplete: AtomicBool::new(false), monitor };
    let mut inodes = Inodes::default();
    walk::walk(&sources, &lister, threads, |found: Vec<u64>| {
        found.into_iter().for_each(|inode| {
            inodes.add(inode);
        });
        Ok(())
    })?;
    Ok((!lister.is_incomplete.into_inner()).then_some(inodes))
}

struct Lister<'a> {
    dev: u64,
    is_incomplete: AtomicBool,
    monitor: &'a dyn Monitor,
}

impl Lister<'_> {
    fn give_up(&self) {
        self.is_incomplete.store(true, Ordering::Relaxed);
    }
}

impl Visitor for Lister<'_> {
    type Place = ();
    type Output = Vec<u64>;

    fn enter(&self, directory: &Directory<()>, _: Option<&Directory<()>>) -> Result<Option<((), Vec<u64>)>> {
        if self.monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        if directory.scaffold {
            return Ok(Some(((), Vec::new())));
        }
        if directory.status.dev != self.dev {
            self.give_up();
            return Ok(None);
        }
        Ok(Some(((), vec![directory.status.ino])))
    }

    fn batch(&self, directory: &Directory<()>, names: &mut dyn Iterator<Item = Name<'_>>) -> Result<Vec<u64>> {
        if directory.scaffold {
            self.give_up();
            return Ok(Vec::new());
        }
        let mut inodes: Vec<_> = names.map(|name| name.ino).collect();
        inodes.sort_unstable();
        Ok(inodes)
    }

    fn leave(&self, _: &Directory<()>) -> Result<()> {
        Ok(())
    }

    fn incomplete(&self, _: Error) {
        self.give_up();
    }

    fn gone(&self) {
        self.give_up();
    }

    fn unreadable(&self, _: Option<&Directory<()>>, _: &[u8], _: Error) -> Result<Option<Vec<u64>>> {
        self.give_up();
        Ok(None)
    }
}
