//! Sends what the store lacks of one snapshot, and finds out whether all of it arrived.
//!
//! The library drops a file that it cannot process. If it cannot read a directory of the parent, it reads the files in
//! it again, and takes the damaged directory for the new one if both are the same. It says so only in its log, and
//! publishes the snapshot. So the file of the snapshot is held back until all this is known, and a snapshot that lacks
//! something is marked.

use super::super::store::Store;
use super::super::stored::{Stored, mark_incomplete, paths};
use super::super::{fault, library_log, progress};
use super::source::Source;
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::Monitor;
use crate::snapshot::repository::SnapshotInfo;
use crate::util::text::counted;
use rustic_core::repofile::{Chunker, SnapshotFile};
use rustic_core::{BackupOptions, ParentOptions, SnapshotGroupCriterion};
use std::io;
use std::path::PathBuf;

/// What the library logs if it cannot read a directory of the parent.
const UNREAD: &str = "when loading parent tree";
/// What it logs if the index lacks the content of a file of the parent.
const LOST: &str = "missing blobs in index";

/// The degree of the polynomial that decides where a file is split.
const DEGREE: u32 = 53;

/// A snapshot cannot be sent.
pub(super) enum Failure {
    /// Because of this snapshot alone.
    Snapshot(Error),
    /// Because of the store, or an interruption.
    Store(Error),
}

/// A snapshot that was sent.
pub(super) struct Sent {
    pub(super) file: SnapshotFile,
    /// How many problems were reported.
    pub(super) problems: u64,
    /// Whether something in the repository or the store is damaged.
    pub(super) is_damaged: bool,
}

/// The files, links and special files of a snapshot.
pub(super) fn files_of(info: &SnapshotInfo) -> u64 {
    info.totals.entries() - info.totals.dirs
}

/// Refuses settings with which the library would compute forever.
///
/// # Errors
/// If the store has such settings.
pub(super) fn check_settings(store: &Store) -> Result<()> {
    let config = store.repository.config();
    // Those of restic and rustic have this degree.
    let is_sane = || config.poly().is_ok_and(|polynomial| polynomial.checked_ilog2() == Some(DEGREE));
    if config.chunker() != Chunker::Rabin || is_sane() {
        return Ok(());
    }
    let cause = io::Error::other("the polynomial that splits files is not one of restic or rustic");
    Err(Error::failed(format!("use the settings of {}", store.url)).because(cause).hint("make another store"))
}

/// Sends what the store lacks of a snapshot.
pub(super) fn archive(
    store: &Store,
    source: &Source,
    file: SnapshotFile,
    info: &SnapshotInfo,
    parent: Option<&Stored>,
    monitor: &dyn Monitor,
) -> Result<Sent, Failure> {
    let parents = match parent {
        // rustic_core 0.12 has this option the wrong way round: with `true`, a file with another inode is read.
        Some(parent) => ParentOptions::default().parents(vec![parent.file.id.to_hex().to_string()]).ignore_inode(true),
        None => ParentOptions::default().force(true),
    };
    let options = BackupOptions::default().parent_opts(parents.group_by(SnapshotGroupCriterion::new())).no_scan(true);
    let paths: Vec<_> = paths(&info.header).into_iter().map(PathBuf::from).collect();
    library_log::take();
    store.counts.begin();
    store.watch.hold_snapshots(true);
    let result = progress::watch(
        &store.counts,
        None,
        monitor,
        || store.watch.end(),
        || {
            let repository = store.again()?.to_indexed_ids()?;
            repository.archive(&options, source, file, &paths)
        },
    );
    store.watch.hold_snapshots(false);
    let (result, mut problems) = result.map_err(Failure::Store)?;
    if monitor.is_cancelled() {
        return Err(Failure::Store(Error::interrupted()));
    }
    if let Some(error) = source.tree.failure() {
        store.watch.restart();
        return Err(Failure::Snapshot(error));
    }
    if let Some(error) = store.failure() {
        return Err(Failure::Store(error));
    }
    let action = format!("send the snapshot {} to", info.name);
    let mut file = match result {
        Ok(Ok(file)) => file,
        Ok(Err(error)) => return Err(Failure::Store(store.fault(&action)(error))),
        Err(_) => {
            return Err(Failure::Store(Error::failed(format!("{action} {}", store.url)).hint("the library stopped")));
        }
    };
    let messages = library_log::take();
    let mut is_damaged = store.counts.is_damaged();
    let unread = unread(store, &messages).map_err(Failure::Store)?;
    let stored = Stored::new(file.clone());
    let missing = files_of(info).saturating_sub(stored.files().unwrap_or(0));
    let lacking = lacking(store, info, &stored, missing, &messages);
    if unread.is_some() || missing > 0 || lacking.is_some() {
        mark_incomplete(&mut file);
    }
    let lost = messages.iter().find(|message| message.contains(LOST)).filter(|_| unread.is_none());
    let lost = lost.map(|message| damaged(store, message));
    for error in [unread, lost, lacking].into_iter().flatten() {
        is_damaged |= error.kind() == ErrorKind::Damage;
        problems += 1;
        monitor.problem(&error);
    }
    let file = publish(store, file, info).map_err(Failure::Store)?;
    Ok(Sent { file, problems, is_damaged })
}

