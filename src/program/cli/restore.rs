//! The arguments of `pleach restore`.

use super::repo_first::{is_path, or_set_it};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach restore /backup latest --target /                          put everything back in place
  pleach restore /backup latest /home/ann/notes.txt --target /tmp   as /tmp/home/ann/notes.txt
  pleach restore --dry-run --delete /backup 2026-11-20 /etc --target /
      shows what it would change: + added, - removed, M content, U metadata, T type
  pleach restore --verify /backup latest --target /                 read all files, replace damaged ones

ID is a snapshot's name, an unambiguous beginning of one, 'latest', or 'latest:/home': the newest that
has /home among its sources or in one of them. With PATHs, 'latest' is the newest snapshot that has
them all. PATHs are absolute paths, as in the sources. No symbolic link in DIR is followed.";

#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// The repository, the snapshot, the paths to restore
    ///
    /// Without a repository, $PLEACH_REPO. Without paths, everything.
    #[arg(value_name = "REPO ID [PATH]", num_args = 0.., value_hint = clap::ValueHint::AnyPath)]
    words: Vec<PathBuf>,
    /// Restore below DIR
    ///
    /// /home/ann/a is restored to DIR/home/ann/a.
    // `settle` requires it, so that its error names missing words too.
    #[arg(long = "target", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    given_target: Option<PathBuf>,
    #[arg(skip)]
    pub(crate) target: PathBuf,
    /// Delete entries that the snapshot does not have
    ///
    /// Only in restored directories, and never on other mounts.
    #[arg(long)]
    pub(crate) delete: bool,
    /// Which existing files to replace
    #[arg(long, value_name = "WHEN", default_value = "if-different")]
    pub(crate) overwrite: Overwrite,
    /// Check all content by its hash
    ///
    /// Existing files are read even if size and time match, and everything restored is read back. The hashes are those
    /// of the manifest.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// When a restore replaces existing files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Overwrite {
    /// Replace files with different content; if only the time differs, read the file and compare its hash
    IfDifferent,
    /// Replace every file, identical ones too
    Always,
    /// Replace files with a different type, size or modification time, without reading them
    IfChanged,
    /// Replace nothing, and read no existing file
    Never,
}

impl Restore {
    /// Settles which word is the repository. The error names everything that is missing.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        let words = with_repo_first(std::mem::take(&mut self.words), environment);
        match (words, self.given_target.take()) {
            (Ok(words), Some(target)) => (self.words, self.target) = (words, target),
            (Ok(_), None) => return Err("the following required arguments were not provided:\n  --target <DIR>".into()),
            (Err(missing), Some(_)) => return Err(missing),
            (Err(missing), None) => {
                return Err(format!("{missing}, and the directory to restore to: --target <DIR>"));
            }
        }
        Ok(())
    }

    /// The repository, the snapshot, and the paths to restore.
    pub(crate) fn repo_id_and_paths(&self) -> (&Path, &Path, &[PathBuf]) {
        match &self.words[..] {
            [repo, id, paths @ ..] => (repo, id, paths),
            // `settle` leaves at least two.
            _ => (Path::new(""), Path::new(""), &[]),
        }
    }
}

/// The words with the repository at their beginning.
///
/// No ID contains a slash but `latest:PATH`, and the paths are absolute. So with `PLEACH_REPO` set, a second word that
/// is a path, or none, means that the repository is not given.
fn with_repo_first(mut words: Vec<PathBuf>, environment: Option<PathBuf>) -> Result<Vec<PathBuf>, String> {
    match environment {
        Some(_) if words.is_empty() => return Err("name the snapshot".to_string()),
        Some(repo) if words.get(1).is_none_or(is_path) => words.insert(0, repo),
        None if words.len() < 2 => return Err(format!("name the repository, then the snapshot ({})", or_set_it())),
        _ => {}
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn a_restore_knows_whether_its_repository_is_given() {
        let repo = || Some(PathBuf::from("/r"));
        assert_eq!(with_repo_first(paths(&["/r", "latest"]), None), Ok(paths(&["/r", "latest"])));
        assert_eq!(with_repo_first(paths(&["latest"]), repo()), Ok(paths(&["/r", "latest"])));
        assert_eq!(with_repo_first(paths(&["latest", "/a"]), repo()), Ok(paths(&["/r", "latest", "/a"])));
        assert_eq!(with_repo_first(paths(&["/x", "latest", "/a"]), repo()), Ok(paths(&["/x", "latest", "/a"])));
        assert_eq!(with_repo_first(paths(&["/x", "latest:/a"]), repo()), Ok(paths(&["/x", "latest:/a"])));
        assert_eq!(with_repo_first(paths(&["latest:/a", "/a/b"]), repo()), Ok(paths(&["/r", "latest:/a", "/a/b"])));
        assert!(with_repo_first(paths(&["latest"]), None).is_err());
        assert!(with_repo_first(paths(&[]), repo()).is_err());
    }
}
