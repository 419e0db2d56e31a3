//! The visitor of the walk: brings directories and their entries from the source into the staging tree.

use super::context::{Context, Place, Target, cannot_make};
use super::record::keep;
use super::seen::{Seen, compare, count, planned_body};
use super::staged::Staged;
use super::stats::Stats;
use crate::beneath;
use crate::error::{Error, Result};
use crate::metadata::{self, Attributes};
use crate::monitor::{Amount, Change};
use crate::mutex::{self, lock};
use crate::snapshot::manifest::{Directory as DirectoryRecord, DirectoryCursor, Entry, Item, Meta};
use crate::status::Status;
use crate::walk::{Directory, Name, Visitor, absolute};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

/// New directories and files belong to nobody else until they are published.
const PRIVATE: Mode = Mode::RWXU;

/// What a directory or a batch of entries yields: records, and how each differs from the last snapshot's.
#[derive(Default)]
pub(super) struct Output {
    pub(super) items: Vec<(Item, Option<Change>)>,
}

/// Brings a tree in.
pub(super) struct Tree<'a> {
    context: Context<'a>,
    stats: Mutex<Stats>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(context: Context<'a>) -> Self {
        Tree { context, stats: Mutex::default() }
    }

    pub(super) fn into_stats(self) -> Stats {
        mutex::into_inner(self.stats)
    }

    fn count(&self, part: &Stats) {
        lock(&self.stats).add(part);
    }

    /// Compares with the last manifest.
    fn look<'n>(
        &self,
        directory: &Directory<Place>,
        name: &'n [u8],
        cursor: &mut Option<DirectoryCursor<'_>>,
    ) -> Result<std::result::Result<Seen<'n>, Errno>> {
        let old = match cursor {
            Some(cursor) => cursor.seek(name)?,
            None => None,
        };
        let status = match Status::at(&directory.fd, name) {
            Ok(status) => status,
            Err(error) => return Ok(Err(error)),
        };
        let change = match (&old, self.context.previous) {
            (Some(old), Some(previous)) => compare(old, &status, previous),
            _ => Some(Change::Added),
        };
        let old = old.filter(|old| change != Some(Change::Type) && old.meta.ino != 0);
        Ok(Ok(Seen { name, status, old, change }))
    }

    fn make_directory(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<Place>>,
        staged: &Staged,
    ) -> Result<OwnedFd> {
        let failed = |errno: Errno| cannot_make(&directory.path, errno);
        let Some(parent) = parent else {
            return staged.tree.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause));
        };
        let above = parent.place.destination(&directory.path)?;
        rustix::fs::mkdirat(above, directory.name(), PRIVATE).map_err(failed)?;
        beneath::open_subdir(above, directory.name()).map_err(failed)
    }

    /// The last snapshot's version of a directory, if its files are needed as sources of clones.
    fn open_previous(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<Place>>,
        staged: &Staged,
    ) -> Option<OwnedFd> {
        let previous = self.context.previous?;
        let Some(parent) = parent else { return previous.tree.try_clone().ok() };
        if !staged.filesystem.reflink {
            return None;
        }
        if !directory.scaffold && self.context.is_same_filesystem(directory.status.dev, directory.fd.as_fd(), staged) {
            return None;
        }
        beneath::open_subdir(parent.place.previous.as_ref()?, directory.name()).ok()
    }

    fn change_of_directory(&self, directory: &Directory<()>) -> Result<Option<Change>> {
        if !self.context.options.dry_run {
            return Ok(None);
        }
        let old = match self.context.previous {
            Some(previous) => previous.reader.directory(&directory.path)?.map(|cursor| cursor.directory().meta.clone()),
            None => None,
        };
        Ok(match old {
            None => Some(Change::Added),
            Some(old) if directory.scaffold || old.ctime == directory.status.ctime => None,
            Some(_) => Some(Change::Metadata),
        })
    }
}

