//! The arguments of `pleach put`.

use super::values::{blake3, size, size_or_none};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach put /srv/db.sql -- pg_dump db      replaced only if pg_dump exits with 0
  sed 's/old/new/' conf | pleach put conf   edit in place: replaced when all input is read
  ssh host cat disk.img | pleach put --expect-size 64G disk.img
  pleach put --base /srv/monday.sql /srv/tuesday.sql -- pg_dump db

The input is read to its end, written beside DEST, synced, and renamed over
DEST: a reader sees the old file or the new one. Any failure or interruption
before the rename leaves DEST unchanged.

With '-- COMMAND', pleach runs COMMAND itself, without a shell. Its output is
the input; its stdin and stderr are pleach's. If COMMAND fails, pleach shows its
status, exits with 1, and leaves DEST unchanged. When pleach is interrupted, it
ends COMMAND and all processes that COMMAND has started. Prefer this to a pipe:
pleach cannot detect that the command before a '|' failed. An empty input never
replaces a file that is not empty, unless --allow-empty is given or the
expected size or hash is that of nothing.

DEST keeps its owner, mode, attributes, ACLs and flags. Its other hard links
keep the old content. If DEST is a symbolic link, the link stays and its target
is replaced.

Blocks that are equal at the same offset of the base, or in runs of 64 KiB and
more at another offset that is a multiple of the block size, are shared with it
(XFS, Btrfs). If a change shifts the content by anything but whole blocks,
everything after it is written again. stdin as a file ('< FILE') on the same
filesystem is cloned. Details: docs/copying.md.";

#[derive(Args, Debug)]
pub(crate) struct Put {
    /// The file to replace or create
    #[arg(value_name = "DEST", value_hint = clap::ValueHint::FilePath)]
    pub(crate) destination: PathBuf,
    /// Share data with FILE instead of DEST
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) base: Option<PathBuf>,
    /// Replace DEST only if the input has this size
    #[arg(long, value_name = "SIZE", value_parser = size_or_none)]
    pub(crate) expect_size: Option<u64>,
    /// Replace DEST only if the input has this hash
    #[arg(long, value_name = "HEX", value_parser = blake3)]
    pub(crate) expect_blake3: Option<[u8; 32]>,
    /// Allow an empty input to replace a file
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Memory for the index of blocks
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64M")]
    pub(crate) index_memory: u64,
    /// The command that writes the new content to its stdout
    ///
    /// DEST is replaced only if it exits with 0.
    #[arg(value_name = "COMMAND", last = true, num_args = 1.., value_hint = clap::ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}
