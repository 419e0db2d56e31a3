//! The words of `pleach snapshot`, and which of its paths is the repository.

use super::values::{duration, name, percent, size_or_none};
use clap::builder::TypedValueParser as _;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach snapshot /home /etc /backup
      creates /backup/2026-11-20T020000Z/home/… and …/etc/…, and moves /backup/latest to it
  pleach snapshot --name before-upgrade --tag manual / /mnt/backup
  pleach snapshot --freeze /home /backup
      on Btrfs: reads all of /home as it was at one moment
  pleach snapshot --dry-run /home /backup
      shows what differs from the last snapshot: + added, - removed, M content, U metadata, T type
  pleach snapshot --exclude-caches --exclude '*.iso' --exclude /home/*/.cache/ /home /backup
  pleach snapshot --one-file-system --exclude-from /etc/pleach.exclude / /backup

REPO is a directory of its own; an empty or missing one becomes a repository at the first
snapshot. Where it lies on the same XFS or Btrfs as the sources it shares data with them; where
its filesystem has reflinks it shares data with its own earlier snapshots. Else data is copied,
and the summary says how much and why. On Btrfs, as root, each snapshot is a read-only subvolume that
began as a snapshot of the last one: 'btrfs subvolume delete' deletes it.

A pattern without a slash is of a name anywhere, one with a slash of a path from the root; with a
slash at its end, of directories only. '*' and '?' match within a name, '**' any number of names;
'!' takes back; the last pattern that matches decides. What is excluded is not opened, and nothing
below an excluded directory is looked at. A SOURCE itself is never excluded.";

#[derive(Args, Debug)]
pub(crate) struct Snapshot {
    /// Directories or files to keep; the last one is the repository (left out: $PLEACH_REPO)
    #[arg(value_name = "SOURCE... REPO", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Name it; by default the moment in UTC, as 2026-11-20T020000Z
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Tag it; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    #[command(flatten)]
    pub(crate) excludes: Excludes,
    /// Whose content is hashed
    #[arg(long, value_name = "WHICH", default_value = "new")]
    pub(crate) hash: Hash,
    /// How unchanged files come in
    #[arg(long, value_name = "HOW", default_value = "clone")]
    pub(crate) unchanged: Unchanged,
    /// Compare with this snapshot; by default with the last one of these sources
    #[arg(long, value_name = "ID")]
    pub(crate) parent: Option<String>,
    /// Exit with status 3 if less of the data is shared
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "dry_run")]
    pub(crate) require_sharing: Option<f64>,
    /// Read sources on Btrfs from a temporary read-only snapshot of their subvolume: all of one moment (root)
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) freeze: bool,
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What of the sources is left out.
#[derive(Args, Debug)]
#[command(next_help_heading = "What is left out")]
pub(crate) struct Excludes {
    /// Leave out what matches, as in a .gitignore; may be given several times
    #[arg(long = "exclude", value_name = "GLOB")]
    pub(crate) patterns: Vec<String>,
    /// Leave out what matches a line of FILE ('-': stdin); these lines come before --exclude
    #[arg(long = "exclude-from", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Leave out what is in directories with a valid CACHEDIR.TAG, but keep that file
    #[arg(long = "exclude-caches")]
    pub(crate) caches: bool,
    /// Leave out what is in directories that have NAME in them, but keep that file
    #[arg(long = "exclude-if-present", value_name = "NAME", value_parser = clap::builder::OsStringValueParser::new().try_map(name))]
    pub(crate) if_present: Vec<Vec<u8>>,
    /// Leave out files of more than SIZE
    #[arg(long = "exclude-larger-than", value_name = "SIZE", value_parser = size_or_none)]
    pub(crate) larger_than: Option<u64>,
    /// Leave out files that were last changed longer ago than this: 90s, 30m, 6h, 14d
    #[arg(long = "exclude-older-than", value_name = "DURATION", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,
    /// Do not enter other filesystems (the subvolumes of one Btrfs are one); keep their mount points, empty
    #[arg(long)]
    pub(crate) one_file_system: bool,
}

/// Whose content a snapshot hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hash {
    /// New and changed files
    New,
    /// No file: then nothing is read where clones work
    None,
}

/// How unchanged files come into a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unchanged {
    /// As clones: files of their own that share the data
    Clone,
    /// As further names of the last snapshot's files, also where there are no reflinks
    Hardlink,
}

impl Snapshot {
    /// Settles which of the paths is the repository; `environment` stands for one that is left out.
    ///
    /// # Errors
    /// What is wrong with the paths, in a sentence.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        self.paths = with_repo_last(std::mem::take(&mut self.paths), environment)?;
        Ok(())
    }

    /// The sources and the repository.
    pub(crate) fn sources_and_repo(&self) -> (&[PathBuf], &Path) {
        match self.paths.split_last() {
            Some((repo, sources)) => (sources, repo),
            // `settle` leaves at least two.
            None => (&[], Path::new("")),
        }
    }
}

/// The paths of `snapshot` with the repository at their end.
///
/// `SOURCE...` before an optional `REPO` cannot be told apart by place. So with `PLEACH_REPO` set the last path is the
/// repository only if it is one already; an existing directory with other things in it can only be a source, since it
/// would be refused as a repository; what could be either is not guessed.
fn with_repo_last(mut paths: Vec<PathBuf>, environment: Option<PathBuf>) -> Result<Vec<PathBuf>, String> {
    match (environment, &paths[..]) {
        (None, [only]) => {
            let only = pleach::text::path(only);
            Err(format!("only one path was given, {only}: name the sources, then the repository (or set PLEACH_REPO)"))
        }
        (None, _) => Ok(paths),
        (Some(repo), [_]) => {
            paths.push(repo);
            Ok(paths)
        }
        (Some(repo), [.., last]) => {
            if *last == repo || last.join(".pleach").is_dir() {
                return Ok(paths);
            }
            let empty = std::fs::read_dir(last).is_ok_and(|mut entries| entries.next().is_none());
            if empty || std::fs::symlink_metadata(last).is_err() {
                let (last, repo) = (pleach::text::path(last), pleach::text::path(&repo));
                return Err(format!(
                    "{last} could be a source or a new repository, since PLEACH_REPO is set to {repo}: \
                     unset it, or name the repository last"
                ));
            }
            paths.push(repo);
            Ok(paths)
        }
        (Some(_), []) => Ok(paths),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn without_the_environment_the_last_path_is_the_repository() {
        assert_eq!(with_repo_last(paths(&["/a", "/r"]), None), Ok(paths(&["/a", "/r"])));
        assert!(with_repo_last(paths(&["/a"]), None).is_err());
    }

    #[test]
    fn the_environment_stands_for_the_repository_that_is_left_out() {
        let repo = || Some(PathBuf::from("/r"));
        assert_eq!(with_repo_last(paths(&["/a"]), repo()), Ok(paths(&["/a", "/r"])));
        assert_eq!(with_repo_last(paths(&["/a", "/proc"]), repo()), Ok(paths(&["/a", "/proc", "/r"])));
        assert_eq!(with_repo_last(paths(&["/a", "/r"]), repo()), Ok(paths(&["/a", "/r"])));
    }

    #[test]
    fn what_could_be_source_or_repository_is_not_guessed() {
        let repo = Some(PathBuf::from("/r"));
        assert!(with_repo_last(paths(&["/a", "/no/such/path"]), repo).is_err());
    }
}
