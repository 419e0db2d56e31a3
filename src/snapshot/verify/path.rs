//! One path in all snapshots that have it: its status in each, then its content, which is read once for all snapshots
//! that share it.

use super::compare::{self, may_be_absent};
use super::content::{self, Claim};
use super::context::Context;
use super::member::Member;
use super::sharing;
use crate::error::Result;
use crate::fs::status::Status;
use crate::monitor::{Amount, Fault};
use crate::snapshot::manifest::Entry;
use rustix::io::Errno;

/// Checks a path.
///
/// # Errors
/// If the run should stop.
pub(super) fn check(context: &Context<'_>, path: &[u8], members: Vec<Member>) -> Result<()> {
    context.check()?;
    let mut claims = Vec::new();
    let mut present = Vec::new();
    for member in &members {
        if context.snapshots[member.snapshot].is_deleted() {
            continue;
        }
        let Entry { name, meta, body } = &member.entry;
        context.monitor.advance(Amount { files: 1, bytes: 0 });
        let counts = &context.snapshots[member.snapshot].counts;
        let file = member.entry.file();
        counts.files.add(u64::from(file.is_some()));
        counts.unhashed_files.add(u64::from(file.is_some_and(|file| file.hash.is_none())));
        let status = match Status::at(&member.place.fd, name) {
            Ok(status) => status,
            Err(errno) => {
                if errno == Errno::NOENT {
                    member.place.misses();
                }
                if errno != Errno::NOENT || !may_be_absent(meta, body) {
                    context.failed(member.snapshot, path, "look at", errno);
                }
                continue;
            }
        };
        let link =
            || rustix::fs::readlinkat(&member.place.fd, name.as_slice(), Vec::new()).map(|target| target.into_bytes());
        let has_fine_times = context.snapshots[member.snapshot].has_fine_times;
        let fault = match compare::fault(meta, Some(body), &status, has_fine_times, link) {
            Ok(fault) => fault,
            Err(errno) => {
                context.failed(member.snapshot, path, "read the link", errno);
                continue;
            }
        };
        let readable = file.filter(|_| !matches!(fault, Some(Fault::Type | Fault::Size)));
        if readable.is_some() {
            present.push(member);
        }
        let is_wanted = |hash: &[u8; 32]| !context.options.quick && context.part.is_none_or(|part| part.contains(hash));
        match readable.and_then(|file| file.hash).filter(is_wanted) {
            Some(hash) => claims.push(Claim { member, hash, size: status.size, fault }),
            None => {
                if let Some(fault) = fault {
                    context.damage(member.snapshot, path, None, fault);
                }
            }
        }
    }
    content::check(context, path, claims)?;
    if context.options.sharing { sharing::check(context, path, &present) } else { Ok(()) }
}
