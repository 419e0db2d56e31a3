//! The records of several manifests as one stream: each path once, with the record of every snapshot that has it.

use crate::error::Error;
use crate::snapshot::manifest::{Directory, Entry, Item, Items, Reader, compare_paths};
use std::cmp::Ordering;

/// The merged stream. Holds one block of each manifest.
pub(super) struct Merge<'r> {
    streams: Vec<Stream<'r>>,
}

/// The records of one path. The numbers are those of the snapshots.
pub(super) enum Next {
    /// A directory.
    Directories(Vec<(usize, Directory)>),
    /// An entry, and the path of its directory.
    Entries(Vec<u8>, Vec<(usize, Entry)>),
    /// A block of this snapshot's manifest is damaged. Its stream continues behind the block.
    Lost(usize, Error),
}

struct Stream<'r> {
    snapshot: usize,
    items: Items<'r>,
    ahead: Option<Item>,
}

impl<'r> Merge<'r> {
    /// The merged records of these manifests.
    pub(super) fn of(manifests: impl Iterator<Item = (usize, &'r Reader)>) -> Self {
        let stream =
            |(snapshot, manifest): (usize, &'r Reader)| Stream { snapshot, items: manifest.items(), ahead: None };
        let mut streams: Vec<_> = manifests.map(stream).collect();
        streams.reverse();
        Merge { streams }
    }

    /// Ends the stream of a snapshot.
    pub(super) fn end(&mut self, snapshot: usize) {
        self.streams.retain(|stream| stream.snapshot != snapshot);
    }

    /// The records of the next path. `None` at the end of all manifests.
    pub(super) fn next(&mut self) -> Option<Next> {
        for at in (0..self.streams.len()).rev() {
            let stream = &mut self.streams[at];
            if stream.ahead.is_none() {
                match stream.items.next() {
                    Some(Ok(item)) => stream.ahead = Some(item),
                    Some(Err(error)) => return Some(Next::Lost(stream.snapshot, error)),
                    None => drop(self.streams.remove(at)),
                }
            }
        }
        let mut first: Vec<usize> = Vec::new();
        for (at, stream) in self.streams.iter().enumerate().rev() {
            match first.last().map_or(Ordering::Less, |&first| stream.compare(&self.streams[first])) {
                Ordering::Less => first = vec![at],
                Ordering::Equal => first.push(at),
                Ordering::Greater => {}
            }
        }
        let path = self.streams[*first.first()?].items.directory().to_vec();
        let (mut directories, mut entries) = (Vec::new(), Vec::new());
        for at in first {
            let stream = &mut self.streams[at];
            match stream.ahead.take() {
                Some(Item::Directory(directory)) => directories.push((stream.snapshot, directory)),
                Some(Item::Entry(entry)) => entries.push((stream.snapshot, entry)),
                None => {}
            }
        }
        Some(if entries.is_empty() { Next::Directories(directories) } else { Next::Entries(path, entries) })
    }
}

impl Stream<'_> {
    /// The order of the next records: a directory comes before its entries.
    fn compare(&self, other: &Stream<'_>) -> Ordering {
        compare_paths(self.items.directory(), other.items.directory()).then_with(|| match (&self.ahead, &other.ahead) {
            (Some(Item::Entry(one)), Some(Item::Entry(two))) => one.name.cmp(&two.name),
            (one, two) => matches!(one, Some(Item::Entry(_))).cmp(&matches!(two, Some(Item::Entry(_)))),
        })
    }
}
