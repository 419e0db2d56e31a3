//! One directory: found or made in the destination on the way in, given its metadata on the way out.

use super::context::Context;
use super::decide;
use super::outcome::{self, Attempt, Failure};
use super::pending::Pending;
use super::plan::{Step, Target};
use super::{Stats, TEMPORARY};
use crate::error::Error;
use crate::fs::metadata::{self, Attributes, FileAttr, Others, Xattr};
use crate::fs::openat;
use crate::fs::reopener::Inode;
use crate::fs::status::Status;
use crate::monitor::{Change, Event};
use crate::tree::deletion::allow_all;
use crate::tree::walk::{Directory, absolute};
use crate::tree::writer::{self, Aliases, Device, Inherited, Owner, Wanted};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A directory of the destination.
pub(super) struct Place {
    /// Its path below the top.
    pub(super) path: Vec<u8>,
    /// It itself, open; none in a dry run where there is nothing yet.
    pub(super) target: Option<Arc<OwnedFd>>,
    /// Its filesystem.
    pub(super) device: Arc<Device>,
    /// What it hands down.
    pub(super) ground: Inherited,
    /// It was made a moment ago, for its maker alone: nothing is in it but what this run makes, and it hands nothing down
    /// but a project.
    pub(super) fresh: bool,
    /// Names in it are replaced only after the next sync: it gets its metadata after that.
    pub(super) is_pending: AtomicBool,
    /// Its source, open, for as long as something waits.
    pub(super) source: OnceLock<Arc<OwnedFd>>,
    /// What the one entry that is wanted of it is to be called.
    pub(super) rename: Option<Vec<u8>>,
    /// The names that it takes for one.
    pub(super) aliases: Aliases,
    /// It was closed to be opened again.
    pub(super) closed: Option<Closed>,
}

/// What is known of a directory of the destination that was closed.
pub(super) struct Closed {
    inode: Option<Inode>,
    /// How its path begins, and how many bytes at the end are those of its source's.
    head: Vec<u8>,
    common: usize,
}

impl Closed {
    /// What the paths of a directory and of its copy make.
    pub(super) fn new(inode: Option<Inode>, source: &[u8], path: &[u8]) -> Closed {
        let common = source.iter().rev().zip(path.iter().rev()).take_while(|(a, b)| a == b).count();
        Closed { inode, head: path[..path.len() - common].to_vec(), common }
    }

    /// The path of the copy, and the inode that it had.
    pub(super) fn reopen(self, source: &[u8]) -> (Vec<u8>, Option<Inode>) {
        let Closed { inode, head, common } = self;
        ([&head, &source[source.len() - common.min(source.len())..]].concat(), inode)
    }
}

impl Place {
    /// Closes what is open, until [`Place::reopen`].
    pub(super) fn close(&mut self, source: &[u8]) {
        let inode = match &self.target {
            Some(target) => match Status::of(target) {
                Ok(status) => Some((status.dev, status.ino)),
                // It stays open.
                Err(_) => return,
            },
            None => None,
        };
        self.target = None;
        self.source.take();
        self.closed = Some(Closed::new(inode, source, &self.path));
        self.path = Vec::new();
    }

    /// Opens what was open again.
    pub(super) fn reopen(&mut self, context: &Context<'_>, source: &[u8]) -> rustix::io::Result<()> {
        if let Some(closed) = self.closed.take() {
            let (path, inode) = closed.reopen(source);
            self.path = path;
            self.target = inode.map(|inode| context.reopener()?.open(&self.path, inode).map(Arc::new)).transpose()?;
        }
        Ok(())
    }

    /// The top itself.
    pub(super) fn top(context: &Context<'_>) -> rustix::io::Result<Place> {
        let target = rustix::io::fcntl_dupfd_cloexec(&context.plan.top, 0)?;
        let device = context.devices.of(Some(&target))?;
        let ground = Inherited::of(&target);
        Ok(Place::new(Vec::new(), Some(target), device, ground, false))
    }

