//! The order of a restore: first directories on the way in, then their entries (`batch`). The last changes to each
//! directory (removals, its own metadata) follow, deepest directory first.

use super::batch::Batch;
use super::context::Context;
use super::directory::{self, Opened};
use super::end::End;
use super::levels::{Left, Levels};
use super::links::Links;
use super::options::Overwrite;
use super::selection::Selection;
use super::stats::Stats;
use super::wanted_names::WantedNames;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::status::Status;
use crate::monitor::Amount;
use crate::snapshot::manifest::{Address, Directory, Entry, Item, Meta};
use crate::snapshot::part::Part;
use crate::tree::writer::{Failure, Target as _};
use crate::util::path::{is_below, split};
use rustix::fs::FileType;
use std::os::fd::OwnedFd;

struct Tree<'a> {
    context: &'a Context<'a>,
    levels: Levels,
    batch: Batch,
    /// A directory that could not be restored: everything below it is skipped.
    skipped: Option<Vec<u8>>,
    stats: &'a mut Stats,
}

/// Restores the selected parts of the tree `source` into `target`. The stats are right even after an error.
pub(super) fn restore(
    context: &Context<'_>,
    selection: &Selection,
    (source, target): (OwnedFd, Option<OwnedFd>),
    stats: &mut Stats,
) -> Result<()> {
    if let Some(top) = target.as_ref().filter(|_| !context.options.dry_run) {
        directory::clear(top);
    }
    let batch = Batch::new(Links::new(target.as_ref()));
    let levels = Levels::new(context, source, target)?;
    let mut tree = Tree { context, levels, batch, skipped: None, stats };
    for part in selection.parts() {
        match part {
            Part::Subtree(path) => tree.subtree(path)?,
            Part::Entry(directory, name) => tree.single(directory, name)?,
        }
    }
    tree.finish()
}

