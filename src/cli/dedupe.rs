//! The words of `pleach dedupe`.

use super::values::{duration, size};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach dedupe /srv                         share what is equal below /srv, and say what that freed
  pleach dedupe --dry-run /srv               only find out: reads what the run would read
  pleach dedupe --max-time 2h /home /srv     every night, from a timer: the largest savings first
  pleach dedupe --ranges always --min-run 16K /srv/images     equal ranges of small files too
  pleach dedupe --exclude '*.iso' --exclude /srv/cache/ /srv

Contents, times, owners and modes stay as they are: the kernel compares each byte, and only it
touches a file. Works on XFS and Btrfs; each filesystem is done by itself. \"freed\" is counted from
the extents before and after; \"pinned\" is what was found equal and is not freed, since a snapshot
or file outside PATH still holds it, or (Btrfs) since it would take more to rewrite.
A pattern without a slash is of a name anywhere, one with a slash of an absolute path.";

#[derive(Args, Debug)]
pub(crate) struct Dedupe {
    /// Directories or files; symbolic links are followed only if named here
    #[arg(value_name = "PATH", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Share equal ranges of files that are not equal: auto (in files of 1 MiB and more), always (in all), never
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Ranges::Auto, hide_possible_values = true)]
    pub(crate) ranges: Ranges,
    /// The shortest such range
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64K")]
    pub(crate) min_run: u64,
    /// Memory for the index of blocks
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256M")]
    pub(crate) index_memory: u64,
    /// Keep what was found in this file, for the next run; by default $XDG_CACHE_HOME/pleach/dedupe
    #[arg(long, value_name = "FILE", conflicts_with = "no_cache", value_hint = clap::ValueHint::FilePath)]
    pub(crate) cache: Option<PathBuf>,
    /// Look at everything anew, and keep nothing for the next run
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Leave out what matches, as in a .gitignore; may be given several times
    #[arg(long = "exclude", value_name = "GLOB")]
    pub(crate) excludes: Vec<String>,
    /// Do not enter other filesystems (the subvolumes of one Btrfs are one)
    #[arg(long)]
    pub(crate) one_file_system: bool,
    /// Begin nothing after this time: 90s, 30m, 6h, 14d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) max_time: Option<Duration>,
    /// Only show what would be shared, and what that would free
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `--ranges`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ranges {
    Auto,
    Always,
    Never,
}
