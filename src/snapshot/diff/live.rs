//! The sources as they are now, as records beside those of the old snapshot. An entry is read only if its record does
//! not prove that it is unchanged.

use crate::error::{Error, Result};
use crate::fs::status::Status;
use crate::monitor::{Event, Monitor};
use crate::snapshot::devices::{Devices, Relation};
use crate::snapshot::live_record;
use crate::snapshot::manifest::{Directory as Record, DirectoryCursor, Entry, Item, Meta, Reader};
use crate::snapshot::skipped::Subtrees;
use crate::tree::exclude::mounts::is_elsewhere;
use crate::tree::walk::{Directory, Name, Visitor, absolute};
use crate::util::mutex::lock;
use crate::util::path::{is_below, split};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Directories that could not be read: nothing is known about the entries in them.
#[derive(Default)]
pub(super) struct Unread(Mutex<Subtrees>);

impl Unread {
    fn add(&self, path: &[u8]) {
        lock(&self.0).add(path);
    }

    /// Whether a directory is one of them or lies in one.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        lock(&self.0).has(path)
    }
}

/// Makes records of the entries that a walk finds.
pub(super) struct LiveVisitor<'a> {
    pub(super) manifest: &'a Reader,
    pub(super) devices: &'a Devices,
    /// The repository's own directory, which no snapshot contains.
    pub(super) repository: Status,
    /// Reads what may have changed.
    pub(super) reader: live_record::Reader<'a>,
    pub(super) unread: &'a Unread,
    pub(super) monitor: &'a dyn Monitor,
    pub(super) errors: AtomicU64,
}

/// Records with the directory that they lie in.
pub(super) struct Output {
    pub(super) directory: Vec<u8>,
    pub(super) items: Vec<Item>,
}

impl LiveVisitor<'_> {
    fn problem(&self, error: &Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.monitor.problem(error);
    }

    /// The record of a directory in the old snapshot. Damage is reported when the records are streamed.
    fn old_directory(&self, path: &[u8]) -> Option<Record> {
        Some(self.manifest.directory(path).ok()??.directory().clone())
    }

    fn settled(&self, old: &Meta, status: &Status, fd: &OwnedFd, relation: &mut Option<Relation>) -> bool {
        let relation = match relation {
            Some(relation) if relation.is_of(old.dev, status) => *relation,
            _ => *relation.insert(self.devices.relation(old.dev, status.dev, fd)),
        };
        (old.mode, old.ino, old.mtime, old.ctime) == (status.mode, status.ino, status.mtime, status.ctime)
            && self.devices.is_settled(old, &relation)
    }

    fn entry(
        &self,
        directory: &Directory<()>,
        name: &[u8],
        cursor: &mut Option<DirectoryCursor<'_>>,
        relation: &mut Option<Relation>,
    ) -> rustix::io::Result<Option<Entry>> {
        let old = cursor.as_mut().and_then(|cursor| cursor.seek(name).ok().flatten());
        let status = Status::at(&directory.fd, name)?;
        if status.file_type() == FileType::Directory {
            return Err(Errno::ISDIR);
        }
        let Some(old) = old else {
            self.devices.identity(status.dev, &directory.fd);
            return Ok(Some(live_record::new_entry(directory.fd.as_fd(), name, &status)?));
        };
        let has_same_size = old.file().is_none_or(|file| file.size == status.size && !file.changed);
        if has_same_size && self.settled(&old.meta, &status, &directory.fd, relation) {
            return Ok(Some(Entry { meta: Meta { dev: status.dev, ..old.meta.clone() }, ..old }));
        }
        Ok(Some(self.reader.entry(directory.fd.as_fd(), name, &status, &old)?))
    }
}