    fn new(path: Vec<u8>, target: Option<OwnedFd>, device: Arc<Device>, ground: Inherited, fresh: bool) -> Place {
        let (target, is_pending, source) = (target.map(Arc::new), AtomicBool::new(false), OnceLock::new());
        let aliases = Aliases::default();
        Place { path, target, device, ground, fresh, is_pending, source, rename: None, aliases, closed: None }
    }

    /// The path of an entry below the top.
    pub(super) fn join(&self, name: &[u8]) -> Vec<u8> {
        if self.path.is_empty() { name.to_vec() } else { [&self.path, &b"/"[..], name].concat() }
    }

    /// Fails if the entry that is found under a name is wanted under another one, which must not be lost.
    pub(super) fn refuse_another(&self, context: &Context<'_>, name: &[u8], wanted: Wanted<'_>) -> Attempt<()> {
        let Some(target) = &self.target else { return Ok(()) };
        let path = || context.shown(&self.join(name));
        match self.aliases.owner(target, &self.device, name, wanted) {
            Ok(Owner::Itself) => Ok(()),
            Ok(Owner::Other(other)) => {
                let other = other.map(|other| context.shown(&self.join(&other)));
                Err(Failure::Entry(writer::is_another("copy to", &path(), other.as_deref())))
            }
            Err(errno) => {
                Err(outcome::target(context, &self.join(name), "compare the names in the directory of", errno))
            }
        }
    }

    /// What an entry of the source is called here.
    pub(super) fn name<'n>(&'n self, source: &'n [u8]) -> &'n [u8] {
        self.rename.as_deref().unwrap_or(source)
    }
}

/// Enters a directory of the source: what it becomes, and the line of the plan.
pub(super) fn enter(
    context: &Context<'_>,
    step: &Step,
    directory: &Directory<()>,
    parent: Option<&Directory<Place>>,
) -> Attempt<(Place, Option<Change>)> {
    let top = || context.top().map_err(|errno| outcome::target(context, b"", "open", errno));
    // Only below a mount of the destination on itself: the copy would be copied.
    if parent.is_some() && (directory.status.dev, directory.status.ino) == context.plan.top_inode {
        let error = Error::failed("copy the destination into itself, from").at(absolute(&directory.path));
        return Err(Failure::Entry(error.hint("it is mounted there; it was skipped")));
    }
    match (parent, step.targets.get(directory.top)) {
        (Some(parent), _) => {
            let name = parent.place.name(directory.name());
            below(context, (&parent.place, context.wanted(parent)), name, directory)
        }
        (None, Some(Target::Named(name))) => {
            below(context, (&top()?, Wanted::These(&context.plan.names)), name, directory)
        }
        (None, Some(Target::Entries(rename))) => Ok((Place { rename: rename.clone(), ..top()? }, None)),
        (None, _) => {
            let place = top()?;
            clear(context, &place);
            let change = differs(context, directory, &place).then_some(Change::Metadata);
            Ok((place, change))
        }
    }
}

