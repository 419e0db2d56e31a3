//! Receives a snapshot from a stream. Nothing in the stream is trusted: every name and path is opened below the staging
//! tree or the base, without following links, and lengths are checked before they are used.
//!
//! - `tree`: the directories of the tree. `entry`: one entry. `content`: the content of a file.
//! - `inherited`: entries that the base has, cloned by many threads.

mod content;
mod entry;
mod inherited;
mod journal;
mod serve;
mod tree;

pub(crate) use serve::serve;
pub use serve::{Options, Stats, receive};

use crate::error::{Error, ErrorKind, Result};
use crate::fs::filesystem::{Filesystem, Kind};
use crate::fs::metadata::Xattr;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::create::Removal;
use crate::snapshot::manifest::{self, Directory, Item, Items, Reader, Writer};
use crate::snapshot::repository::{self, Repository, Staging, Start};
use crate::snapshot::source_path::join;
use crate::snapshot::stream::{Begin, Digest, Input, Op, Position, RecordDigest, Xattrs, damage};
use entry::Sources;
use inherited::Inherited;
use journal::{Journal, Note};
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
    let tree = Tree::new(staging, filesystem, begin.header.created)?;
    let removal = if tree.is_based {
        let top = staging.tree.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause))?;
        Some(Removal::new(top, monitor))
    } else {
        None
    };
    let mut receiver = Receiver {
        tree,
        base: base.map(|base| base.reader.items()),
        sources: Sources { base: base.map(|base| base.tree.as_fd()), last: None },
        inherited: Inherited::new(base.map(|base| base.tree.as_fd()), staging, threads)?,
        removal,
        manifest: Records { writer, digest: RecordDigest::default() },
        journal: match note {
            Some(note) => Journal::resume(staging, note)?,
            None => Journal::begin(staging, begin)?,
        },
        begun: 0,
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
            let Receiver { manifest: Records { writer, digest: found }, received, .. } = receiver;
            if found.finish() != digest {
                return Err(damage("the records of the snapshot are not those that were sent"));
            }
            writer.finish(&totals)?;
            return Ok(received);
        }
        receiver.step(op, input)?;
    }
}

struct Receiver<'a> {
    tree: Tree,
    base: Option<Items<'a>>,
    sources: Sources<'a>,
    inherited: Inherited<'a>,
    removal: Option<Removal<'a>>,
    manifest: Records,
    journal: Journal,
    /// The part of the next entry's content that is there, in bytes.
    begun: u64,
    received: Received,
    monitor: &'a dyn Monitor,
}

/// The records of the snapshot.
struct Records {
    writer: Writer,
    digest: RecordDigest,
}

