//! The arguments of `pleach prune` and `pleach remove`.

use super::repo_first::with_repo_before_ids;
use super::values;
use crate::snapshot::prune::{Free, Keep};
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach prune --keep-daily 7 --keep-weekly 4 --keep-monthly 12 /backup
  pleach prune --dry-run --keep-within 30d /backup       what would stay, and what would be freed
  pleach prune --keep-last 3 --keep-free 10% /backup     remove the oldest only if space is short

A snapshot stays if any rule keeps it. Each rule counts on its own, and for each set of sources on
its own. --keep-daily 7 keeps the newest snapshot of each of the last 7 days that have snapshots.
Days and weeks are those of the local time zone (TZ); weeks begin on Monday. 0 disables a rule.
Always kept: the newest of each set of sources, pinned snapshots, those dated in the future, those
with a damaged manifest, and those that another pleach reads.";

pub(super) const REMOVE_EXAMPLES: &str = "\
Examples:
  pleach remove /backup 2026-11-20T020000Z
  pleach remove --dry-run /backup monday tuesday         what removing both would free

ID is a snapshot's name, an unambiguous beginning of one, 'latest', or 'latest:/home'. Pinned
snapshots and those that another pleach reads are kept.";

#[derive(Args, Debug)]
pub(crate) struct Prune {
    /// The repository
    #[arg(value_name = "REPO", env = "PLEACH_REPO", hide_env_values = true, value_hint = clap::ValueHint::DirPath)]
    #[arg(value_parser = values::repository())]
    pub(crate) repo: PathBuf,
    #[command(flatten)]
    pub(crate) keep: SpaceRules,
    /// Only show what would be removed and freed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not wait until the space is free
    ///
    /// XFS and Btrfs free it in the background. By default a run waits, and reports how much it freed.
    #[arg(long, conflicts_with_all = ["dry_run", "keep_free"])]
    pub(crate) no_wait: bool,
}

/// The rules by which snapshots are kept, of a repository or a store.
#[derive(Args, Clone, Debug)]
pub(crate) struct KeepRules {
    /// Keep the last N snapshots
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = values::count::<u64>, allow_negative_numbers = true)]
    pub(crate) keep_last: u64,
    /// Keep one for each of the last N hours
    ///
    /// The newest of each of the last N hours that have snapshots.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = values::count::<u64>, allow_negative_numbers = true)]
    pub(crate) keep_hourly: u64,
    /// Keep one for each of the last N days
    ///
    /// The newest of each of the last N days that have snapshots.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = values::count::<u64>, allow_negative_numbers = true)]
    pub(crate) keep_daily: u64,
    /// Keep one for each of the last N weeks
    ///
    /// The newest of each of the last N weeks that have snapshots.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = values::count::<u64>, allow_negative_numbers = true)]
    pub(crate) keep_weekly: u64,
    /// Keep one for each of the last N months
    ///
    /// The newest of each of the last N months that have snapshots.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = values::count::<u64>, allow_negative_numbers = true)]
    pub(crate) keep_monthly: u64,
    /// Keep one for each of the last N years
    ///
    /// The newest of each of the last N years that have snapshots.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = values::count::<u64>, allow_negative_numbers = true)]
    pub(crate) keep_yearly: u64,
    /// Keep those with this tag; repeatable
    #[arg(long = "keep-tag", value_name = "TAG", value_parser = values::tag)]
    pub(crate) keep_tags: Vec<String>,
    /// Keep all within this time before the newest
    ///
    /// The newest snapshot of the same sources.
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(crate) keep_within: Option<Duration>,
}

/// The rules by which the snapshots of a repository are kept.
#[derive(Args, Clone, Debug)]
pub(crate) struct SpaceRules {
    #[command(flatten)]
    rules: KeepRules,
    /// Remove only until this much is free
    ///
    /// The oldest first. A size, or a percentage of the filesystem.
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = free)]
    keep_free: Option<Free>,
}

impl KeepRules {
    /// The rules of the engine.
    pub(crate) fn keep(&self) -> Keep {
        Keep {
            last: self.keep_last,
            hourly: self.keep_hourly,
            daily: self.keep_daily,
            weekly: self.keep_weekly,
            monthly: self.keep_monthly,
            yearly: self.keep_yearly,
            tags: self.keep_tags.clone(),
            within: self.keep_within,
            free: None,
        }
    }
}

impl SpaceRules {
    /// The rules of the engine.
    pub(crate) fn keep(&self) -> Keep {
        Keep { free: self.keep_free, ..self.rules.keep() }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Remove {
    /// The repository, then the snapshots
    ///
    /// Without a repository, $PLEACH_REPO: then the first word is a repository only if it contains a slash.
    #[arg(value_name = "REPO ID", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    words: Vec<OsString>,
    /// Only show what would be removed, and what that would free
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not wait until the space is free
    ///
    /// XFS and Btrfs free it in the background. By default a run waits, and reports how much it freed.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) no_wait: bool,
}

impl Remove {
    /// Settles which word is the repository.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        let words = std::mem::take(&mut self.words);
        self.words = with_repo_before_ids(words, environment, 1)?;
        Ok(())
    }

    /// The repository and the snapshots.
    pub(crate) fn repo_and_ids(&self) -> (&Path, &[OsString]) {
        match &self.words[..] {
            [repo, ids @ ..] => (Path::new(repo), ids),
            // `settle` leaves at least two.
            [] => (Path::new(""), &[]),
        }
    }
}

/// A size, or a percentage.
fn free(text: &str) -> Result<Free, String> {
    if text.ends_with('%') {
        values::less_than_all(text).map(Free::Percent)
    } else {
        values::size_or_none(text).map(Free::Bytes)
    }
}
