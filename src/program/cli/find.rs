//! The arguments of `pleach find`.

use super::repo_first::with_repo;
use clap::Args;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach find /backup notes.txt              this name, anywhere
  pleach find /backup '*.sql.gz'
  pleach find /backup '/home/*/.ssh/'        directories at a path
  pleach find /backup '/srv/**/main.rs'
  pleach find /backup ann/notes.txt          a path below a source

PATTERN is one of 'snapshot --exclude': a name, a path that begins with '/', or a path relative to each
source; '*', '?', '[a-z]', '{a,b}' match within a name, '**' any number of names; a '/' at the end
matches only directories. Entries below a matching directory are not listed.

Each line has the oldest and the newest snapshot with that path, and the number of snapshots that have
it. Directories end in '/'. 'pleach log' shows the versions of a path. The exit status is 0 also if
nothing was found.";

#[derive(Args, Debug)]
pub(crate) struct Find {
    /// The repository, and a pattern as for 'snapshot --exclude'
    ///
    /// Without a repository, $PLEACH_REPO.
    #[arg(value_name = "REPO PATTERN", required = true, num_args = 1..=2, value_hint = clap::ValueHint::AnyPath)]
    words: Vec<PathBuf>,
}

impl Find {
    /// Settles which word is the repository.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        let words = std::mem::take(&mut self.words);
        self.words = with_repo(words, environment, 1..=1, "a pattern")?;
        Ok(())
    }

    /// The repository and the pattern.
    pub(crate) fn repo_and_pattern(&self) -> (&Path, &Path) {
        match &self.words[..] {
            [repo, pattern] => (repo, pattern),
            // `settle` leaves two.
            _ => (Path::new(""), Path::new("")),
        }
    }
}
