//! The arguments of `pleach dedupe`.

use super::values::{duration, min_run, size};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach dedupe /srv                         share equal data below /srv, and report the space freed
  pleach dedupe --dry-run /srv               only report: reads the same data as a real run
  pleach dedupe --max-time 2h /home /srv     from a timer: the largest savings first
  pleach dedupe --ranges always --min-run 16K /srv/images     equal ranges of small files too
  pleach dedupe --exclude '*.iso' --exclude /srv/cache/ /srv

Contents, times, owners and modes do not change: the kernel compares each byte, and only the kernel
modifies a file. Works on XFS and Btrfs, within each filesystem. \"freed\" is counted from the
extents before and after; \"pinned\" is equal data that is not freed, because a snapshot or file
outside PATH still holds it, or (Btrfs) because rewriting would cost more than it frees.
A pattern without a slash matches a name anywhere, one with a slash at its beginning an absolute
path, one with a slash in its middle a path below each PATH.";

#[derive(Args, Debug)]
pub(crate) struct Dedupe {
    /// Directories or files
    ///
    /// Symbolic links are followed only if named here.
    #[arg(value_name = "PATH", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Share equal ranges: auto, always, never
    ///
    /// Equal ranges of files that are not equal as a whole. auto: in files of 1 MiB and more. always: in all files.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Ranges::Auto, hide_possible_values = true)]
    pub(crate) ranges: Ranges,
    /// The shortest range to share
    ///
    /// At least 512 bytes. It is rounded up to whole blocks of the filesystem, which are commonly 4K.
    #[arg(long, value_name = "SIZE", value_parser = min_run, default_value = "64K")]
    pub(crate) min_run: u64,
    /// Memory for the index of blocks
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256M")]
    pub(crate) index_memory: u64,
    /// Keep results for the next run in FILE
    ///
    /// The default is $XDG_CACHE_HOME/pleach/dedupe.
    #[arg(long, value_name = "FILE", conflicts_with = "no_cache", value_hint = clap::ValueHint::FilePath)]
    pub(crate) cache: Option<PathBuf>,
    /// Neither use nor keep results
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Skip matching entries; repeatable
    ///
    /// Patterns work as in a .gitignore.
    #[arg(long = "exclude", value_name = "GLOB")]
    pub(crate) excludes: Vec<String>,
    /// Do not enter other filesystems
    ///
    /// The subvolumes of a Btrfs are one filesystem.
    #[arg(long)]
    pub(crate) one_file_system: bool,
    /// Stop after this time: 90s, 30m, 1h30m
    ///
    /// Work that has begun is finished. The next run continues.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) max_time: Option<Duration>,
    /// Only show what would be shared and freed
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
