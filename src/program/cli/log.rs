//! The arguments of `pleach log`.

use super::repo_first::with_repo;
use clap::Args;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach log /backup /home/ann/notes.txt
  pleach cat /backup 2026-11-20 /home/ann/notes.txt      print one of the versions
  pleach diff /backup 2026-11-20 2026-11-21 /home/ann/notes.txt --patch

The newest version comes first. Snapshots with the same content have the same version, also if its
owner, mode or time differs. If an older content came back, it is one version, and other versions are
between its first and its last snapshot. Each new or removed entry makes a new version of a directory.
Without hashes (snapshot --hash none), size, time and inode identify a version.";

#[derive(Args, Debug)]
pub(crate) struct Log {
    /// The repository, and an absolute path as in the sources
    ///
    /// Without a repository, $PLEACH_REPO.
    #[arg(value_name = "REPO PATH", required = true, num_args = 1..=2, value_hint = clap::ValueHint::AnyPath)]
    words: Vec<PathBuf>,
}

impl Log {
    /// Settles which word is the repository.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        let words = std::mem::take(&mut self.words);
        self.words = with_repo(words, environment, 1..=1, "a path")?;
        Ok(())
    }

    /// The repository and the path.
    pub(crate) fn repo_and_path(&self) -> (&Path, &Path) {
        match &self.words[..] {
            [repo, path] => (repo, path),
            // `settle` leaves two.
            _ => (Path::new(""), Path::new("")),
        }
    }
}