/// Finds or makes a directory below another.
fn below(
    context: &Context<'_>,
    (above, wanted): (&Place, Wanted<'_>),
    name: &[u8],
    directory: &Directory<()>,
) -> Attempt<(Place, Option<Change>)> {
    let path = above.join(name);
    let fail = |action: &str, errno| outcome::target(context, &path, action, errno);
    let made = |target: Option<OwnedFd>, ground, fresh| {
        let device = context.devices.of(target.as_ref()).map_err(|errno| fail("look at", errno))?;
        Ok(Place::new(path.clone(), target, device, ground, fresh))
    };
    let Some(dir) = &above.target else {
        return Ok((made(None, Inherited::default(), true)?, Some(Change::Added)));
    };
    let existing = match Status::at(dir, name) {
        _ if above.fresh => None,
        Ok(status) => Some(status),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(fail("look at", errno)),
    };
    let existing = match existing {
        Some(status) => Some(status),
        None if context.options.dry_run => return Ok((made(None, Inherited::default(), true)?, Some(Change::Added))),
        None => match make(context, above, dir, name) {
            Ok(target) => {
                let ground = Inherited { inherits: false, ..above.ground };
                return Ok((made(Some(target), ground, true)?, Some(Change::Added)));
            }
            // A run beside this one made it meanwhile, or it is the name of another entry.
            Err(Errno::EXIST) => None,
            Err(errno) => return Err(fail("make the directory", errno)),
        },
    };
    above.refuse_another(context, name, wanted)?;
    let existing = match existing {
        Some(status) => status,
        None => Status::at(dir, name).map_err(|errno| fail("look at", errno))?,
    };
    match existing {
        status if status.file_type() == FileType::Directory => {
            if context.is_source((status.dev, status.ino)) || status.is_same_inode(&directory.status) {
                let error = Error::failed("copy into the source itself, at").at(context.shown(&path));
                return Err(Failure::Entry(error.hint("a source is never changed; it was skipped")));
            }
            let open = || openat::open_subdir(dir, name);
            let target = match open() {
                // One's own directory, closed to oneself: it gets its mode when all in it is done.
                Err(Errno::ACCESS) if !context.options.dry_run && context.creator.is_owner(&status) => {
                    let name = CString::new(name).map_err(|_| fail("open", Errno::INVAL))?;
                    allow_all(dir.as_fd(), &name).and_then(|()| open())
                }
                result => result,
            };
            let target = target.map_err(|errno| fail("open the directory", errno))?;
            if !context.options.dry_run && !context.creator.is_root() && status.mode & 0o300 != 0o300 {
                let name = CString::new(name).map_err(|_| fail("open", Errno::INVAL))?;
                let _ = allow_all(dir.as_fd(), &name);
            }
            let ground = Inherited::of(&target);
            let place = made(Some(target), ground, false)?;
            clear(context, &place);
            let change = differs(context, directory, &place).then_some(Change::Metadata);
            Ok((place, change))
        }
        status => {
            let hint = match status.file_type() {
                FileType::Symlink => "a symbolic link is in its place, and pleach follows none",
                _ => "something else is in its place; remove it, or copy to another place",
            };
            let error = Error::io("make the directory", context.shown(&path), Errno::NOTDIR);
            Err(Failure::Entry(error.hint(hint)))
        }
    }
}

/// Makes a directory that is its maker's alone, and of which nothing is inherited.
fn make(context: &Context<'_>, above: &Place, dir: &OwnedFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    rustix::fs::mkdirat(dir, name, Mode::RWXU)?;
    let made = openat::open_subdir(dir, name)?;
    if above.ground.inherits {
        metadata::remove_other_xattrs(&made, &[])?.removed()?;
        context.creator.make_private(&made)?;
    } else if !context.creator.is_private(&Status::of(&made)?) {
        context.creator.make_private(&made)?;
    }
    Ok(made)
}

/// Makes a directory of which nothing is wanted but itself: something else is mounted on it in the source.
pub(super) fn mount_point(context: &Context<'_>, parent: &Directory<Place>, name: &[u8]) -> Attempt<Option<Change>> {
    let place = &parent.place;
    let target_name = place.name(name);
    let path = place.join(target_name);
    let fail = |action: &str, errno| outcome::target(context, &path, action, errno);
    let Some(dir) = &place.target else { return Ok(Some(Change::Added)) };
    match Status::at(dir, target_name) {
        Ok(_) => place.refuse_another(context, target_name, context.wanted(parent)).map(|()| None),
        Err(Errno::NOENT) if context.options.dry_run => Ok(Some(Change::Added)),
        Err(Errno::NOENT) => {
            let made = match make(context, place, dir, target_name) {
                // A run beside this one made it meanwhile, or it is the name of another entry.
                Err(Errno::EXIST) => {
                    return place.refuse_another(context, target_name, context.wanted(parent)).map(|()| None);
                }
                made => made.map_err(|errno| fail("make the directory", errno))?,
            };
            let status = Status::at(&parent.fd, name)
                .map_err(|errno| outcome::source(&parent.join(name), "read the status of", errno))?;
            let (attributes, is_foreign) = context.creator.within_rights(Attributes::of(&status, &[]));
            let refused =
                context.creator.apply(&made, &attributes).map_err(|errno| fail("set the metadata of", errno))?;
            context.not_kept.refused(&refused, is_foreign, || context.shown(&path));
            Ok(Some(Change::Added))
        }
        Err(errno) => Err(fail("look at", errno)),
    }
}

/// Removes what runs that were killed left in a directory.
fn clear(context: &Context<'_>, place: &Place) {
    if context.options.dry_run {
        return;
    }
    if let Some(target) = &place.target
        && let Ok(cleared @ 1..) = writer::clear(target.as_fd(), TEMPORARY)
    {
        context.monitor.event(Event::LeftoversRemoved { count: cleared, path: &context.shown(&place.path) });
    }
}

/// Clears the top, once and before anything is made in it.
pub(super) fn clear_top(context: &Context<'_>) -> Attempt<()> {
    clear(context, &context.top().map_err(|errno| outcome::target(context, b"", "open", errno))?);
    Ok(())
}

/// Gives a directory its metadata, now that all in it is done, if it differs.
pub(super) fn leave(context: &Context<'_>, directory: &Directory<Place>) -> Attempt<()> {
    let place = &directory.place;
    let Some(target) = place.target.as_ref().filter(|_| !directory.scaffold && !context.options.dry_run) else {
        return Ok(());
    };
    let is_pending = place.is_pending.load(Ordering::Relaxed);
    if !place.fresh && !is_pending && !differs(context, directory, place) {
        return Ok(());
    }
    let (xattrs, unread) = metadata::readable_xattrs(&directory.fd);
    if let Some(errno) = unread {
        let mut part = Stats::default();
        context.problem(&outcome::unread_xattrs(&directory.path, errno), &mut part);
        context.count(&part);
    }
    let wanted = context.fileattrs.of(&directory.fd, directory.status.dev);
    let (target, status, path) = (Arc::clone(target), directory.status, place.path.clone());
    // Of attributes that could not be read none is removed.
    let keeps_others = place.fresh || unread.is_some();
    let leaving = Leaving { target, status, xattrs, wanted, keeps_others, path };
    if is_pending {
        context.after_sync(Pending::Directory(leaving));
        return Ok(());
    }
    leaving.give(context)
}

/// A directory in which all is made, and the metadata that it gets.
pub(super) struct Leaving {
    target: Arc<OwnedFd>,
    status: Status,
    xattrs: Vec<Xattr>,
    wanted: FileAttr,
    /// Whether it keeps the attributes that are not among these.
    keeps_others: bool,
    path: Vec<u8>,
}

impl Leaving {
    /// Gives it that.
    pub(super) fn give(&self, context: &Context<'_>) -> Attempt<()> {
        let Leaving { target, status, xattrs, wanted, keeps_others, path } = self;
        let give = || {
            if !keeps_others && metadata::remove_other_xattrs(target, xattrs)? == Others::Unlisted {
                context.report_unlisted(path);
            }
            // The project comes with the seals.
            let attributes = Attributes::of(status, xattrs).with(FileAttr { project: None, ..*wanted });
            let (attributes, is_foreign) = context.creator.within_rights(attributes);
            let mut refused = context.creator.apply(target, &attributes)?;
            refused.fileattr.add(wanted.seal(target));
            Ok((refused, is_foreign))
        };
        let (refused, is_foreign) =
            give().map_err(|errno| outcome::target(context, path, "set the metadata of", errno))?;
        context.not_kept.refused(&refused, is_foreign, || context.shown(path));
        Ok(())
    }
}

/// Whether a directory that is there has other metadata than its source.
fn differs<P>(context: &Context<'_>, directory: &Directory<P>, place: &Place) -> bool {
    let Some(target) = &place.target else { return true };
    let has_same_status =
        Status::of(target).is_ok_and(|there| decide::has_same_status(context, &directory.status, &there));
    let wanted = || context.fileattrs.of(&directory.fd, directory.status.dev);
    if !has_same_status || !wanted().is_met_by(FileAttr::of(target)) {
        return true;
    }
    match (metadata::xattrs(&directory.fd), metadata::xattrs(target)) {
        (Ok(wanted), Ok(there)) => !decide::has_same_xattrs(context, wanted, there),
        _ => true,
    }
}
