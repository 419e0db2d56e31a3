//! Receives a snapshot from a stream. Nothing in the stream is trusted:
//!
//! - `stream::check`: what a single operation may say. `sequence`: the order of the records.
//! - `sources`: opens files with content, only regular ones below the staging tree or the base. `links`: further names
//!   of inodes.
//! - `tree`: the directories of the tree. `entry`: one entry. `content`: the content of a file.
//! - `inherited`: entries that the base has, cloned by many threads.
//! - `records`: the manifest. `journal`: how far the snapshot was received.

mod content;
mod entry;
mod inherited;
mod journal;
mod links;
mod records;
mod sequence;
mod serve;
mod sources;
mod tree;

pub(crate) use serve::serve;
pub use serve::{Options, Stats, receive};

use crate::error::{Error, ErrorKind, Result};
use crate::fs::filesystem::{Filesystem, Kind};
use crate::fs::metadata::{self, Xattr};
use crate::monitor::{Amount, Monitor};
use crate::snapshot::create::Removal;
use crate::snapshot::manifest::{Directory, Entry, Item, Reader, Writer};
use crate::snapshot::repository::{self, Repository, Staging, Start};
use crate::snapshot::source_path::join;
use crate::snapshot::stream::{Begin, Content, Digest, Input, Op, Position, Xattrs, damage};
use entry::Before;
use inherited::Inherited;
use journal::{Journal, Note};
use links::Links;
use records::Records;
use sequence::Sequence;
use sources::Sources;
use std::io::Read;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use tree::Tree;

/// A snapshot that was received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    pub(crate) name: String,
    /// Bytes of content that arrived, and bytes that other files here had.
    pub(crate) data_bytes: u64,
    pub(crate) shared_bytes: u64,
}

/// The snapshot that a new one is based on.
struct Base {
    reader: Reader,
    tree: OwnedFd,
}

/// How far an unfinished snapshot was received, and its base. `None` if it must begin anew.
pub(crate) fn begun(repository: &Repository, name: &str, identity: &Digest) -> Option<(Option<String>, Position)> {
    let staging = repository::incoming(repository, name, false)?;
    let note = journal::read(&staging).filter(|note| note.identity == *identity)?;
    Some((note.base.map(|(name, _)| name), note.position))
}

/// Receives one snapshot. `input` is behind its `Begin`. The caller holds the lock.
pub(crate) fn snapshot<R: Read>(
    repository: &Repository,
    input: &mut Input<R>,
    begin: &Begin,
    threads: usize,
    monitor: &dyn Monitor,
) -> Result<Received> {
    let filesystem = Filesystem::probe(repository.fd(), repository.path())?;
    let base = match &begin.base {
        None => None,
        Some((name, identity)) => {
            let reader = repository.manifest(name)?;
            if repository::identity(repository, name)? != *identity {
                return Err(Error::failed(format!("find the snapshot {name} that the stream is based on"))
                    .at(repository.path())
                    .hint("a snapshot of this name exists, but it is another one"));
            }
            Some(Base { tree: repository.tree(name)?, reader })
        }
    };
    let (staging, note) = stage(repository, filesystem, base.as_ref(), begin)?;
    let staging = Arc::new(staging);
    let result = fill(&staging, note, filesystem, base.as_ref(), (input, begin), threads, monitor);
    let staging = Arc::into_inner(staging).ok_or_else(|| Error::failed("end the transfer"))?;
    match result {
        Ok(received) => {
            monitor.phase("publishing", None);
            repository::note_identity(repository, &begin.header.name, &begin.identity)?;
            repository::publish(repository, staging)?;
            repository::correct_latest(repository)?;
            Ok(received)
        }
        // A transfer that was cut can go on.
        Err(error) if error.kind() != ErrorKind::Damage && journal::read(&staging).is_some() => Err(error),
        Err(error) => {
            let _ = repository::discard(repository, staging, threads, monitor);
            Err(error)
        }
    }
}

