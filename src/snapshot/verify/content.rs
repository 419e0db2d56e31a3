//! The content of one path in all snapshots. Files on the same blocks are one file here: the same inode, the same
//! layout, or content that another path has and that was read already. The rest goes to `content::hash::versions`,
//! which reads even the shared parts of different versions once.

use super::context::Context;
use super::member::Member;
use super::results::{Answer, Place, Results};
use crate::content::hash;
use crate::content::hash::versions::{self, Digest, Version};
use crate::error::{Error, Result};
use crate::extents::address_space::AddressSpace;
use crate::extents::streamed;
use crate::fs::data_loss::is_data_loss;
use crate::fs::open_files;
use crate::fs::status::Status;
use crate::monitor::{Amount, Fault};
use crate::tree::walk::absolute;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};

/// Files of at least this size, in bytes, are read by several threads each.
const LARGE: u64 = 16 << 20;
/// How many threads read a large file. One hashes while the other reads; the kernel's readahead keeps the device busy,
/// also while neither has a processor.
const THREADS: usize = 2;
/// Files of at least this size take turns. Small ones need many requests at once, large ones only wear out a disk's
/// arm with them.
const MEDIUM: u64 = 1 << 20;
/// A file up to this size, in bytes, is hashed even if its holes are out of proportion to its data.
const BEARABLE: u64 = 64 << 30;
/// How many files of that size are read at once.
pub(super) const TURNS: usize = 4;

/// A file with the hash that its content should have.
pub(super) struct Claim<'a> {
    pub(super) member: &'a Member,
    pub(super) hash: [u8; 32],
    pub(super) size: u64,
    /// A difference of its metadata, which is reported if the content has none.
    pub(super) fault: Option<Fault>,
}

impl Claim<'_> {
    /// Whether this is the content that the file should have.
    fn is_met_by(&self, digest: Digest) -> bool {
        matches!(digest, Digest::Hash(hash) if hash == self.hash)
    }

    /// Whether so much of the file was data that whoever recorded its hash read about as much as its size.
    fn had_data(&self) -> bool {
        self.member.entry.file().is_some_and(|file| file.holes <= file.size / 2)
    }
}

/// Files with the same data.
struct Same<'a> {
    file: OwnedFd,
    size: u64,
    place: Place,
    claims: Vec<Claim<'a>>,
}

/// A file that is open.
struct Opened<'a> {
    claim: Claim<'a>,
    file: OwnedFd,
    place: Place,
}

