//! Receives one snapshot: begins or continues it, and publishes it or keeps it for the next attempt.

use super::journal::{self, Note};
use super::receiver::{Base, Received, Receiver};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::filesystem::{Filesystem, Kind};
use crate::monitor::{Amount, Monitor};
use crate::snapshot::manifest::Writer;
use crate::snapshot::repository::{self, Latest, Repository, Staging, Start};
use crate::snapshot::stream::{Begin, Digest, Input, Op, Position, damage};
use std::io::Read;
use std::os::fd::AsFd as _;
use std::sync::Arc;

/// How far an unfinished snapshot was received, and its base. `None` if it must begin anew.
pub(super) fn begun(repository: &Repository, name: &str, identity: &Digest) -> Option<(Option<String>, Position)> {
    let position = repository::incoming_position(repository, name)?;
    let note = journal::read_from(position).filter(|note| note.identity == *identity)?;
    Some((note.base.map(|(name, _)| name), note.position))
}

/// Receives one snapshot. `input` is behind its `Begin`. The caller holds the lock, and corrects `latest`. Also returns
/// why the snapshot could not be made read-only after it had appeared.
pub(super) fn snapshot<R: Read>(
    repository: &Repository,
    input: &mut Input<R>,
    begin: &Begin,
    threads: usize,
    monitor: &dyn Monitor,
) -> Result<(Received, Option<Error>)> {
    let filesystem = Filesystem::probe(repository.fd(), repository.path())?;
    let base = match &begin.base {
        None => None,
        Some((name, identity)) => {
            let refused = |hint| {
                let action = format!("find the snapshot {name}, which the stream is based on, in");
                Err(Error::failed(action).at(repository.path()).hint(hint))
            };
            if !repository.has_snapshot(name)? {
                return refused("receive that one first");
            }
            let reader = repository.manifest(name)?;
            if repository::identity(repository, name)? != *identity {
                return refused("a snapshot of this name exists, but it is another one");
            }
            Some(Base { tree: repository.tree(name)?, reader })
        }
    };
    let (staging, note) = stage(repository, filesystem, base.as_ref(), begin)?;
    let staging = Arc::new(staging);
    let result = fill(&staging, note, filesystem, base.as_ref(), (input, begin), threads, monitor);
    let staging = Arc::into_inner(staging).ok_or_else(|| Error::failed("end the transfer"))?;
    match result {
        Ok(received) => {
            monitor.phase("publishing", None);
            repository::note_identity(repository, &begin.header.name, &begin.identity)?;
            let published = repository::publish(repository, staging, Latest::Stays)?;
            if let (Err(sealed), Err(_)) = (&published.sealed, &published.synced) {
                monitor.problem(sealed);
            }
            // The sender must not believe that it is there for good.
            published.synced?;
            Ok((received, published.sealed.err()))
        }
        // A transfer that was cut can continue.
        Err(error) if error.kind() != ErrorKind::Damage && journal::read(&staging).is_some() => Err(error),
        Err(error) => {
            let _ = repository::discard(repository, staging, threads, monitor);
            Err(error)
        }
    }
}

/// Begins the tree, or opens the one of a transfer that was cut.
fn stage(
    repository: &Repository,
    filesystem: Filesystem,
    base: Option<&Base>,
    begin: &Begin,
) -> Result<(Staging, Option<Note>)> {
    let name = &begin.header.name;
    if begin.position == Position::default() {
        let start = start(repository, filesystem, base)?;
        return Ok((repository::begin_incoming(repository, name, start)?, None));
    }
    let lost = || damage("it continues a transfer that does not exist");
    let note = repository::incoming(repository, name, false).and_then(|staging| journal::read(&staging));
    let note = note.filter(|note| (note.identity, &note.base) == (begin.identity, &begin.base)).ok_or_else(lost)?;
    if note.position != begin.position {
        return Err(lost());
    }
    let staging = repository::incoming(repository, name, note.is_based).ok_or_else(lost)?;
    staging.unlink("manifest")?;
    Ok((staging, Some(note)))
}

/// How the new tree begins: on Btrfs as a snapshot of the base's tree, if possible.
fn start<'a>(repository: &Repository, filesystem: Filesystem, base: Option<&'a Base>) -> Result<Start<'a>> {
    let is_root = rustix::process::geteuid().is_root();
    if filesystem.kind != Kind::Btrfs || !is_root || !repository::can_make_subvolumes(repository) {
        return Ok(Start::Directory);
    }
    match base {
        Some(base) if repository::is_as_published(repository, &base.reader.header().name)? => {
            Ok(Start::SnapshotOf(base.tree.as_fd()))
        }
        _ => Ok(Start::Subvolume),
    }
}

fn fill<R: Read>(
    staging: &Arc<Staging>,
    note: Option<Note>,
    filesystem: Filesystem,
    base: Option<&Base>,
    (input, begin): (&mut Input<R>, &Begin),
    threads: usize,
    monitor: &dyn Monitor,
) -> Result<Received> {
    let mut writer = Writer::create(staging.create_manifest()?, &staging.manifest, &begin.header)?;
    writer.set_origins(begin.origins.clone());
    let expected = Amount { files: begin.totals.entries(), bytes: 0 };
    monitor.phase("receiving", Some(expected));
    let mut receiver = Receiver::new(staging, note, filesystem, base, (writer, begin), threads, monitor)?;
    loop {
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        let op = input.next_op()?;
        if let Op::End { totals, digest } = op {
            return receiver.finish(&totals, &digest, staging);
        }
        receiver.step(op, input)?;
    }
}
