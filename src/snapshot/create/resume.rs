//! Files that a killed run had finished are taken over from what it left, if their source is still what it was then.
//!
//! What was written is cloned, or moved where there are no reflinks; of what was only read the hash is taken. The tree is never
//! taken as a whole.
//!
//! A killed run may not have learnt that the disk refused its data, and the kernel reports that only once: afterwards the pages
//! look clean, and the disk has something else. So a file that data was written for counts only if it is read back from the
//! disk and has the hash that was noted. A file that is a clone as a whole has no data of its own; in the same session of the
//! filesystem, where its metadata is as it was made, it counts by its inode and ctime.

use super::changed::LARGE;
use super::context::Target;
use super::fill::Source;
use super::finished::{Finished, Header, List, Made, NewList};
use super::record::Brought;
use super::seen::Seen;
use super::stats::Stats;
use crate::content::hash;
use crate::error::{Error, Result};
use crate::fs::direct_io;
use crate::fs::identity::Identity;
use crate::fs::metadata;
use crate::fs::mount_id::MountId;
use crate::fs::openat;
use crate::fs::rename;
use crate::fs::status::Status;
use crate::monitor::Amount;
use crate::snapshot::manifest::{Body, Entry, FileBody, Meta, Stored, Time};
use crate::snapshot::repository::{Dir, Leftover, Staging};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};

/// How many finished files of all killed runs are known at most: 64 MiB.
const MOST: usize = 4 << 20;

/// What earlier runs had finished, and the list of what this one has.
#[derive(Debug, Default)]
pub(super) struct Resume {
    past: Vec<Past>,
    list: Option<NewList>,
}

/// What a killed run left.
#[derive(Debug)]
struct Past {
    tree: OwnedFd,
    list: List,
    /// Its lists of hashes of large files.
    blocks: Option<Dir>,
    /// Whether this is the same session of the filesystem.
    same_session: bool,
}

impl Resume {
    /// For a run that began at `created`, after others that left something. Where no list can be had, this run cannot
    /// be resumed, and is none the worse for it. After a failed sync nothing of the others counts.
    pub(super) fn begin(staging: &Staging, leftovers: Vec<Leftover>, created: Time) -> Resume {
        let session = MountId::of(&staging.tree);
        let each = MOST / leftovers.len().max(1);
        let past = leftovers.into_iter().filter_map(|leftover| {
            let list = List::open(leftover.finished, each)?;
            let same_session = session.is_some() && list.header.session == session;
            Some(Past { tree: leftover.tree, list, blocks: leftover.blocks, same_session })
        });
        let mut past: Vec<Past> = past.collect();
        // All at once, since files are read back one by one.
        if !past.is_empty() && rustix::fs::syncfs(&staging.tree).is_err() {
            past.clear();
        }
        let list = staging.create_finished().ok().map(|file| NewList::begin(file, &Header { session, created }));
        Resume { past, list }
    }

    /// What was finished of a source at this path. By another path only an inode of the same device counts, and no
    /// image whose times were all made up.
    fn find<'r>(
        &'r self,
        status: &'r Status,
        filesystem: Option<Identity>,
        path: &'r [u8],
    ) -> impl Iterator<Item = (&'r Past, Finished)> {
        let all = filesystem.into_iter().flat_map(|filesystem| self.past.iter().map(move |past| (past, filesystem)));
        all.flat_map(move |(past, filesystem)| {
            let is_meant = move |finished: &Finished| {
                finished.path == path || past.same_session && finished.dev == status.dev && status.ctime.nanos != 0
            };
            past.list.find(status, filesystem).filter(is_meant).map(move |finished| (past, finished))
        })
    }
}

impl Resume {
    /// Has the next run take nothing over from this one: the disk has lost something.
    pub(super) fn withdraw(&self) {
        if let Some(list) = &self.list {
            list.withdraw();
        }
    }
}

