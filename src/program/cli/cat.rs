//! The arguments of `pleach cat`.

use super::repo_first::with_repo;
use clap::Args;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach cat /backup latest /home/ann/notes.txt
  pleach cat /backup 2026-11-20 /srv/db.sql | psql db

The content is checked against the hash in the manifest while it is printed. If it differs, the exit
status is 4 after all of it was printed: in a pipe, use 'set -o pipefail', and do not trust the result
before the status is known. 'pleach restore' puts nothing in place that does not match.";

#[derive(Args, Debug)]
pub(crate) struct Cat {
    /// The repository, the snapshot, and the absolute path of a file
    ///
    /// Without a repository, $PLEACH_REPO. ID as for restore.
    #[arg(value_name = "REPO ID PATH", required = true, num_args = 1..=3, value_hint = clap::ValueHint::AnyPath)]
    words: Vec<PathBuf>,
}

impl Cat {
    /// Settles which word is the repository.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        let words = std::mem::take(&mut self.words);
        self.words = with_repo(words, environment, 2..=2, "a snapshot and a path")?;
        Ok(())
    }

    /// The repository, the snapshot and the path.
    pub(crate) fn repo_id_and_path(&self) -> (&Path, &Path, &Path) {
        match &self.words[..] {
            [repo, id, path] => (repo, id, path),
            // `settle` leaves three.
            _ => (Path::new(""), Path::new(""), Path::new("")),
        }
    }
}
