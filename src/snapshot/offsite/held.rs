//! All snapshots in a store. A file of one that is damaged costs this snapshot, and no other.

use super::fault::{cause_of, damage, in_one_line, is_of_host};
use super::store::Store;
use super::stored::Stored;
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::util::text;
use rustic_core::RusticError;
use rustic_core::repofile::{SnapshotFile, SnapshotId};
use std::collections::HashSet;
use std::io;

const ACTION: &str = "list the snapshots in";

/// The snapshots in a store.
pub(super) struct Held {
    /// Oldest first.
    pub(super) all: Vec<Stored>,
    /// The files of those that cannot be read, each with the reason.
    pub(super) damaged: Vec<String>,
}

impl Held {
    /// Reads them.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(super) fn read(store: &Store) -> Result<Held> {
        let failed = |error: Box<RusticError>| store.fault(ACTION)(error);
        let stored = |(id, file)| Stored::new(SnapshotFile { id, ..file });
        let ids: Vec<SnapshotId> = store.repository.list().map_err(failed)?.collect();
        let read = |ids| store.repository.stream_files_list::<SnapshotFile>(ids).map_err(failed);
        let mut all: Vec<_> = read(ids.clone())?.flatten().map(stored).collect();
        drop(store.watch.read_failure());
        let mut damaged = Vec::new();
        let known: HashSet<_> = all.iter().map(|stored| stored.file.id).collect();
        // The library does not say which file it could not read.
        for id in ids.into_iter().filter(|id| !known.contains(id)) {
            match read(vec![id])?.next() {
                Some(Ok(found)) => all.push(stored(found)),
                Some(Err(error)) => damaged.extend(damage_of(store, &id, &error)?),
                None => {}
            }
        }
        all.sort_by(|a, b| (a.created(), &a.name, a.file.id).cmp(&(b.created(), &b.name, b.file.id)));
        Ok(Held { all, damaged })
    }

    /// Those of pleach, oldest first. Each is there once, with as many files as the store has.
    pub(super) fn current(&self) -> impl DoubleEndedIterator<Item = &Stored> {
        self.all.iter().filter(|stored| stored.name.is_some() && !stored.is_superseded(&self.all))
    }

    /// The errors of damaged ones.
    pub(super) fn errors(&self, store: &Store) -> impl Iterator<Item = Error> {
        let hint = "the other snapshots can be restored; 'pleach offsite check' finds all damage";
        self.damaged.iter().map(move |file| damage("list all snapshots in", &store.url, file.clone()).hint(hint))
    }

    /// Passes these errors on. Returns how many there are.
    pub(super) fn report(&self, store: &Store, monitor: &dyn Monitor) -> u64 {
        self.errors(store).for_each(|error| monitor.problem(&error));
        self.damaged.len() as u64
    }

    /// The snapshot that an ID means: a name, the beginning of one, the beginning of the store's own ID, or `latest`.
    pub(super) fn find(&self, store: &Store, id: &str) -> Result<Stored> {
        let fail = |why: String| {
            let error = Error::failed(format!("find the snapshot '{}' in {}", text::escape(id.as_ref()), store.url));
            let error = error.because(io::Error::other(why)).with_code("no-snapshot");
            match self.damaged.is_empty() {
                true => error.hint("'pleach offsite list' shows them"),
                false => error.hint("it may be one that cannot be read: 'pleach offsite check' names them"),
            }
        };
        if id == "latest" {
            return self.current().next_back().cloned().ok_or_else(|| fail("the store has none of pleach".into()));
        }
        let of = |is: &dyn Fn(&Stored) -> bool| self.current().filter(|stored| is(stored)).cloned().collect::<Vec<_>>();
        let named = of(&|stored| stored.name.as_deref() == Some(id));
        let begun = || of(&|stored| stored.name.as_deref().is_some_and(|name| name.starts_with(id)));
        let by_id = || of(&|stored| id.len() >= 4 && stored.file.id.to_hex().starts_with(id));
        let found = [named, begun(), by_id()].into_iter().find(|found| !found.is_empty()).unwrap_or_default();
        match &found[..] {
            [one] => Ok(one.clone()),
            // Two machines may have sent it at once.
            [first, rest @ ..] if rest.iter().all(|other| first.is_same(other)) => Ok(first.clone()),
            [] => Err(fail("there is none".into())),
            many => {
                let ids: Vec<_> = many.iter().take(5).map(|stored| stored.file.id.to_hex()[..8].to_string()).collect();
                Err(fail(format!("it may be one of {}: use the store's ID, as {}", many.len(), ids.join(", "))))
            }
        }
    }
}

/// Why a snapshot cannot be read; none if another run has removed it meanwhile.
///
/// # Errors
/// If the store does not answer.
fn damage_of(store: &Store, id: &SnapshotId, error: &RusticError) -> Result<Option<String>> {
    let cause = match store.read_failure(ACTION) {
        Some(error) if is_of_host(&error) => return Err(error),
        Some(error) if error.code() == "not-found" => return Ok(None),
        Some(error) => cause_of(&error),
        None => in_one_line(error),
    };
    let name = format!("snapshots/{}", id.to_hex().as_str());
    Ok(Some(if cause.contains(&name) { cause } else { format!("{name}: {cause}") }))
}