impl Receiver<'_> {
    /// Goes on after a transfer was cut, if it was.
    fn resume(&mut self) -> Result<()> {
        let position = *self.journal.position();
        if position == Position::default() {
            return Ok(());
        }
        let Receiver { tree, inherited, removal, manifest, .. } = self;
        self.journal.replay(|item| {
            match &item {
                Item::Directory(directory) => tree.enter_again(directory.clone()),
                Item::Entry(entry) => inherited.note_link(tree.path(), entry).map(|_| ())?,
            }
            manifest.add(&item, removal)
        })?;
        self.begun = position.offset;
        for _ in 0..position.base_records {
            let base = self.base.as_mut().ok_or_else(|| damage("it goes on with another base"))?;
            base.next().ok_or_else(|| damage("it goes on with another base"))??;
        }
        self.tree.reopen()
    }

    fn step<R: Read>(&mut self, op: Op, input: &mut Input<R>) -> Result<()> {
        match op {
            Op::Device { old, new } => self.journal.devices().note(old, new),
            Op::Same { count, recheck } => {
                for _ in 0..count {
                    if self.monitor.is_cancelled() {
                        return Err(Error::interrupted());
                    }
                    let (_, item) = self.next_of_base()?;
                    self.same(item, recheck)?;
                }
            }
            Op::Gone { count } => {
                for _ in 0..count {
                    let (directory, item) = self.next_of_base()?;
                    if let Some(removal) = &mut self.removal {
                        let path = match &item {
                            Item::Directory(directory) => directory.path.clone(),
                            Item::Entry(entry) => join(&directory, &entry.name),
                        };
                        removal.remove(&item, &path)?;
                    }
                }
            }
            Op::Directory { replaces, directory, xattrs } => {
                let is_there = self.pass(replaces)?.is_some_and(|item| matches!(item, Item::Directory(_)));
                self.directory(directory, xattrs, is_there)?;
            }
            Op::Entry { replaces, entry, xattrs, content } => {
                self.settle()?;
                let before = self.journal.position().base_records;
                let is_there = self.pass(replaces)?.is_some();
                // Until the entry is complete, its counterpart in the base was not passed.
                let after = std::mem::replace(&mut self.journal.position().base_records, before);
                let is_begun = std::mem::take(&mut self.begun) > 0;
                let xattrs = plain(xattrs);
                let (entry, written) = entry::make(
                    &mut self.tree,
                    (&mut self.sources, input),
                    is_there,
                    entry,
                    (&xattrs, &content),
                    (&mut self.journal, is_begun),
                    self.monitor,
                )?;
                self.journal.position().base_records = after;
                self.received.data_bytes += written.data;
                self.received.shared_bytes += written.shared;
                self.record(Item::Entry(entry))?;
                self.monitor.advance(Amount { files: 1, bytes: 0 });
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
                self.tree.enter_same(directory.clone());
                self.record(Item::Directory(directory))
            }
            Item::Directory(directory) => {
                let xattrs = self.inherited.xattrs(&directory)?;
                self.directory(directory, xattrs, true)
            }
            Item::Entry(mut entry) if self.tree.is_based => {
                entry::set_stored(&mut entry, content::Written::default());
                self.record(Item::Entry(entry))
            }
            Item::Entry(entry) => {
                let dir = self.tree.open()?;
                self.inherited.push(self.tree.path(), dir, entry);
                if self.inherited.is_full() { self.settle() } else { Ok(()) }
            }
        }
    }

    fn directory(&mut self, mut directory: Directory, xattrs: Xattrs, is_there: bool) -> Result<()> {
        manifest_path(&directory.path)?;
        self.settle()?;
        let (inherited, own): (Xattrs, Xattrs) =
            xattrs.into_iter().partition(|(name, _)| crate::fs::metadata::is_inherited(name));
        directory.meta.kept_xattrs = inherited;
        self.tree.enter(directory, &plain(own), is_there && self.tree.is_based)?;
        let made = self.tree.record().cloned();
        match made {
            Some(made) => self.record(Item::Directory(made)),
            None => Ok(()),
        }
    }

    /// Makes the entries that wait, and gives the directories that were left their metadata.
    fn settle(&mut self) -> Result<()> {
        for entry in self.inherited.make(&self.tree, self.monitor)? {
            self.record(Item::Entry(entry))?;
        }
        self.tree.settle()
    }

    fn record(&mut self, item: Item) -> Result<()> {
        self.manifest.add(&item, &mut self.removal)?;
        self.journal.add(&item)
    }

    fn pass(&mut self, replaces: bool) -> Result<Option<Item>> {
        if replaces { self.next_of_base().map(|(_, item)| Some(item)) } else { Ok(None) }
    }

    /// The next record of the base, and its directory.
    fn next_of_base(&mut self) -> Result<(Vec<u8>, Item)> {
        let items = self.base.as_mut().ok_or_else(|| damage("it refers to a base, and there is none"))?;
        let item = items.next().ok_or_else(|| damage("it refers to more records than the base has"))??;
        let directory = items.directory().to_vec();
        self.journal.position().base_records += 1;
        Ok((directory, item))
    }

    fn finish(&mut self) -> Result<()> {
        self.settle()?;
        if let Some(removal) = &mut self.removal {
            removal.settle()?;
        }
        if self.base.as_mut().is_some_and(|base| base.next().is_some()) {
            return Err(damage("it leaves records of the base out"));
        }
        self.tree.finish()?;
        self.journal.wait()
    }
}

impl Records {
    fn add(&mut self, item: &Item, removal: &mut Option<Removal<'_>>) -> Result<()> {
        self.digest.add(item)?;
        if let (Item::Directory(directory), Some(removal)) = (item, removal) {
            removal.passed(directory);
        }
        self.writer.push(item)
    }
}

fn manifest_path(path: &[u8]) -> Result<()> {
    if path.len() > manifest::LONGEST_PATH { Err(damage("a path is too long")) } else { Ok(()) }
}

fn plain(xattrs: Xattrs) -> Vec<Xattr> {
    xattrs.into_iter().map(|(name, value)| (name.into_vec(), value.into_vec())).collect()
}