/// Begins the tree, or opens the one of a transfer that was cut.
fn stage(
    repository: &Repository,
    filesystem: Filesystem,
    base: Option<&Base>,
    begin: &Begin,
) -> Result<(Staging, Option<Note>)> {
    let name = &begin.header.name;
    if begin.position == Position::default() {
        let start = start(repository, filesystem, base)?;
        return Ok((repository::begin_incoming(repository, name, start)?, None));
    }
    let lost = || damage("it goes on with a transfer that is not there");
    let note = repository::incoming(repository, name, false).and_then(|staging| journal::read(&staging));
    let note = note.filter(|note| (note.identity, &note.base) == (begin.identity, &begin.base)).ok_or_else(lost)?;
    if note.position != begin.position {
        return Err(lost());
    }
    let staging = repository::incoming(repository, name, note.is_based).ok_or_else(lost)?;
    staging.unlink("manifest")?;
    Ok((staging, Some(note)))
}

/// How the new tree begins: on Btrfs as a snapshot of the base's tree, if possible.
fn start<'a>(repository: &Repository, filesystem: Filesystem, base: Option<&'a Base>) -> Result<Start<'a>> {
    let is_root = rustix::process::geteuid().is_root();
    if filesystem.kind != Kind::Btrfs || !is_root || !repository::can_make_subvolumes(repository) {
        return Ok(Start::Directory);
    }
    match base {
        Some(base) if repository::is_as_published(repository, &base.reader.header().name)? => {
            Ok(Start::SnapshotOf(base.tree.as_fd()))
        }
        _ => Ok(Start::Subvolume),
    }
}

fn fill<R: Read>(
    staging: &Arc<Staging>,
    note: Option<Note>,
    filesystem: Filesystem,
    base: Option<&Base>,
    (input, begin): (&mut Input<R>, &Begin),
    threads: usize,
    monitor: &dyn Monitor,
) -> Result<Received> {
    let mut writer = Writer::create(staging.create_manifest()?, &staging.manifest, &begin.header)?;
    writer.set_origins(begin.origins.clone());
    let expected = Amount { files: begin.totals.entries(), bytes: 0 };
    monitor.phase("receiving", Some(expected));
    let tree = Tree::new(staging, filesystem, begin.top, note.is_some())?;
    let removal = if tree.is_based {
        let top = staging.tree.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause))?;
        Some(Removal::new(top, monitor))
    } else {
        None
    };
    let mut receiver = Receiver {
        tree,
        sequence: Sequence::new(base.map(|base| base.reader.items()))?,
        sources: Sources::new(base.map(|base| base.tree.as_fd()))?,
        links: Links::new(staging)?,
        inherited: Inherited::new(base.map(|base| base.tree.as_fd()), threads)?,
        removal,
        records: Records::new(writer),
        begun: note.as_ref().and_then(|note| note.begun.clone()),
        journal: match note {
            Some(note) => Journal::resume(staging, note)?,
            None => Journal::begin(staging, begin)?,
        },
        received: Received { name: begin.header.name.clone(), ..Received::default() },
        monitor,
    };
    receiver.resume()?;
    loop {
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        let op = input.next_op()?;
        if let Op::End { totals, digest } = op {
            receiver.finish()?;
            let Receiver { records, received, .. } = receiver;
            records.finish(&totals, &digest, staging)?;
            return Ok(received);
        }
        receiver.step(op, input)?;
    }
}

struct Receiver<'a> {
    tree: Tree,
    sequence: Sequence<'a>,
    sources: Sources,
    links: Links,
    inherited: Inherited<'a>,
    removal: Option<Removal<'a>>,
    records: Records,
    journal: Journal,
    /// The path of the next entry, if a part of its content is there.
    begun: Option<Vec<u8>>,
    received: Received,
    monitor: &'a dyn Monitor,
}

