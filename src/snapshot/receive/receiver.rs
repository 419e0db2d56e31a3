//! The state of a snapshot that is being received, and the work of each operation.

use super::content;
use super::entry::{self, Before};
use super::inherited::Inherited;
use super::journal::{Journal, Note};
use super::links::{First, Links};
use super::records::Records;
use super::sequence::Sequence;
use super::sources::Sources;
use super::tree::{Tree, plain};
use crate::error::{Error, Result};
use crate::fs::filesystem::Filesystem;
use crate::fs::metadata;
use crate::monitor::{Amount, Monitor};
use crate::snapshot::create::Removal;
use crate::snapshot::manifest::{Directory, Entry, Item, Reader, Totals, Writer};
use crate::snapshot::repository::Staging;
use crate::snapshot::stream::{Begin, Content, Digest, Input, Op, Position, Xattrs, damage};
use crate::util::path::join;
use std::io::Read;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

/// A snapshot that was received.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    pub(super) name: String,
    /// Bytes of content that arrived, and bytes that other files here had.
    pub(super) data_bytes: u64,
    pub(super) shared_bytes: u64,
}

/// The snapshot that a new one is based on.
pub(super) struct Base {
    pub(super) reader: Reader,
    pub(super) tree: OwnedFd,
}

pub(super) struct Receiver<'a> {
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

impl<'a> Receiver<'a> {
    /// Begins with an empty tree, or continues where `note` says.
    pub(super) fn new(
        staging: &Arc<Staging>,
        note: Option<Note>,
        filesystem: Filesystem,
        base: Option<&'a Base>,
        (writer, begin): (Writer, &Begin),
        threads: usize,
        monitor: &'a dyn Monitor,
    ) -> Result<Receiver<'a>> {
        let tree = Tree::new(staging, filesystem, begin.top, note.is_some())?;
        let removal = if tree.is_based {
            let top =
                staging.tree.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause))?;
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
        Ok(receiver)
    }

    /// Continues after a transfer was cut, if it was.
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

    /// Does the work of an operation, which is not the end.
    pub(super) fn step<R: Read>(&mut self, op: Op, input: &mut Input<R>) -> Result<()> {
        if self.begun.is_some() && !matches!(op, Op::Device { .. } | Op::Entry { .. }) {
            return Err(damage("it does not continue the file in progress"));
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
            return Err(damage("it does not continue the file in progress"));
        }
        let first = self.links.first(&entry)?;
        let is_further = first.is_some();
        if let Content::LinkTo(to) = content {
            let first = first.filter(|first| first.is_at(to));
            let first = first.ok_or_else(|| damage("a hard link does not point to the first name of its inode"))?;
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
    fn link(&mut self, first: &First, entry: &mut Entry) -> Result<()> {
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

    /// Completes the tree and its manifest.
    pub(super) fn finish(mut self, totals: &Totals, digest: &Digest, staging: &Staging) -> Result<Received> {
        if self.begun.is_some() {
            return Err(damage("it does not continue the file in progress"));
        }
        self.settle()?;
        self.sequence.finish()?;
        self.tree.finish()?;
        self.journal.wait()?;
        self.records.finish(totals, digest, staging)?;
        Ok(self.received)
    }
}