impl Target<'_> {
    /// Notes that a file is finished, for the next run, should this one be killed. `in_tree`: more than its hash is worth
    /// being taken over.
    pub(super) fn note_finished(&self, brought: &Brought, in_tree: bool) {
        let Brought { entry, cost } = brought;
        let devices = &self.context.devices;
        // What may change unnoticed is read again in any case; what cannot be recognised too.
        if entry.meta.recheck || devices.may_change_unnoticed(&entry.meta, None, &self.directory.fd) {
            return;
        }
        let Some(filesystem) = devices.identity(entry.meta.dev, &self.directory.fd) else { return };
        let content = cost.read_bytes + cost.copied_bytes + cost.resumed_bytes;
        let (Some(list), Body::File(file)) = (&self.staged.resume.list, &entry.body) else { return };
        if file.changed || content == 0 && cost.resumed_files == 0 {
            return;
        }
        let Meta { dev, ino, mtime, ctime, nlink, .. } = entry.meta;
        let made = |status: Status| Made { ino: status.ino, ctime: (nlink < 2).then_some(status.ctime) };
        let finished = Finished {
            path: self.directory.join(&entry.name),
            filesystem,
            dev,
            ino,
            size: file.size,
            mtime,
            ctime,
            holes: file.holes,
            hash: file.hash,
            stored: file.stored,
            written: cost.copied_bytes + cost.resumed_bytes,
            copy: in_tree.then(|| Status::at(self.above, &entry.name).ok().map(made)).flatten(),
        };
        list.add(&finished, content);
    }

    /// The hash of an open source that a killed run had read in this session.
    pub(super) fn noted_hash(&self, status: &Status, name: &[u8]) -> Option<[u8; 32]> {
        let path = self.directory.join(name);
        let filesystem = self.filesystem_of(status);
        let mut found = self.staged.resume.find(status, filesystem, &path).filter(|(past, _)| past.same_session);
        found.find_map(|(_, finished)| finished.hash)
    }

    /// Brings a file in from what a killed run left, if that had finished it.
    pub(super) fn take_over(&self, seen: &Seen<'_>, source: &Source, part: &mut Stats) -> Result<Option<Brought>> {
        if self.staged.resume.past.is_empty() {
            return Ok(None);
        }
        let path = self.directory.join(seen.name);
        let filesystem = self.filesystem_of(&source.status);
        for (past, finished) in self.staged.resume.find(&source.status, filesystem, &path) {
            if finished.hash.is_none() && self.context.hashes() {
                continue;
            }
            let Some((made, read)) = self.open_finished(past, &finished, part)? else { continue };
            let taken = if self.staged.filesystem.reflink {
                self.clone_finished(seen, source, made)?
            } else {
                self.move_finished(seen, source, past, &finished, &made)?
            };
            let Some(meta) = taken else { continue };
            let Finished { size, holes, hash, stored, written, .. } = finished;
            let data = size.saturating_sub(holes);
            let inline_bytes = if stored == Stored::Inline { data } else { 0 };
            let cost = Stats {
                bytes: size,
                read_bytes: read,
                resumed_files: 1,
                resumed_bytes: written,
                cloned_bytes: data.saturating_sub(written + inline_bytes),
                inline_bytes,
                hole_bytes: holes,
                ..Stats::default()
            };
            if let (LARGE.., Some(hash), Some(lists)) = (size, &hash, &past.blocks) {
                self.staged.blocks.carry_from(lists, hash);
            }
            let body = Body::File(FileBody { size, holes, hash, stored, changed: false });
            return Ok(Some(Brought { entry: Entry { name: seen.name.to_vec(), meta, body }, cost }));
        }
        Ok(None)
    }

    fn filesystem_of(&self, source: &Status) -> Option<Identity> {
        self.context.devices.identity(source.dev, &self.directory.fd)
    }

    /// Opens a finished file in the tree that was left, if it is as it was, and says how much was read to know that. What was
    /// read in vain is added to `part`.
    fn open_finished(&self, past: &Past, finished: &Finished, part: &mut Stats) -> Result<Option<(OwnedFd, u64)>> {
        let Some(made) = finished.copy else { return Ok(None) };
        let Ok(fd) = openat::open_file_at(past.tree.as_fd(), &finished.path) else { return Ok(None) };
        let Ok(status) = Status::of(&fd) else { return Ok(None) };
        let is_whole =
            (status.file_type(), status.size, status.mtime) == (FileType::RegularFile, finished.size, finished.mtime);
        if !is_whole {
            return Ok(None);
        }
        if past.same_session {
            let is_same = status.ino == made.ino && made.ctime.is_none_or(|ctime| ctime == status.ctime);
            if !is_same {
                return Ok(None);
            }
            if finished.written == 0 && finished.stored != Stored::Copied {
                return Ok(Some((fd, 0)));
            }
        }
        // What is still in memory is not what the disk has.
        if finished.hash.is_none() || !direct_io::forget(&fd, status.size).unwrap_or(false) {
            return Ok(None);
        }
        match hash::file(&fd, status.size, self.context.monitor) {
            Ok(hashed) if hashed.hash == finished.hash => Ok(Some((fd, hashed.read))),
            Ok(hashed) => {
                part.read_bytes += hashed.read;
                Ok(None)
            }
            Err(Errno::CANCELED) => Err(Error::interrupted()),
            Err(_) => Ok(None),
        }
    }

    fn clone_finished(&self, seen: &Seen<'_>, source: &Source, made: OwnedFd) -> Result<Option<Meta>> {
        let Ok(of_tree) = Status::of(&made) else { return Ok(None) };
        let status = Status { dev: of_tree.dev, ..source.status };
        let made = Source {
            fd: made,
            status,
            xattrs: source.xattrs.clone(),
            fileattr: source.fileattr,
            recheck: source.recheck,
            unread: source.unread,
        };
        let Ok(brought) = self.clone_source(seen, &made)? else { return Ok(None) };
        Ok(Some(Meta { dev: source.status.dev, ..brought.entry.meta }))
    }

    fn move_finished(
        &self,
        seen: &Seen<'_>,
        source: &Source,
        past: &Past,
        finished: &Finished,
        made: &OwnedFd,
    ) -> Result<Option<Meta>> {
        let (above, name) = match finished.path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => finished.path.split_at(slash + 1),
            None => finished.path.split_at(0),
        };
        let above = above.strip_suffix(b"/").unwrap_or(above);
        let attributes = source.attributes(self.staged);
        let give = || {
            metadata::remove_other_xattrs(made, attributes.xattrs)?.removed()?;
            let refused = self.staged.creator.apply(made, &attributes)?;
            let above = openat::open_dir(past.tree.as_fd(), above)?;
            rename::without_replacing(above, name, self.above, seen.name)?;
            Ok::<_, Errno>(refused)
        };
        // What cannot be moved is copied.
        let Ok(refused) = give() else { return Ok(None) };
        self.context.monitor.advance(Amount { files: 0, bytes: source.status.size });
        Ok(Some(source.meta(refused)))
    }
}