impl Tree<'_> {
    fn subtree(&mut self, path: &[u8]) -> Result<()> {
        if !path.is_empty() {
            self.go_to(split(path).0)?;
        }
        let mut items = self.context.manifest.items_from(path);
        while let Some(item) = items.next() {
            if !is_below(items.directory(), path) {
                break;
            }
            match item {
                Ok(Item::Directory(record)) => {
                    let is_wanted = !record.scaffold;
                    self.enter(record, is_wanted, Some(items.address()))?;
                }
                Ok(Item::Entry(entry)) => {
                    // They differ only behind a damaged block.
                    if self.levels.path() != items.directory() {
                        self.go_to(items.directory())?;
                    }
                    if !self.is_skipped(items.directory()) {
                        self.push(entry)?;
                    }
                }
                Err(error) => {
                    self.problem(&error);
                    self.levels.forget_known();
                }
            }
        }
        Ok(())
    }

    fn single(&mut self, directory: &[u8], name: &[u8]) -> Result<()> {
        self.go_to(directory)?;
        if let Some(entry) = self.context.manifest.entry(directory, name)?
            && !self.is_skipped(directory)
        {
            self.push(entry)?;
        }
        Ok(())
    }

    /// Makes a directory the current one. Missing directories above it are made; existing ones are not changed.
    fn go_to(&mut self, path: &[u8]) -> Result<()> {
        self.ascend(path)?;
        while self.levels.path() != path && !self.is_skipped(path) {
            let present = self.levels.path().len();
            let start = usize::from(present > 0);
            let end = path[present + start..]
                .iter()
                .position(|&byte| byte == b'/')
                .map_or(path.len(), |slash| present + start + slash);
            match self.context.manifest.directory(&path[..end]) {
                Ok(Some(cursor)) => self.enter(cursor.directory().clone(), false, None)?,
                Ok(None) => {
                    let error = Error::failed("find the directory in the manifest");
                    self.enter_lost(&path[..end], error.at(self.context.shown(&path[..end])))?;
                }
                Err(error) => self.enter_lost(&path[..end], error)?,
            }
        }
        Ok(())
    }

    /// Makes a directory the current one although its record was lost to damage, so that the records behind it are not
    /// lost as well. Its metadata is taken from the snapshot's tree.
    fn enter_lost(&mut self, path: &[u8], error: Error) -> Result<()> {
        let above = self.levels.here(self.context)?;
        match Status::at(&above.source, split(path).1) {
            Ok(status) if status.file_type() == FileType::Directory => {
                self.problem(&error.hint("its metadata was taken from the snapshot's tree instead"));
                // The source's device is not known; that of its parent is the best guess.
                let dev = self.levels.present().and_then(|level| level.dev).unwrap_or(status.dev);
                let meta = Meta { dev, ..Meta::of(&status, true) };
                self.enter(Directory { path: path.to_vec(), scaffold: false, meta }, false, None)
            }
            _ => {
                self.problem(&error);
                self.skipped = Some(path.to_vec());
                Ok(())
            }
        }
    }

    fn is_skipped(&self, path: &[u8]) -> bool {
        self.skipped.as_ref().is_some_and(|skipped| is_below(path, skipped))
    }

    fn problem(&mut self, error: &Error) {
        self.context.monitor.problem(error);
        self.stats.errors += 1;
        self.stats.damaged += u64::from(error.kind() == ErrorKind::Damage);
    }

    /// Leaves directories until the current one is `path` or above it.
    fn ascend(&mut self, path: &[u8]) -> Result<()> {
        while !self.levels.is_top() && !is_below(path, self.levels.path()) {
            self.leave()?;
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<()> {
        match self.levels.leave(self.context) {
            Left::AsItIs => {}
            Left::Ends(place, end) => self.batch.end(place, end),
            // Somebody put something else on the way to it.
            Left::Lost(error) => self.problem(&error),
        }
        if self.batch.has_many_directories() { self.flush() } else { Ok(()) }
    }

    /// Begins a directory. `is_wanted`: it must be as in the snapshot; otherwise it is only on the way. `address`: the
    /// address of its record, if everything behind that record is streamed.
    fn enter(&mut self, record: Directory, is_wanted: bool, address: Option<Address>) -> Result<()> {
        if self.is_skipped(&record.path) {
            return Ok(());
        }
        self.skipped = None;
        self.context.check()?;
        self.ascend(&record.path)?;
        if self.batch.has_many_directories() {
            self.flush()?;
        }
        if record.path.is_empty() {
            return self.enter_top(record, is_wanted, address);
        }
        let (parent, name) = split(&record.path);
        if self.levels.path() != parent {
            // Its record was lost to damage.
            self.go_to(parent)?;
            if self.is_skipped(&record.path) {
                return Ok(());
            }
        }
        if let Some(known) = self.levels.present().and_then(|parent| parent.end.known.as_mut()) {
            known.add(name);
        }
        let opened = match self.levels.here(self.context) {
            Ok(above) => directory::open(self.context, &above, &record, is_wanted),
            Err(error) => Err(Failure::Entry(error)),
        };
        match opened {
            Ok(opened) => {
                self.opened(opened, &record, address);
                if is_wanted {
                    self.stats.dirs += 1;
                    self.context.monitor.advance(Amount { files: 1, bytes: 0 });
                }
                Ok(())
            }
            Err(failure) => {
                self.problem(&failure.skipped()?);
                self.skipped = Some(record.path);
                Ok(())
            }
        }
    }

    /// Makes a directory that was opened in the current directory the current one.
    fn opened(&mut self, opened: Opened, record: &Directory, address: Option<Address>) {
        let Opened { mut place, is_mount, mut end, change } = opened;
        end.known = address.filter(|_| end.delete).map(WantedNames::new);
        if let Some(change) = change.filter(|_| self.context.options.dry_run) {
            self.batch.line(change, self.context.shown(&record.path));
        }
        // A directory that the user named, as a source or as a PATH, may be a mount point on purpose.
        place.is_beyond_mount =
            self.levels.present().is_some_and(|parent| parent.end.is_wanted && (is_mount || parent.is_beyond_mount()));
        self.batch.opened();
        self.levels.enter(&record.path, place, Some(record.meta.dev), end);
    }

    /// The snapshot's own root is the target itself.
    fn enter_top(&mut self, record: Directory, is_wanted: bool, address: Option<Address>) -> Result<()> {
        let place = self.levels.here(self.context)?;
        let options = self.context.options;
        if let Some(level) = self.levels.present() {
            level.dev = Some(record.meta.dev);
            if is_wanted {
                let delete = options.delete && place.dir.fd.is_some();
                let meta = (options.overwrite != Overwrite::Never).then_some(record.meta);
                if let Some(meta) = &meta {
                    directory::narrow_top(self.context, &place, meta).map_err(Failure::into_error)?;
                }
                let known = address.filter(|_| delete).map(WantedNames::new);
                level.end = End { meta, is_wanted, delete, known };
            }
        }
        self.stats.dirs += u64::from(is_wanted);
        Ok(())
    }

    fn push(&mut self, entry: Entry) -> Result<()> {
        match self.levels.here(self.context) {
            Ok(place) => self.batch.entry(place, entry),
            Err(error) => {
                self.problem(&error);
                self.skipped = Some(self.levels.path().to_vec());
            }
        }
        if self.batch.has_many_entries() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.batch.flush(self.context, self.stats)
    }

    fn finish(mut self) -> Result<()> {
        while !self.levels.is_top() {
            self.leave()?;
        }
        let place = self.levels.here(self.context)?;
        if let Some(top) = self.levels.present() {
            let end = std::mem::replace(&mut top.end, End::nothing());
            self.batch.end(place, end);
        }
        self.batch.finish(self.context, self.stats)
    }
}