/// Adds the file of a snapshot to the store.
pub(super) fn publish(store: &Store, mut file: SnapshotFile, info: &SnapshotInfo) -> Result<SnapshotFile> {
    let action = format!("send the snapshot {} to", info.name);
    let saved = store.repository.save_snapshots(vec![file.clone()]);
    saved.map_err(|error| store.failure().unwrap_or_else(|| store.fault(&action)(error)))?;
    file.id = store.watch.snapshot().into();
    Ok(file)
}

/// A directory of the parent that cannot be read. The new snapshot may need it as it is.
///
/// # Errors
/// If the store does not answer: then nothing is known about it.
fn unread(store: &Store, messages: &[String]) -> Result<Option<Error>> {
    let message = messages.iter().find(|message| message.contains(UNREAD));
    const ACTION: &str = "read directories in";
    match (store.read_failure(ACTION), message) {
        (Some(error), _) if error.kind() == ErrorKind::Damage => Ok(Some(advised(error))),
        (Some(error), _) if fault::is_of_host(&error) => Err(error),
        (Some(error), _) if error.code() == "not-found" => {
            Ok(Some(damaged(store, "a file with directories is missing")))
        }
        (Some(error), _) => Ok(Some(damaged(store, &fault::cause_of(&error)))),
        (None, Some(message)) if message.contains("decryption failed") => {
            Ok(Some(damaged(store, "a directory fails its checksum")))
        }
        (None, Some(message)) => Ok(Some(damaged(store, message))),
        (None, None) => Ok(None),
    }
}

/// What the store lacks of a snapshot, if that is not reported yet.
fn lacking(store: &Store, info: &SnapshotInfo, stored: &Stored, missing: u64, messages: &[String]) -> Option<Error> {
    let unreported = missing.saturating_sub(store.counts.dropped());
    let is_short = || missing == 0 && stored.bytes().is_some_and(|bytes| bytes < store.counts.offered());
    let what = match unreported {
        0 if is_short() => "the whole content of all files".to_string(),
        0 => return None,
        number => counted(number, "file"),
    };
    let error = Error::failed(format!("store {what} of the snapshot {} in {}", info.name, store.url));
    let reason = messages.iter().find_map(|message| message.strip_prefix("ignoring error: "));
    let reason = reason.map_or("the library gives no reason", |reason| reason.trim_start_matches("Error: "));
    Some(error.because(io::Error::other(fault::shortened(reason))).with_code("incomplete"))
}

/// The error of damage in the store.
fn damaged(store: &Store, cause: &str) -> Error {
    advised(fault::damage("find all earlier data in", &store.url, fault::shortened(cause)))
}

fn advised(error: Error) -> Error {
    error.hint("'pleach offsite check' finds all damage; send the snapshots to another store")
}
