//! The arguments of `pleach snapshot`, and which of its paths is the repository.

use super::repo_first::or_set_it;
use super::values::{duration, name, percent, size_or_none};
use clap::builder::TypedValueParser as _;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach snapshot /home /etc /backup
      creates /backup/2026-11-20T020000Z/home/… and …/etc/…, and moves /backup/latest to it
  pleach snapshot --name before-upgrade --tag manual --one-file-system / /mnt/backup
      a repository below its source is skipped
  pleach snapshot --freeze /home /backup
      on Btrfs: reads all of /home as of one moment
  pleach snapshot --dry-run /home /backup
      shows the differences from the last snapshot: + added, - removed, M content, U metadata, T type
  pleach snapshot --exclude-caches --exclude '*.iso' --exclude /home/*/.cache/ /home /backup
  pleach snapshot --one-file-system --exclude-from /etc/pleach.exclude / /backup

REPO is a directory of its own; an empty or missing directory becomes a repository at the first
snapshot. On the same XFS or Btrfs as the sources, a snapshot shares data with them; on another
filesystem with reflinks, with earlier snapshots. Otherwise data is copied, and the summary shows how
much and why. On Btrfs, as root, each snapshot is a read-only subvolume made from the last one; delete
it with 'btrfs subvolume delete'.

Patterns are those of a .gitignore at the top of each SOURCE: '*.iso' matches a name anywhere,
'ann/debian.iso' that path below each SOURCE, '/home/*/.cache/' an absolute path; with a slash at its
end a pattern matches directories only. '*' and '?' match within a name, '**' any number of names;
'!' keeps what an earlier pattern excludes; the last pattern that matches decides. Excluded entries
are not opened, and nothing below an excluded directory is looked at. A SOURCE itself is never
excluded.

A SOURCE that has no files now and had some in the last snapshot is probably not mounted: pleach
then makes no snapshot and exits with status 1, unless --allow-empty is given.";

#[derive(Args, Debug)]
pub(crate) struct Snapshot {
    /// What to back up, then the repository
    ///
    /// Without a repository, $PLEACH_REPO.
    #[arg(value_name = "SOURCE... REPO", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// The name [default: the time in UTC]
    ///
    /// For example 2026-11-20T020000Z.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Add a tag; repeatable
    ///
    /// One tag each time: a comma is not allowed in it.
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Hash new files, or none [default: new]
    ///
    /// new: new and changed files. none: no file; then cloned files are not read.
    #[arg(long, value_name = "WHICH", default_value = "new", hide_default_value = true, hide_possible_values = true)]
    pub(crate) hash: Hash,
    /// Clone or hardlink unchanged files
    ///
    /// clone (the default): separate files that share the data. hardlink: hard links to the files of the last
    /// snapshot, which works without reflinks as well.
    #[arg(long, value_name = "HOW", default_value = "clone", hide_default_value = true, hide_possible_values = true)]
    pub(crate) unchanged: Unchanged,
    /// Compare with this snapshot
    ///
    /// The default is the last snapshot of the same sources.
    #[arg(long, value_name = "ID")]
    pub(crate) parent: Option<String>,
    /// Exit with status 3 if less is shared
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "dry_run")]
    pub(crate) require_sharing: Option<f64>,
    /// Accept sources that have become empty
    ///
    /// A source that has no files now and had some in the last snapshot is refused otherwise.
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Read Btrfs sources at one point in time
    ///
    /// They are read from a temporary read-only snapshot of their subvolume. Only root can do that.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) freeze: bool,
    /// Look at everything, not only at what changed
    ///
    /// As root, a snapshot of sources on Btrfs or XFS into a repository on Btrfs looks only at what changed since the
    /// last one, as the filesystem shows it. Every 30th snapshot looks at everything by itself.
    #[arg(long)]
    pub(crate) full_walk: bool,
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    // Last: its heading goes for all options after it.
    #[command(flatten)]
    pub(crate) excludes: Excludes,
}

