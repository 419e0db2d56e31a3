//! Does the jobs that wait until data is on the disk: sets the times of written files, replaces names, and does the
//! steps that must follow. See `after_sync` in `tree::writer`.
//!
//! Unlike the source of a restore, that of a copy may have changed meanwhile, so it is examined once more.

use super::context::Context;
use super::job::{Job, Source};
use super::{leaving, publishing};
use crate::content::same_content;
use crate::error::Error;
use crate::fs::openat;
use crate::fs::status::{Status, Time};
use crate::fs::timestamp::may_have_changed_since;
use crate::tree::walk::absolute;
use crate::tree::writer::{AfterSync, First, Run, Synced, Target as _};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// Adds a job for after the next sync. If a sync has failed, [`Context::check`] returns the error.
pub(super) fn add(context: &Context<'_>, job: Job) {
    let _ = context.after_sync(job);
}

impl Run for Context<'_> {
    type Job = Job;

    fn waiting(&self) -> &AfterSync<Job> {
        &self.waiting
    }

    fn finish(&self, job: Job, synced: &Synced) {
        match job {
            Job::File { file, source, path } => {
                let settled = match source.filter(|source| has_changed_unseen(source, self, &file)) {
                    None => file.settle(synced),
                    Some(source) => {
                        let error = Error::failed("make a consistent copy of").at(absolute(&source.path));
                        self.report(&error.hint("it changed while its copy was written to the disk; run again"));
                        file.settle_provisionally(synced)
                    }
                };
                match settled {
                    Ok(refused) => self.not_kept.seal(refused, || self.shown(&path)),
                    Err(errno) => failed(self, &path, errno),
                }
            }
            // Its inode came first: if its data could not be written, the failure of its device shows it.
            Job::Name { replacing, path } => match self.devices.check(&self.shown(&path)) {
                Ok(()) => replacing.put().unwrap_or_else(|errno| failed(self, &path, errno)),
                Err(error) => self.report(&error),
            },
            Job::Publish(publishing) => publishing::publish(self, publishing, synced),
            Job::Directory(leaving) => {
                leaving::give(self, &leaving).unwrap_or_else(|failure| self.report(&failure.into_error()));
            }
            Job::Seal(first) => seal(self, &first),
        }
    }
}

/// Seals an inode that has all its names: sets flags that would prevent adding names, and the project id.
pub(super) fn seal(context: &Context<'_>, first: &First) {
    match first.seal(|directory| openat::open_dir(context.plan.top.as_fd(), directory)) {
        Ok(refused) => context.not_kept.seal(refused, || context.shown(&first.path())),
        Err(errno) => context.report(&context.failure(&first.path(), "set the flags of", errno).into_error()),
    }
}

fn failed(context: &Context<'_>, path: &[u8], errno: Errno) {
    context.report(&context.failure(path, "put in place", errno).into_error());
}

/// Whether a source changed since it was copied while its size and modification time stayed the same. The next run
/// would consider its copy good, because the copy's inode changes now.
fn has_changed_unseen(source: &Source, context: &Context<'_>, copy: impl AsFd) -> bool {
    match Status::at(&source.dir, &source.name) {
        Ok(now) if now.is_untouched_since(&source.status) => {
            may_have_changed_in_its_tick(source, context) && !has_content_of(source, copy, context)
        }
        Ok(now) => (now.size, now.mtime) == (source.status.size, source.status.mtime),
        Err(_) => false,
    }
}

/// Whether a source could have changed after it was read and still have the same times, because it was read in the tick
/// of its last change, and that tick is over. Until the tick is over, the next run compares the contents, because the
/// copy's inode changes in the same tick.
fn may_have_changed_in_its_tick(source: &Source, context: &Context<'_>) -> bool {
    let could_change_since = |moment| may_have_changed_since(source.status.ctime, moment, source.clock);
    could_change_since(context.begun) && !could_change_since(Time::now())
}

fn has_content_of(source: &Source, copy: impl AsFd, context: &Context<'_>) -> bool {
    let compare =
        |file: OwnedFd| same_content::compare(file.as_fd(), copy.as_fd(), source.status.size, context.monitor);
    openat::open_file(source.dir.as_fd(), &source.name).and_then(compare).is_ok_and(|compared| compared.is_equal)
}