impl Receiver<'_> {
    /// Goes on after a transfer was cut, if it was.
    fn resume(&mut self) -> Result<()> {
        let position = *self.journal.position();
        if position == Position::default() {
            return Ok(());
        }
        let Receiver { tree, sequence, links, removal, records, monitor, .. } = self;
        self.journal.replay(|item| {
            sequence.resume(&item)?;
            let mut is_further = false;
            match &item {
                Item::Directory(directory) => tree.enter_again(directory)?,
                Item::Entry(entry) => {
                    is_further = links.first(entry)?.is_some();
                    if !is_further {
                        links.note(tree.path(), entry, false)?;
                    }
                }
            }
            records.add(&item, (tree.path(), is_further), removal, *monitor)
        })?;
        self.sequence.pass(position.base_records)?;
        self.tree.reopen()
    }

    fn step<R: Read>(&mut self, op: Op, input: &mut Input<R>) -> Result<()> {
        if self.begun.is_some() && !matches!(op, Op::Device { .. } | Op::Entry { .. }) {
            return Err(damage("it does not go on with the file in progress"));
        }
        match op {
            Op::Device { old, new } => {
                self.journal.devices().note(old, new);
                if self.journal.devices().are_too_many() {
                    return Err(damage("it has too many filesystems"));
                }
            }
            Op::Same { count, recheck } => {
                for _ in 0..count {
                    if self.monitor.is_cancelled() {
                        return Err(Error::interrupted());
                    }
                    let item = self.sequence.same()?;
                    self.same(item, recheck)?;
                    self.note_if_due()?;
                }
            }
            Op::Gone { count } => {
                for _ in 0..count {
                    let (path, item) = self.sequence.gone()?;
                    if let Some(removal) = &mut self.removal {
                        removal.remove(&item, &path)?;
                    }
                }
            }
            Op::Directory { replaces, directory, xattrs } => {
                self.settle()?;
                self.sequence.directory(&directory.path, replaces)?;
                self.directory(directory, xattrs, replaces)?;
            }
            Op::Entry { replaces, entry, xattrs, content } => {
                // Until the entry is complete, its counterpart in the base was not passed.
                self.settle()?;
                let old = self.sequence.entry(&entry.name, replaces)?;
                self.entry((entry, old), xattrs, &content, input)?;
                self.journal.position().base_records = self.sequence.passed();
            }
            Op::Begin(_)
            | Op::Data { .. }
            | Op::Clone { .. }
            | Op::Hole { .. }
            | Op::Complete
            | Op::End { .. }
            | Op::Offer(_)
            | Op::Bye => {
                return Err(damage("an operation is out of place"));
            }
        }
        self.note_if_due()
    }

    fn entry<R: Read>(
        &mut self,
        (mut entry, old): (Entry, Option<Entry>),
        xattrs: Xattrs,
        content: &Content,
        input: &mut Input<R>,
    ) -> Result<()> {
        let path = join(self.tree.path(), &entry.name);
        let begun = self.begun.take();
        let is_begun = begun.is_some();
        if begun.is_some_and(|begun| begun != path || !matches!(content, Content::Parts { .. })) {
            return Err(damage("it does not go on with the file in progress"));
        }
        let first = self.links.first(&entry)?;
        let is_further = first.is_some();
        if let Content::LinkTo(to) = content {
            let first = first.filter(|first| first.is_at(to));
            let first = first.ok_or_else(|| damage("a link is none to the first name of its inode"))?;
            self.link(&first, &mut entry)?;
        } else {
            self.journal.begin_content(path);
            let (made, written) = entry::make(
                &mut self.tree,
                (&mut self.sources, input),
                &Before { old, is_begun },
                entry,
                (&plain(xattrs), content),
                &mut self.journal,
                self.monitor,
            )?;
            entry = made;
            self.received.data_bytes += written.data;
            self.received.shared_bytes += written.shared;
            if !is_further {
                self.links.note(self.tree.path(), &entry, false)?;
            }
        }
        self.journal.made();
        self.record(&Item::Entry(entry), is_further)?;
        self.monitor.advance(Amount { files: 1, bytes: 0 });
        Ok(())
    }

    fn same(&mut self, mut item: Item, recheck: bool) -> Result<()> {
        let meta = match &mut item {
            Item::Directory(directory) => &mut directory.meta,
            Item::Entry(entry) => &mut entry.meta,
        };
        meta.dev = self.journal.devices().of(meta.dev);
        meta.recheck = recheck;
        match item {
            Item::Directory(directory) if self.tree.is_based && !directory.path.is_empty() => {
                self.settle()?;
                self.tree.enter_same(&directory)?;
                self.record(&Item::Directory(directory), false)
            }
            Item::Directory(directory) => {
                self.settle()?;
                let xattrs = self.inherited.xattrs(&directory)?;
                self.directory(directory, xattrs, true)
            }
            Item::Entry(mut entry) if self.tree.is_based => {
                entry::set_stored(&mut entry, content::Written::default());
                let first = self.links.first(&entry)?;
                match &first {
                    None => self.links.note(self.tree.path(), &entry, true)?,
                    Some(first) if first.is_inherited() => {}
                    // The first name is new, so the base did not have this link.
                    Some(first) => self.link(first, &mut entry)?,
                }
                self.record(&Item::Entry(entry), first.is_some())
            }
            Item::Entry(entry) => {
                let dir = self.tree.open()?;
                self.inherited.push(self.tree.path(), dir, entry);
                if self.inherited.is_full() { self.settle() } else { Ok(()) }
            }
        }
    }

    /// Makes a further name in the current directory.
    fn link(&mut self, first: &links::First, entry: &mut Entry) -> Result<()> {
        let path = join(self.tree.path(), &entry.name);
        let dir = self.tree.open()?;
        self.tree.make_room(dir.as_fd(), &entry.name, &path)?;
        first.link(&self.tree, dir.as_fd(), self.tree.path(), entry)
    }

    fn directory(&mut self, mut directory: Directory, xattrs: Xattrs, is_there: bool) -> Result<()> {
        let (inherited, own): (Xattrs, Xattrs) = xattrs.into_iter().partition(|(name, _)| metadata::is_inherited(name));
        directory.meta.kept_xattrs = inherited;
        let made = self.tree.enter(directory, &plain(own), is_there && self.tree.is_based)?;
        self.journal.made();
        self.record(&Item::Directory(made), false)
    }

    /// Makes the entries that wait. Then everything before the next record is complete.
    fn settle(&mut self) -> Result<()> {
        for (entry, is_further) in self.inherited.make(&mut self.tree, &mut self.links, self.monitor)? {
            self.journal.made();
            self.record(&Item::Entry(entry), is_further)?;
        }
        if let Some(removal) = &mut self.removal {
            removal.settle()?;
        }
        self.journal.position().base_records = self.sequence.passed();
        Ok(())
    }

    fn note_if_due(&mut self) -> Result<()> {
        if !self.journal.is_due() {
            return Ok(());
        }
        self.settle()?;
        self.journal.write()
    }

    fn record(&mut self, item: &Item, is_further: bool) -> Result<()> {
        self.records.add(item, (self.tree.path(), is_further), &mut self.removal, self.monitor)?;
        self.journal.add(item)
    }

    fn finish(&mut self) -> Result<()> {
        if self.begun.is_some() {
            return Err(damage("it does not go on with the file in progress"));
        }
        self.settle()?;
        self.sequence.finish()?;
        self.tree.finish()?;
        self.journal.wait()
    }
}

fn plain(xattrs: Xattrs) -> Vec<Xattr> {
    xattrs.into_iter().map(|(name, value)| (name.into_vec(), value.into_vec())).collect()
}