/// Which entries of the sources are skipped.
#[derive(Args, Debug)]
#[command(next_help_heading = "Exclusions")]
pub(crate) struct Excludes {
    /// Exclude matching entries; repeatable
    ///
    /// Patterns work as in a .gitignore.
    #[arg(long = "exclude", value_name = "GLOB")]
    pub(crate) patterns: Vec<String>,
    /// Exclude what matches a line of FILE
    ///
    /// '-' is stdin. These lines are applied before --exclude.
    #[arg(long = "exclude-from", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Exclude the content of caches
    ///
    /// That is: of directories with a valid CACHEDIR.TAG. The tag itself is kept.
    #[arg(long = "exclude-caches")]
    pub(crate) caches: bool,
    /// Exclude content of directories with NAME
    ///
    /// The directory itself and NAME are kept.
    #[arg(
        long = "exclude-if-present",
        value_name = "NAME",
        value_parser = clap::builder::OsStringValueParser::new().try_map(name)
    )]
    pub(crate) if_present: Vec<Vec<u8>>,
    /// Exclude files larger than SIZE
    #[arg(long = "exclude-larger-than", value_name = "SIZE", value_parser = size_or_none)]
    pub(crate) larger_than: Option<u64>,
    /// Exclude files modified longer ago
    ///
    /// DURATION is 10y, 14d, 1h30m or 90s, for example.
    #[arg(long = "exclude-older-than", value_name = "DURATION", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,
    /// Do not enter other filesystems
    ///
    /// Their mount points are kept as empty directories. The subvolumes of a Btrfs are one filesystem.
    #[arg(long)]
    pub(crate) one_file_system: bool,
}

/// Which files a snapshot hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hash {
    /// New and changed files
    New,
    /// No file: then cloned files are not read
    None,
}

/// How a snapshot stores unchanged files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unchanged {
    /// As clones: separate files that share the data
    Clone,
    /// As hard links to the files of the last snapshot; works without reflinks as well
    Hardlink,
}

impl Snapshot {
    /// Settles which of the paths is the repository; `environment` is the repository if none is given.
    ///
    /// # Errors
    /// The mistake in the paths, in a sentence.
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
/// `SOURCE...` and an optional `REPO` cannot be distinguished by position. So with `PLEACH_REPO` set the last path is
/// the repository only if it is one already; a directory with other things in it can only be a source, since it would
/// be refused as a repository; pleach does not guess about an empty directory.
pub(super) fn with_repo_last(mut paths: Vec<PathBuf>, environment: Option<PathBuf>) -> Result<Vec<PathBuf>, String> {
    match (environment, &paths[..]) {
        (None, [only]) => {
            let only = crate::util::text::path(only);
            Err(format!("only one path was given, {only}: name the sources, then the repository ({})", or_set_it()))
        }
        (None, [sources @ .., last]) if sources.contains(last) => {
            let last = crate::util::text::path(last);
            let why = "a source and also the last path, which is the repository";
            Err(format!("{last} is {why}: name the repository after the sources ({})", or_set_it()))
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
            let is_empty = std::fs::read_dir(last).is_ok_and(|mut entries| entries.next().is_none());
            let is_missing = std::fs::symlink_metadata(last).is_err();
            let (last, shown) = (crate::util::text::path(last), crate::util::text::path(&repo));
            if is_missing {
                return Err(format!("{last} does not exist; to make a repository there, unset PLEACH_REPO ({shown})"));
            }
            if is_empty {
                return Err(format!(
                    "{last} is empty and could be a source or a new repository: if it is a source, name the repository \
                     {shown} (PLEACH_REPO) after it; if it is a new repository, unset PLEACH_REPO"
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
        // Probably the repository was forgotten.
        assert!(with_repo_last(paths(&["/a", "/b", "/b/"]), None).is_err());
    }

    #[test]
    fn the_environment_names_the_repository_that_is_not_given() {
        let repo = || Some(PathBuf::from("/r"));
        assert_eq!(with_repo_last(paths(&["/a"]), repo()), Ok(paths(&["/a", "/r"])));
        assert_eq!(with_repo_last(paths(&["/a", "/proc"]), repo()), Ok(paths(&["/a", "/proc", "/r"])));
        assert_eq!(with_repo_last(paths(&["/a", "/r"]), repo()), Ok(paths(&["/a", "/r"])));
    }

    #[test]
    fn a_path_that_could_be_source_or_repository_is_not_guessed() {
        let repo = Some(PathBuf::from("/r"));
        assert!(
            with_repo_last(paths(&["/a", "/no/such/path"]), repo)
                .is_err_and(|message| message.contains("does not exist"))
        );
    }
}
