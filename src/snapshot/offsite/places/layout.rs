//! The files of a store: their names, and how many and how long they may be. A host sends what it likes, so these
//! limits, and not its answers, decide how much memory a store can take.

use super::super::keys;
use rustic_core::{FileType, Id};
use std::io;

/// The most files of a type: packs for more than 150 TiB.
const MOST_FILES: usize = 10_000_000;

/// The path of a file below the store.
pub(super) fn path(tpe: FileType, id: &Id) -> String {
    let name = id.to_hex();
    match tpe {
        FileType::Config => "config".to_string(),
        FileType::Pack => format!("{}/{}/{}", tpe.dirname(), &name[..2], &name[..]),
        _ => format!("{}/{}", tpe.dirname(), &name[..]),
    }
}

/// The most bytes of a file. restic and rustic make all but packs much shorter, and packs of a few hundred MiB at most.
pub(super) fn longest(tpe: FileType) -> u64 {
    match tpe {
        FileType::Config => 1 << 20,
        FileType::Key => keys::LONGEST.into(),
        FileType::Snapshot => 64 << 20,
        FileType::Index => 256 << 20,
        FileType::Pack => 1 << 30,
    }
}

/// The length of a file as the library wants it.
///
/// # Errors
/// If the file has more than 4 GiB.
pub(super) fn length(length: u64) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| io::Error::other("it has a file of more than 4 GiB"))
}

/// Files with their lengths, as they are found.
#[derive(Debug, Default)]
pub(super) struct Found {
    files: Vec<(Id, u32)>,
    /// How many names there were, of these and others.
    names: usize,
}

impl Found {
    /// One more name, with a size if it is that of a file. Names that are not IDs are from others, or unfinished.
    ///
    /// # Errors
    /// If there are too many, or the file is too long.
    pub(super) fn add(&mut self, name: &str, size: Option<u64>) -> io::Result<()> {
        self.names += 1;
        if self.names > MOST_FILES {
            return Err(io::Error::other(format!("there are more than {MOST_FILES} files")));
        }
        if let (Ok(id), Some(size)) = (name.parse::<Id>(), size) {
            self.files.push((id, length(size)?));
        }
        Ok(())
    }

    /// All of them.
    pub(super) fn all(self) -> Vec<(Id, u32)> {
        self.files
    }

    /// Whether there was no name.
    pub(super) fn is_empty(&self) -> bool {
        self.names == 0
    }
}
