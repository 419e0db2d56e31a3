//! What a staging tree has already because it began as a snapshot of the last tree: unchanged entries are only recorded,
//! and changed ones are taken out before they are brought in again. What is gone is `removal`'s.

use super::context::{Context, Target, cannot_make, is_no_name};
use super::fill::is_inline;
use super::links::Kept;
use super::place::Place;
use super::seen::Seen;
use super::stats::Stats;
use crate::error::Result;
use crate::fs::openat;
use crate::monitor::Amount;
use crate::snapshot::manifest::{Body, Entry, FileBody, Meta, Stored};
use crate::tree::deletion;
use crate::tree::inode_map::Identity;
use crate::tree::walk::Directory;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::os::fd::AsFd;

impl Context<'_> {
    /// The record of an entry of which nothing has to be done; `None` for all others.
    pub(super) fn keep(
        &self,
        directory: &Directory<Place>,
        seen: &Seen<'_>,
        part: &mut Stats,
    ) -> Result<Option<Entry>> {
        let Some(staged) = self.staged.as_ref().filter(|staged| staged.based) else { return Ok(None) };
        let Some(old) = seen.old.as_ref().filter(|_| seen.change.is_none()) else { return Ok(None) };
        let body = match &old.body {
            Body::File(file) => match self.kept_file(directory, seen.name, file) {
                Some(file) => Body::File(file),
                None => return Ok(None),
            },
            body => body.clone(),
        };
        let meta = Meta { dev: seen.status.dev, ..old.meta.clone() };
        let entry = Entry { name: seen.name.to_vec(), meta, body };
        let is_first = match seen.status.nlink {
            0 | 1 => true,
            _ => {
                let kept = staged.links.keep(&Identity::of(&seen.status), &directory.path, &entry);
                match kept.map_err(|errno| cannot_make(&directory.join(seen.name), errno))? {
                    Kept::First => true,
                    Kept::Again => false,
                    // Another name of the inode has been brought in by itself: this one becomes a link to that.
                    Kept::Apart => return Ok(None),
                }
            }
        };
        if let Some(file) = entry.file().filter(|_| is_first) {
            count(file, part);
            self.monitor.advance(Amount { files: 0, bytes: file.size });
        }
        Ok(Some(entry))
    }

    /// The record that cloning the file once more would have led to.
    fn kept_file(&self, directory: &Directory<Place>, name: &[u8], old: &FileBody) -> Option<FileBody> {
        let (staged, previous) = (self.staged.as_ref()?, self.previous?);
        let stored = match old.stored {
            Stored::Copied if (1..=staged.filesystem.block_size).contains(&old.size) => {
                let above = directory.place.previous(previous.tree.as_fd(), &directory.path)?;
                let file = openat::open_file(above, name).ok()?;
                if is_inline(&file, old.size, staged) { Stored::Inline } else { Stored::Cloned }
            }
            Stored::Copied => Stored::Cloned,
            stored => stored,
        };
        Some(FileBody { stored, ..old.clone() })
    }
}

fn count(file: &FileBody, part: &mut Stats) {
    let data = file.size.saturating_sub(file.holes);
    part.bytes = part.bytes.saturating_add(file.size);
    part.hole_bytes = part.hole_bytes.saturating_add(file.holes);
    let sum = match file.stored {
        Stored::Inline => &mut part.inline_bytes,
        _ => &mut part.cloned_bytes,
    };
    *sum = sum.saturating_add(data);
}

impl Target<'_> {
    /// Takes what the last snapshot had under these names out of the staging tree, if that began with it.
    pub(super) fn make_room(&self, group: &[Seen<'_>]) -> Result<()> {
        if !self.staged.based {
            return Ok(());
        }
        let wanted = group.iter().filter(|seen| seen.status.file_type() != FileType::Directory);
        wanted.map(|seen| seen.name).try_for_each(|name| self.context.take_out(self.above, &self.directory.join(name)))
    }
}

impl Context<'_> {
    /// Removes the entry at `path`, which lies in the open directory `above` of the staging tree, whatever it is.
    pub(super) fn take_out(&self, above: impl AsFd, path: &[u8]) -> Result<()> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        match rustix::fs::unlinkat(&above, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) if is_no_name(errno) => Ok(()),
            Err(Errno::ISDIR) => {
                deletion::directory(above.as_fd(), name, &crate::tree::walk::absolute(path), self.monitor).map(|_| ())
            }
            Err(errno) => Err(cannot_make(path, errno)),
        }
    }
}
