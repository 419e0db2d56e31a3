//! The arguments of `pleach diff`.

use super::repo_first::with_repo;
use clap::Args;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach diff /backup 2026-11-20 latest            what changed since that day
  pleach diff /backup latest live                  what changed since the last snapshot
  pleach diff /backup 2026-11-20 latest /etc --patch
  pleach diff --stat /backup 2026-11-20 latest     which directories changed most

  + added   - removed   M content   U metadata only   T type   R renamed
  ? content differs although size and times are equal: one of the two is damaged
  ! unreadable: B lacks it because of an error
Metadata is mode, owner, modification time, extended attributes (with ACLs) and flags. The time of a
directory is ignored, since it changes with each entry. A renamed directory is one line, with
everything in it. Renamed entries are found by inode, files also by content. PATH is an absolute path,
as in the sources.

'live' compares with the sources of A as they are now, and reads files only if their size is equal and
their times or inode differ. The manifest does not store which entries a snapshot excluded: entries
that are excluded show as added. Files renamed across filesystems show as removed and added.

The exit status is 0 whether or not there are differences.";

#[derive(Args, Debug)]
pub(crate) struct Diff {
    /// The repository, the older and the newer snapshot, a path
    ///
    /// B may be 'live': the sources as they are now. Without a repository, $PLEACH_REPO. Without a path, everything.
    #[arg(value_name = "REPO A B [PATH]", required = true, num_args = 1..=4, value_hint = clap::ValueHint::AnyPath)]
    words: Vec<PathBuf>,
    /// Show sums for each top directory, the largest first
    #[arg(long)]
    pub(crate) stat: bool,
    /// Show the differences of text files, as 'diff -u' does
    ///
    /// It runs the program diff for each file.
    #[arg(long, conflicts_with = "stat")]
    pub(crate) patch: bool,
}

impl Diff {
    /// Settles which word is the repository.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        let words = std::mem::take(&mut self.words);
        self.words = with_repo(words, environment, 2..=3, "two snapshots")?;
        Ok(())
    }

    /// The repository, the two snapshots, and the path.
    pub(crate) fn repo_ids_and_path(&self) -> (&Path, [&Path; 2], Option<&Path>) {
        match &self.words[..] {
            [repo, a, b, path @ ..] => (repo, [a, b], path.first().map(PathBuf::as_path)),
            // `settle` leaves at least three.
            _ => (Path::new(""), [Path::new(""); 2], None),
        }
    }
}
