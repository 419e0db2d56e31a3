//! Enters directories of the destination that exist already, and clears them.

use super::context::Context;
use super::options::TEMPORARY;
use super::place::Place;
use crate::error::Error;
use crate::fs::status::Status;
use crate::fs::timestamp::may_have_changed_since;
use crate::monitor::Event;
use crate::tree::writer::{self, Attempt, Entering, Failure, Inherited, Slot, Target as _};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Opens an existing directory of the destination, and removes the remains of killed runs from it. `status`: its own,
/// `source`: that of its source.
pub(super) fn enter(
    context: &Context<'_>,
    slot: &Slot<'_, '_, Context<'_>>,
    status: &Status,
    source: &Status,
    entering: &Entering<'_>,
) -> Attempt<Place> {
    if status.file_type() != FileType::Directory {
        let hint = match status.file_type() {
            FileType::Symlink => "a symbolic link is in its place, and pleach follows none",
            _ => "something else is in its place; remove it, or copy to another place",
        };
        return Err(Failure::Entry(Error::io("make the directory", slot.shown(), Errno::NOTDIR).hint(hint)));
    }
    if context.is_source((status.dev, status.ino)) || status.is_same_inode(source) {
        let error = Error::failed("copy into the source itself, at").at(slot.shown());
        return Err(Failure::Entry(error.hint("a source is never changed; it was skipped")));
    }
    let target = slot.open_dir(status, entering)?;
    let inherited = Inherited::of(&target);
    let appeared = may_have_changed_since(status.ctime, context.begun, context.clocks.of(status.dev, &target));
    let place = Place::new(slot.path(), Some(target), &context.devices, inherited, false)
        .map_err(|errno| slot.failure("read the status of", errno))?
        .appeared(appeared);
    clear(context, &place);
    Ok(place)
}

/// Removes the remains of killed runs from a directory.
pub(super) fn clear(context: &Context<'_>, place: &Place) {
    if context.options.dry_run {
        return;
    }
    if let Some(target) = &place.dir.fd
        && let Ok(cleared @ 1..) = writer::clear_with_directories(target.as_fd(), TEMPORARY)
    {
        context.monitor.event(Event::LeftoversRemoved { count: cleared, path: &context.shown(&place.path) });
    }
}