impl Visitor for LiveVisitor<'_> {
    type Place = ();
    type Output = Output;

    fn enter(&self, directory: &Directory<()>, _: Option<&Directory<()>>) -> Result<Option<((), Output)>> {
        let status = &directory.status;
        if status.is_same_inode(&self.repository) {
            self.monitor.event(Event::RepositorySkipped(&absolute(&directory.path)));
            return Ok(None);
        }
        let old = self.old_directory(&directory.path);
        self.devices.identity(status.dev, &directory.fd);
        let meta = match old {
            Some(old) if self.settled(&old.meta, status, &directory.fd, &mut None) => {
                Meta { dev: status.dev, ..old.meta }
            }
            _ => self.reader.directory(&directory.fd, status),
        };
        let record = Record { path: directory.path.clone(), scaffold: directory.scaffold, meta };
        Ok(Some(((), Output { directory: directory.path.clone(), items: vec![Item::Directory(record)] })))
    }

    fn approach(&self, above: &Directory<()>, path: &[u8]) -> Result<ControlFlow<Option<Output>>> {
        // The snapshot has only the place of a filesystem that it did not enter, and of an unreadable directory. If the
        // directory can be read now, its entries are new.
        match self.old_directory(path).filter(|old| old.meta.ino == 0) {
            Some(old) if self.is_empty(path) && is_elsewhere(&above.fd, above.status.dev, split(path).1) => {
                let items = vec![Item::Directory(old)];
                Ok(ControlFlow::Break(Some(Output { directory: path.to_vec(), items })))
            }
            _ => Ok(ControlFlow::Continue(())),
        }
    }

    fn batch(&self, directory: &Directory<()>, names: &mut dyn Iterator<Item = Name<'_>>) -> Result<Output> {
        if self.monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        let mut names = names.peekable();
        let mut cursor =
            names.peek().and_then(|first| self.manifest.entries_from(&directory.path, first.bytes).ok().flatten());
        let (mut relation, mut items) = (None, Vec::new());
        for name in names {
            match self.entry(directory, name.bytes, &mut cursor, &mut relation) {
                Ok(entry) => items.extend(entry.map(Item::Entry)),
                // It was deleted after the directory was listed.
                Err(Errno::NOENT) => directory.note_missing(name.bytes),
                Err(Errno::CANCELED) => return Err(Error::interrupted()),
                Err(errno) => {
                    let path = directory.join(name.bytes);
                    self.problem(&Error::io("compare", absolute(&path), errno));
                    // Nothing is known about it, so it is as it was.
                    let old = self.manifest.entry(&directory.path, name.bytes).ok().flatten();
                    items.extend(old.map(Item::Entry));
                }
            }
        }
        Ok(Output { directory: directory.path.clone(), items })
    }

    fn leave(&self, _: &Directory<()>) -> Result<()> {
        Ok(())
    }

    fn incomplete(&self, error: Error) {
        if let Some(path) = error.path() {
            let path = path.as_os_str().as_bytes();
            self.unread.add(path.strip_prefix(b"/").unwrap_or(path));
        }
        self.problem(&error);
    }

    fn unfound(&self, error: Error) -> Result<()> {
        // A source that is gone is a removed entry.
        if !error.is_not_found() {
            self.incomplete(error);
        }
        Ok(())
    }

    fn unreadable(&self, _: Option<&Directory<()>>, path: &[u8], error: Error) -> Result<Option<Output>> {
        self.unread.add(path);
        self.problem(&error);
        let items = self.old_directory(path).map(Item::Directory).into_iter().collect();
        Ok(Some(Output { directory: path.to_vec(), items }))
    }
}

impl LiveVisitor<'_> {
    /// Whether the old snapshot has nothing in a directory.
    fn is_empty(&self, path: &[u8]) -> bool {
        let mut items = self.manifest.items_from(path);
        let is_own = matches!(items.next(), Some(Ok(Item::Directory(own))) if own.path == path);
        is_own
            && match items.next() {
                Some(Ok(Item::Directory(next))) => !is_below(&next.path, path),
                Some(_) => false,
                None => true,
            }
    }
}
