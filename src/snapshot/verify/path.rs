//! One path in all snapshots that have it: its status in each, then its content, which is read once for all snapshots
//! that share it.

use super::claim::Claim;
use super::compare::{self, may_be_absent};
use super::content;
use super::context::Context;
use super::member::Members;
use super::progress::Ticket;
use super::queue::Queue;
use crate::error::Result;
use crate::monitor::{Amount, Fault};
use crate::snapshot::manifest::Entry;
use crate::util::mutex::lock;
use rustix::io::Errno;
use std::sync::Arc;

/// Checks a path. Files that are not small are added to the queue.
///
/// # Errors
/// If the run should stop.
pub(super) fn check(context: &Context<'_>, queue: &Queue, members: &Arc<Members>, ticket: Ticket) -> Result<()> {
    context.check()?;
    let path = &members.path;
    let mut claims = Vec::new();
    let mut present = Vec::new();
    for (number, member) in members.all.iter().enumerate() {
        if context.snapshots[member.snapshot].is_deleted() {
            continue;
        }
        let Entry { name, meta, body } = &member.entry;
        context.monitor.advance(Amount { files: 1, bytes: 0 });
        let counts = &context.snapshots[member.snapshot].counts;
        let file = member.entry.file();
        counts.files.add(u64::from(file.is_some()));
        counts.unhashed_files.add(u64::from(file.is_some_and(|file| file.hash.is_none())));
        let status = match member.status() {
            Ok(status) => status,
            Err(errno) => {
                if errno == Errno::NOENT {
                    member.place.misses();
                }
                if errno != Errno::NOENT || !may_be_absent(meta, body) {
                    context.failed(member.snapshot, path, "read the status of", errno);
                }
                continue;
            }
        };
        let link =
            || rustix::fs::readlinkat(&member.place.fd, name.as_slice(), Vec::new()).map(|target| target.into_bytes());
        let times = context.snapshots[member.snapshot].times;
        let fault = match compare::fault(meta, Some(body), &status, times, link) {
            Ok(fault) => fault,
            Err(errno) => {
                context.failed(member.snapshot, path, "read the link", errno);
                continue;
            }
        };
        let readable = file.filter(|_| !matches!(fault, Some(Fault::Type | Fault::Size)));
        if readable.is_some() {
            present.push(number);
        }
        let is_wanted = |hash: &[u8; 32]| !context.options.quick && context.part.is_none_or(|part| part.contains(hash));
        match readable.and_then(|file| file.hash).filter(is_wanted) {
            Some(hash) => claims.push(Claim { members: Arc::clone(members), number, hash, size: status.size, fault }),
            None => {
                if let Some(fault) = fault {
                    context.damage(member.snapshot, path, None, fault);
                }
            }
        }
    }
    if context.options.sharing {
        lock(&ticket.progress().readable).push((Arc::clone(members), present));
    }
    content::check(context, queue, ticket, claims)
}