/// The files of one path.
struct Files<'a, 'c> {
    context: &'c Context<'c>,
    path: &'c [u8],
    /// Those that this thread must read.
    sames: Vec<Same<'a>>,
    /// Those that another thread is reading under another name.
    later: Vec<(Place, Claim<'a>)>,
}

/// Checks the content of these files of one path.
///
/// # Errors
/// If the run should stop.
pub(super) fn check(context: &Context<'_>, path: &[u8], claims: Vec<Claim<'_>>) -> Result<()> {
    let most = open_files::part(64, 8..=256);
    let mut files = Files { context, path, sames: Vec::new(), later: Vec::new() };
    for claim in claims {
        if let Some(opened) = files.open(claim) {
            files.add(opened, Results::ask);
        }
        if files.sames.len() >= most {
            files.read()?;
        }
    }
    files.read()?;
    for (place, claim) in std::mem::take(&mut files.later) {
        // Nothing of this path is in progress now.
        match context.results.wait(&place) {
            Answer::Read(digest) if claim.is_met_by(digest) => {
                files.settled(&claim, digest);
                continue;
            }
            Answer::Read(_) => {}
            // The other thread has given up, or its result is forgotten.
            _ => context.results.give_up(&place),
        }
        if let Some(opened) = files.open(claim) {
            files.add(opened, Results::wait);
        }
        files.read()?;
    }
    Ok(())
}

impl<'a> Files<'a, '_> {
    /// Opens a file and finds where its data lies. A file that cannot be opened is reported.
    fn open(&self, claim: Claim<'a>) -> Option<Opened<'a>> {
        let open = || {
            let file = claim.member.open()?;
            let status = Status::of(&file)?;
            // A file may have a hash because its blocks were allocated, although they were never written.
            let is_hashed = status.size <= BEARABLE || claim.had_data() || hash::is_hashed(&file, &status)?;
            Ok((file, status, is_hashed))
        };
        match open() {
            // Hashing it could take years, and nothing shows that it is damaged.
            Ok((_, _, false)) => {
                self.context.monitor.advance(Amount { files: 0, bytes: claim.size });
                let error = Error::failed("check the content of").at(absolute(self.path));
                let snapshot = &self.context.snapshots[claim.member.snapshot].name;
                self.context.problem(&error.hint(format!("its holes in the snapshot {snapshot} are too large")));
                claim.fault.inspect(|fault| self.context.damage(claim.member.snapshot, self.path, None, *fault));
                None
            }
            Ok((file, status, true)) => {
                // Without FIEMAP, or without addresses, only the inode is known.
                let space = AddressSpace::of(&file).ok().flatten();
                let layout = space.and_then(|space| streamed::layout(file.as_fd(), space.id()).ok().flatten());
                let place = Place::new(&status, layout, claim.hash);
                Some(Opened { claim, file, place })
            }
            Err(errno) => {
                self.context.monitor.advance(Amount { files: 0, bytes: claim.size });
                self.failed(&claim, "open", errno);
                None
            }
        }
    }

    /// Adds a file to those with the same data. `ask` finds out whether it was read already.
    fn add(&mut self, opened: Opened<'a>, ask: impl FnOnce(&Results, &Place) -> Answer) {
        let Opened { claim, file, place } = opened;
        if let Some(same) = self.sames.iter_mut().find(|same| same.place == place) {
            same.claims.push(claim);
            return;
        }
        match ask(self.context.results, &place) {
            Answer::Read(digest) if claim.is_met_by(digest) => self.settled(&claim, digest),
            Answer::InProgress => self.later.push((place, claim)),
            // Other data may have been at this address when it was read: only the file itself proves damage.
            Answer::Read(_) | Answer::Yours => {
                self.sames.push(Same { file, size: claim.size, place, claims: vec![claim] });
            }
        }
    }

    /// Reads files with different data, and reports each file that has it.
    fn read(&mut self) -> Result<()> {
        let sames = std::mem::take(&mut self.sames);
        if sames.is_empty() {
            return Ok(());
        }
        let context = self.context;
        let versions: Vec<_> = sames
            .iter()
            .map(|same| Version {
                file: same.file.as_fd(),
                size: same.size,
                space: AddressSpace::of(&same.file).ok().flatten().map(AddressSpace::id),
                claim: same.claims[0].hash,
                holders: same.claims.len() as u64,
            })
            .collect();
        let largest = sames.iter().map(|same| same.size).max().unwrap_or(0);
        let threads = if largest < LARGE { 1 } else { context.options.threads.unwrap_or(THREADS) };
        let read = || versions::hash(&versions, threads, context.monitor);
        let hashed = if largest < MEDIUM { read() } else { context.turns.with(read) };
        let (digests, read) = match hashed {
            Ok(hashed) => hashed,
            // Only the monitor ends it.
            Err(_) => {
                sames.iter().for_each(|same| context.results.give_up(&same.place));
                return Err(Error::interrupted());
            }
        };
        context.read_bytes.add(read);
        for (same, digest) in sames.iter().zip(digests) {
            context.results.put(same.place, digest);
            same.claims.iter().for_each(|claim| self.report(claim, digest));
        }
        Ok(())
    }

    /// Reports a file with data that was read under another name.
    fn settled(&self, claim: &Claim<'_>, digest: Digest) {
        self.context.monitor.advance(Amount { files: 0, bytes: claim.size });
        self.report(claim, digest);
    }

    /// Compares the content of a file with its hash.
    fn report(&self, claim: &Claim<'_>, digest: Digest) {
        let snapshot = claim.member.snapshot;
        let counts = &self.context.snapshots[snapshot].counts;
        match digest {
            Digest::Hash(hash) => {
                counts.checked_files.add(1);
                counts.checked_bytes.add(claim.size);
                let fault = if hash == claim.hash { claim.fault } else { Some(Fault::Content) };
                fault.inspect(|fault| self.context.damage(snapshot, self.path, None, *fault));
            }
            Digest::Unreadable(offset, errno) if is_data_loss(errno) => {
                claim.member.note_failure();
                self.context.damage(snapshot, self.path, Some(offset), Fault::Unreadable);
            }
            Digest::Unreadable(_, errno) => self.failed(claim, "read", errno),
        }
    }

    /// Reports a file with content that could not be read.
    fn failed(&self, claim: &Claim<'_>, action: &str, errno: Errno) {
        let snapshot = claim.member.snapshot;
        claim.member.note_failure();
        self.context.failed(snapshot, self.path, action, errno);
        if !is_data_loss(errno) && errno != Errno::NOENT {
            claim.fault.inspect(|fault| self.context.damage(snapshot, self.path, None, *fault));
        }
    }
}
