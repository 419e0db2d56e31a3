//! Failures of single entries: which of them are damage in the store, and which end the run.

use super::super::fault::{cause_of, explain};
use super::super::store::Store;
use super::super::verified::is_exchanged;
use crate::error::{Error, ErrorKind};
use rustic_core::RusticError;
use std::io;
use std::path::Path;

/// An entry cannot be read from the store.
pub(super) enum Unread {
    /// The entry is damaged, for this reason.
    Damaged(String),
    /// The store cannot be read at all.
    Over(Error),
}

/// Judges why an entry cannot be read.
pub(super) fn unread(store: &Store, error: &RusticError) -> Unread {
    let inner = store.watch.read_failure();
    let inner = inner.as_deref().unwrap_or(error);
    let error = explain("read", &store.url, inner);
    if ends_run(&error) || store.watch.is_over() || !is_there(store) {
        return Unread::Over(error);
    }
    let cause = cause_of(&error);
    Unread::Damaged(match error.code() {
        "not-found" => "its data is missing in the store".to_string(),
        _ if is_exchanged(inner) && store.has_cache() => {
            "its data does not have its hash, in the store or in the cache of this machine; --no-cache passes over that"
                .into()
        }
        _ if is_exchanged(inner) => "its data in the store does not have its hash".to_string(),
        _ if cause.contains("decryption failed") => "its data in the store fails its checksum".to_string(),
        _ => format!("its data in the store cannot be read: {cause}"),
    })
}

/// The error of a damaged entry.
pub(super) fn damaged(path: &Path, cause: &str) -> Error {
    Error::new(ErrorKind::Damage, "restore")
        .at(path)
        .because(io::Error::other(cause.to_string()))
        .hint("'pleach offsite check --read-data' finds all damage")
}

/// Whether no other entry can be expected to do better.
pub(super) fn ends_run(error: &Error) -> bool {
    let codes = ["no-connection", "rate-limited", "unavailable", "no-space", "read-only"];
    error.kind() == ErrorKind::Interrupted || codes.contains(&error.code())
}

/// Whether the store still answers: a lost disk or server is not damage.
pub(super) fn is_there(store: &Store) -> bool {
    matches!(store.repository.config_id(), Ok(Some(_)))
}
