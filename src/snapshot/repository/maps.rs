//! The maps of snapshots, in `.pleach/usage/NAME`: which ranges of the disk a snapshot holds (`usage::kept`). They only
//! save time. A snapshot without a map is complete.
//!
//! They need no lock: a map appears by a rename, and it describes the tree that it was made of, or is ignored.

use super::dir::Dir;
use super::handle::Repository;
use rustix::fs::{self, Mode, OFlags};
use std::fs::File;
use std::io;

/// The directory of the maps, in the control directory.
pub(super) const USAGE: &str = "usage";
/// The beginning of the name of an unfinished map. No snapshot has such a name.
const DRAFT: &str = ".new-";

/// The file of the map of a snapshot, if there is one.
pub(crate) fn map(repository: &Repository, name: &str) -> Option<File> {
    repository.control.dir_if_any(USAGE)?.file(name, OFlags::RDONLY, Mode::empty()).ok()
}

/// A map that is being written.
#[derive(Debug)]
pub(crate) struct MapDraft {
    dir: Dir,
    draft: String,
    /// Its file.
    pub(crate) file: File,
}

impl MapDraft {
    /// Begins a map of a snapshot. `None` if the repository cannot be written to.
    pub(crate) fn begin(repository: &Repository, name: &str) -> Option<MapDraft> {
        let dir = repository.control.make_dir(USAGE).ok()?;
        let mut draft = format!("{DRAFT}{}-{name}", std::process::id());
        // Names have at most 255 bytes.
        while draft.len() > 255 {
            draft.pop();
        }
        // A killed run may have left it.
        dir.unlink(&draft).ok()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = dir.file(&draft, flags, Mode::RUSR | Mode::WUSR).ok()?;
        Some(MapDraft { dir, draft, file })
    }

    /// Keeps the finished map as that of the snapshot `name`.
    ///
    /// # Errors
    /// If it cannot be written to the disk or renamed.
    pub(crate) fn keep(self, name: &str) -> io::Result<()> {
        let kept = self
            .file
            .sync_all()
            .and_then(|()| fs::renameat(&self.dir, self.draft.as_str(), &self.dir, name).map_err(io::Error::from));
        if kept.is_err() {
            self.discard();
        }
        kept
    }

    /// Gives it up.
    pub(crate) fn discard(self) {
        let _ = self.dir.unlink(&self.draft);
    }
}