impl Visitor for Tree<'_> {
    type Place = Place;
    type Output = Output;

    fn enter(&self, directory: &Directory<()>, parent: Option<&Directory<Place>>) -> Result<Option<(Place, Output)>> {
        let mut part = Stats::default();
        if self.context.repository.as_ref().is_some_and(|repository| repository.is_same_inode(&directory.status)) {
            let error = Error::failed("take a snapshot of the repository itself").at(absolute(&directory.path));
            self.context.problem(&error.hint("it is mounted here a second time; it was left out"), &mut part);
            self.count(&part);
            return Ok(None);
        }
        let mut xattrs = metadata::xattrs(&directory.fd).unwrap_or_else(|errno| {
            let error = Error::io("read the extended attributes of", absolute(&directory.path), errno);
            self.context.problem(&error, &mut part);
            Vec::new()
        });
        let mut meta = Meta::of(&directory.status, !xattrs.is_empty());
        let acls = xattrs.extract_if(.., |(name, _)| name.starts_with(b"system.posix_acl_")).collect::<Vec<_>>();
        let mut place = Place { destination: None, previous: None, acls };
        if let Some(staged) = &self.context.staged {
            let destination = self.make_directory(directory, parent, staged)?;
            let attributes = Attributes::of(&directory.status, &xattrs);
            let refused = staged
                .creator
                .begin_directory(&destination, &attributes)
                .map_err(|errno| cannot_make(&directory.path, errno))?;
            keep(&mut meta, refused);
            // A filesystem may refuse ACLs only when they are given, after this record is written.
            meta.kept_xattrs.extend(place.acls.iter().map(|(n, v)| (n.clone().into(), v.clone().into())));
            place.destination = Some(destination);
            place.previous = self.open_previous(directory, parent, staged);
        }
        part.dirs = u64::from(!directory.scaffold);
        self.count(&part);
        self.context.monitor.advance(Amount { files: 1, bytes: 0 });
        let change = self.change_of_directory(directory)?;
        let record = DirectoryRecord { path: directory.path.clone(), scaffold: directory.scaffold, meta };
        Ok(Some((place, Output { items: vec![(Item::Directory(record), change)] })))
    }

    fn batch(&self, directory: &Directory<Place>, names: &mut dyn Iterator<Item = Name<'_>>) -> Result<Output> {
        let mut part = Stats::default();
        let mut output = Output::default();
        let mut names = names.peekable();
        let mut cursor = match (self.context.previous, names.peek()) {
            (Some(previous), Some(first)) => previous.reader.entries_from(&directory.path, first.bytes)?,
            _ => None,
        };
        loop {
            let mut group = Vec::with_capacity(super::file::GROUP);
            for name in names.by_ref().take(super::file::GROUP) {
                match self.look(directory, name.bytes, &mut cursor)? {
                    Ok(seen) => group.push(seen),
                    // Deleted since the directory was listed: it is not there.
                    Err(Errno::NOENT) => {}
                    Err(errno) => {
                        let error = Error::io("read the status of", absolute(&directory.join(name.bytes)), errno);
                        self.context.problem(&error, &mut part);
                    }
                }
            }
            if group.is_empty() {
                break;
            }
            if self.context.monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            self.bring(directory, group, &mut output, &mut part)?;
        }
        self.count(&part);
        Ok(output)
    }

    fn leave(&self, directory: &Directory<Place>) -> Result<()> {
        let (Some(staged), Some(destination)) = (&self.context.staged, &directory.place.destination) else {
            return Ok(());
        };
        if directory.path.is_empty() && directory.scaffold {
            // The snapshot's own top is no copy of anything: open to whom the repository lets pass.
            let mode = Mode::from_bits_truncate(0o755);
            return rustix::fs::fchmod(destination, mode).map_err(|errno| cannot_make(b"", errno));
        }
        let attributes = Attributes::of(&directory.status, &directory.place.acls);
        staged.creator.end_directory(destination, &attributes).map_err(|errno| cannot_make(&directory.path, errno))
    }

    fn incomplete(&self, error: Error) {
        let mut part = Stats::default();
        self.context.problem(&error, &mut part);
        self.count(&part);
    }

    fn unreadable(&self, parent: Option<&Directory<Place>>, path: &[u8], error: Error) -> Result<Option<Output>> {
        let mut part = Stats::default();
        let vanished = error.raw_os_error() == Some(Errno::NOENT.raw_os_error());
        if !vanished {
            self.context.problem(&error, &mut part);
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let status = parent.and_then(|parent| Status::at(&parent.fd, name).ok());
        let Some((parent, status)) = parent.zip(status).filter(|(_, status)| !vanished && is_directory(status)) else {
            self.count(&part);
            return Ok(None);
        };
        // Its content is out of reach, but not that it is there.
        let mut meta = Meta::of(&status, false);
        if let Some(staged) = &self.context.staged {
            let above = parent.place.destination(path)?;
            let failed = |errno| cannot_make(path, errno);
            rustix::fs::mkdirat(above, name, PRIVATE).map_err(failed)?;
            keep(&mut meta, staged.creator.apply_at(above, name, &Attributes::of(&status, &[])).map_err(failed)?);
        }
        part.dirs = 1;
        self.count(&part);
        let record = DirectoryRecord { path: path.to_vec(), scaffold: false, meta };
        Ok(Some(Output { items: vec![(Item::Directory(record), None)] }))
    }
}

impl Tree<'_> {
    /// Brings entries in that have been looked at, and adds their records to `output` in their order.
    fn bring(
        &self,
        directory: &Directory<Place>,
        group: Vec<Seen<'_>>,
        output: &mut Output,
        part: &mut Stats,
    ) -> Result<()> {
        let first = output.items.len();
        let Some(staged) = &self.context.staged else {
            for seen in &group {
                count(seen, part);
                let entry = Entry {
                    name: seen.name.to_vec(),
                    meta: Meta::of(&seen.status, false),
                    body: planned_body(&seen.status),
                };
                output.items.push((Item::Entry(entry), seen.change));
            }
            return Ok(());
        };
        let target = Target::new(&self.context, staged, directory)?;
        let files = target.files(&group, part)?;
        for (seen, file) in group.iter().zip(files) {
            let entry = match seen.status.file_type() {
                FileType::RegularFile => file,
                FileType::Directory => {
                    let error = Error::failed("take in").at(target.path(seen));
                    self.context
                        .problem(&error.hint("it became a directory while its parent was read; run again"), part);
                    None
                }
                _ => {
                    let made = target.once(seen, || target.node(seen, part))?;
                    made.map(|brought| brought.entry)
                }
            };
            if let Some(entry) = entry {
                count(seen, part);
                output.items.push((Item::Entry(entry), seen.change));
            }
        }
        let files = (output.items.len() - first) as u64;
        self.context.monitor.advance(Amount { files, bytes: 0 });
        Ok(())
    }
}

fn is_directory(status: &Status) -> bool {
    status.file_type() == FileType::Directory
}
