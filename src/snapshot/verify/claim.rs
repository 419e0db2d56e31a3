//! A file with the hash that its content should have, and how its content is reported.

use super::context::Context;
use super::member::{Member, Members};
use crate::content::hash::versions::Digest;
use crate::fs::data_loss::is_data_loss;
use crate::monitor::{Amount, Fault};
use rustix::io::Errno;
use std::sync::Arc;

/// A file with the hash that its content should have.
pub(super) struct Claim {
    pub(super) members: Arc<Members>,
    /// The number of its entry.
    pub(super) number: usize,
    pub(super) hash: [u8; 32],
    pub(super) size: u64,
    /// A difference of its metadata, which is reported if the content has none.
    pub(super) fault: Option<Fault>,
}

impl Claim {
    pub(super) fn member(&self) -> &Member {
        &self.members.all[self.number]
    }

    pub(super) fn path(&self) -> &[u8] {
        &self.members.path
    }

    /// Whether this is the content that the file should have.
    pub(super) fn is_met_by(&self, digest: Digest) -> bool {
        matches!(digest, Digest::Hash(hash) if hash == self.hash)
    }

    /// Whether enough of the file was data that whoever recorded its hash read about as much as its size.
    pub(super) fn had_data(&self) -> bool {
        self.member().entry.file().is_some_and(|file| file.holes <= file.size / 2)
    }
}

/// Reports a file with data that was read under another name.
pub(super) fn settled(context: &Context<'_>, claim: &Claim, digest: Digest) {
    context.monitor.advance(Amount { files: 0, bytes: claim.size });
    report(context, claim, digest);
}

/// Compares the content of a file with its hash.
pub(super) fn report(context: &Context<'_>, claim: &Claim, digest: Digest) {
    let snapshot = claim.member().snapshot;
    let counts = &context.snapshots[snapshot].counts;
    match digest {
        Digest::Hash(hash) => {
            counts.checked_files.add(1);
            counts.checked_bytes.add(claim.size);
            let fault = if hash == claim.hash { claim.fault } else { Some(Fault::Content) };
            fault.inspect(|fault| context.damage(snapshot, claim.path(), None, *fault));
        }
        Digest::Unreadable(offset, errno) if is_data_loss(errno) => {
            claim.member().note_failure();
            context.damage(snapshot, claim.path(), Some(offset), Fault::Unreadable);
        }
        Digest::Unreadable(_, errno) => failed(context, claim, "read", errno),
    }
}

/// Reports a file with content that could not be read.
pub(super) fn failed(context: &Context<'_>, claim: &Claim, action: &str, errno: Errno) {
    let snapshot = claim.member().snapshot;
    claim.member().note_failure();
    context.failed(snapshot, claim.path(), action, errno);
    if !is_data_loss(errno) && errno != Errno::NOENT {
        claim.fault.inspect(|fault| context.damage(snapshot, claim.path(), None, *fault));
    }
}
