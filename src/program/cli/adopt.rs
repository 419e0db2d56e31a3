//! The arguments of `pleach adopt`.

use super::snapshot::with_repo_last;
use super::values::{moment, tag};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach adopt --dry-run /mnt/rsnapshot /mnt/backup
      lists the backups that it finds, with the time and the path of each snapshot
  pleach adopt /mnt/rsnapshot --subdir localhost/home --source /home /mnt/backup
      the history of /home; the next 'pleach snapshot /home /mnt/backup' continues it
  pleach adopt /mnt/old/2026-11-* --source /home/ann /mnt/backup
      each directory is one backup, as rsync --link-dest makes them
  pleach adopt /run/timeshift/backup/timeshift /run/timeshift/backup/pleach

On the repository's own XFS or Btrfs no data is copied: files are cloned, and a file that backups share
by a hard link is read once. The backups themselves stay. When 'pleach verify' finds the snapshots sound,
delete the backups yourself. A killed run loses nothing; the same command continues.";

#[derive(Args, Debug)]
pub(crate) struct Adopt {
    /// The backups, or their directory; then the repository
    ///
    /// Without a repository, $PLEACH_REPO.
    #[arg(value_name = "DIR... REPO", required = true, num_args = 1.., value_hint = clap::ValueHint::DirPath)]
    paths: Vec<PathBuf>,
    /// auto, rsync, rsnapshot, timeshift, backintime
    ///
    /// The program that made the backups. The default is auto.
    ///
    /// auto: recognised by the names in DIR. rsync: DIR is one backup. rsnapshot: DIR is the snapshot_root. timeshift:
    /// DIR has the directory 'snapshots'. backintime: DIR has directories such as 20261120-020000-123.
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) layout: Layout,
    /// Adopt this part of each backup
    #[arg(long, value_name = "PATH")]
    pub(crate) subdir: Option<PathBuf>,
    /// Record this path as the source
    ///
    /// An absolute path: that of the files that were backed up. By default / and PATH for Timeshift and Back In Time,
    /// otherwise DIR and PATH.
    #[arg(long, value_name = "PATH")]
    pub(crate) source: Option<PathBuf>,
    /// The time of a single backup
    ///
    /// For example 2026-11-20, '2026-11-20 02:00' or 2026-11-20T02:00:00Z. By default the time in the name, or the
    /// directory's mtime.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) time: Option<i64>,
    /// Add a tag; repeatable
    ///
    /// One tag each time: a comma is not allowed in it.
    #[arg(long = "tag", value_name = "TAG", value_parser = tag)]
    pub(crate) tags: Vec<String>,
    /// Turn hard links between backups into clones
    ///
    /// Each snapshot then has files of its own that share the data. By default the snapshots share them by hard links.
    #[arg(long)]
    pub(crate) clone_links: bool,
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The programs that made the backups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// By the names in the directory
    Auto,
    /// A directory is a backup
    Rsync,
    /// The `snapshot_root` of rsnapshot
    Rsnapshot,
    /// The directory of Timeshift
    Timeshift,
    /// The directory of Back In Time
    #[value(name = "backintime")]
    BackInTime,
}

impl Adopt {
    /// Settles which path is the repository.
    ///
    /// # Errors
    /// The mistake in the paths, in a sentence.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        self.paths = with_repo_last(std::mem::take(&mut self.paths), environment)?;
        Ok(())
    }

    /// The directories and the repository.
    pub(crate) fn dirs_and_repo(&self) -> (&[PathBuf], &Path) {
        match self.paths.split_last() {
            Some((repo, dirs)) => (dirs, repo),
            // `settle` leaves at least two.
            None => (&[], Path::new("")),
        }
    }
}
