//! The arguments of `pleach du`.

use super::repo_first::with_repo_before_ids;
use clap::Args;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach du /backup/2026-11-*            each snapshot, and how much deleting all of them would free
  pleach du /backup --snapshots monday tuesday      what removing each, and both, would free
  pleach du --json /srv | jq 'select(.type == \"summary\").set_freed_bytes'

  apparent   the sizes of the files
  on disk    their blocks; a block counts as often as files refer to it
  exclusive  blocks that nothing else refers to
  shared     blocks with several references, each block once
Files with several names count once. As root on Btrfs the figures come from its trees: compressed
files count with their compressed size, and 'on disk', 'exclusive' and 'shared' are Total, Exclusive
and Set shared of 'btrfs filesystem du -s'. The freed space is data there; the trees shrink as well.
On XFS it is the space that df shows afterwards. Figures that are only bounds are marked: without
root, for instance, neither filesystem reports who else holds a block.";

#[derive(Args, Debug)]
pub(crate) struct Du {
    /// Files or directories
    ///
    /// Symbolic links are followed only if named here. Mount points are crossed.
    #[arg(value_name = "PATH", required_unless_present = "snapshots", num_args = 1..)]
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Do not sync the filesystems first
    ///
    /// Data that is not on the disk yet then does not count.
    #[arg(long)]
    pub(crate) no_sync: bool,
    /// PATH is a repository, followed by IDs of snapshots
    ///
    /// Show what removing each snapshot alone would free, and what removing all of them together would free. Without
    /// IDs, all snapshots are measured.
    #[arg(long)]
    pub(crate) snapshots: bool,
    /// Do not use what an earlier run kept
    ///
    /// Without IDs, --snapshots keeps a map of each snapshot in the repository and uses it the next time. This option
    /// reads all snapshots again.
    #[arg(long, requires = "snapshots")]
    pub(crate) measure_again: bool,
}

impl Du {
    /// Settles which word is the repository.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        if self.snapshots {
            let words = std::mem::take(&mut self.paths);
            self.paths = with_repo_before_ids(words, environment, 0)?;
        }
        Ok(())
    }

    /// With `--snapshots`: the repository and the IDs.
    pub(crate) fn repo_and_ids(&self) -> Option<(&Path, &[PathBuf])> {
        match &self.paths[..] {
            [repo, ids @ ..] if self.snapshots => Some((repo, ids)),
            _ => None,
        }
    }
}
