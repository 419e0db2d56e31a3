//! What waits until data is on the disk: the times of files that were written, names that replace others, and what must come
//! after these. See `staging::writeback`.

use super::Stats;
use super::context::Context;
use super::directory::Leaving;
use super::links::First;
use super::outcome;
use crate::content::same_content;
use crate::error::Error;
use crate::fs::metadata::{FileAttr, Refused};
use crate::fs::openat;
use crate::fs::status::{Status, Time};
use crate::fs::timestamp::{Clock, may_have_changed_since};
use crate::tree::walk::absolute;
use crate::tree::writer::{Replacing, Synced, Unsynced};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// A job for after the next sync. Paths are below the top.
pub(super) enum Pending {
    /// A file gets its times, the name of the file that it replaces, and what forbids changes.
    File {
        /// The file.
        file: Unsynced,
        /// What it was copied from; `None` if its status says nothing.
        source: Option<Source>,
        /// What it is sealed with.
        seal: Option<FileAttr>,
        /// The path that it has at the end.
        path: Vec<u8>,
    },
    /// A further name of such a file replaces another file.
    Name {
        /// The name that it has until then, and the other file.
        replacing: Replacing,
        /// The path of that.
        path: Vec<u8>,
    },
    /// A directory gets its metadata, since names in it were replaced.
    Directory(Leaving),
    /// An inode that has all its names gets what forbids changes.
    Seal(First),
}

/// A source and its status when it was copied.
pub(super) struct Source {
    pub(super) dir: Arc<OwnedFd>,
    pub(super) name: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) status: Status,
    /// The clock that stamps it.
    pub(super) clock: Clock,
}

impl Source {
    /// Whether it changed since without a change of size and time of modification: the next run would take its copy for a
    /// good one, because the copy's inode changes now.
    fn has_changed_unseen(&self, context: &Context<'_>, copy: impl AsFd) -> bool {
        match Status::at(&self.dir, &self.name) {
            Ok(now) if now.is_untouched_since(&self.status) => {
                self.may_have_changed_in_its_tick(context) && !self.has_content_of(copy, context)
            }
            Ok(now) => (now.size, now.mtime) == (self.status.size, self.status.mtime),
            Err(_) => false,
        }
    }

    /// Whether it could have changed after it was read and have the same times all the same, because it was read in the tick of
    /// its last change, which is over. As long as that lasts, the next run compares the contents: the copy's inode changes in
    /// that tick, too.
    fn may_have_changed_in_its_tick(&self, context: &Context<'_>) -> bool {
        let could_change_since = |moment| may_have_changed_since(self.status.ctime, moment, self.clock);
        could_change_since(context.begun) && !could_change_since(Time::now())
    }

    fn has_content_of(&self, copy: impl AsFd, context: &Context<'_>) -> bool {
        let compare =
            |source: OwnedFd| same_content::compare(source.as_fd(), copy.as_fd(), self.status.size, context.monitor);
        openat::open_file(self.dir.as_fd(), &self.name).and_then(compare).is_ok_and(|compared| compared.is_equal)
    }
}

impl Pending {
    /// Does the job.
    pub(super) fn finish(self, context: &Context<'_>, synced: &Synced) {
        match self {
            Pending::File { file, source, seal, path } => {
                let settled = match source.filter(|source| source.has_changed_unseen(context, &file)) {
                    None => file.settle(synced),
                    Some(source) => {
                        let error = Error::failed("take a quiet copy of").at(absolute(&source.path));
                        problem(context, &error.hint("it changed while its copy was written to the disk; run again"));
                        file.settle_provisionally(synced)
                    }
                };
                match settled {
                    Ok(file) => {
                        let Some(seal) = seal else { return };
                        let refused = Refused { fileattr: seal.seal(file), ..Refused::default() };
                        context.not_kept.refused(&refused, false, || context.shown(&path));
                    }
                    Err(errno) => failed(context, &path, "put in place", errno),
                }
            }
            Pending::Name { replacing, path } => {
                replacing.put().unwrap_or_else(|errno| failed(context, &path, "put in place", errno));
            }
            Pending::Directory(leaving) => {
                leaving.give(context).unwrap_or_else(|failure| problem(context, &failure.into_error()));
            }
            Pending::Seal(first) => first.seal(context),
        }
    }
}

fn failed(context: &Context<'_>, path: &[u8], action: &str, errno: Errno) {
    problem(context, &outcome::target(context, path, action, errno).into_error());
}

fn problem(context: &Context<'_>, error: &Error) {
    let mut part = Stats::default();
    context.problem(error, &mut part);
    context.count(&part);
}
