//! The words of `pleach put`.

use super::values::{blake3, size, size_or_none};
use clap::Args;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  pg_dump db | pleach put /srv/db.sql          every night: what did not change is shared
  sed 's/old/new/' conf | pleach put conf      in place: the file is replaced when all is read
  ssh host cat disk.img | pleach put --expect-size 64G disk.img
  pg_dump db | pleach put --base /srv/monday.sql /srv/tuesday.sql

All of stdin is read, written beside DEST, synced, and renamed over it: a reader sees the old file
or the new one. What fails or is interrupted before leaves DEST as it was. A program before the
pipe that fails halfway cannot be told from one that is done: --expect-size and --expect-blake3
can. DEST keeps its owner, mode, attributes, ACLs and flags; its other hard links keep the old
content; a symbolic link stays, and the file that it leads to is replaced.

Blocks that are equal at the same offset of the base, or in runs of 64 KiB and more at another
aligned offset, are shared with it (XFS, Btrfs). stdin as a file ('< FILE') on the same filesystem
is cloned. How it works: docs/copying.md.";

#[derive(Args, Debug)]
pub(crate) struct Put {
    /// The file to replace, or to make
    #[arg(value_name = "DEST", value_hint = clap::ValueHint::FilePath)]
    pub(crate) destination: PathBuf,
    /// Share with this file; by default with the present DEST
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) base: Option<PathBuf>,
    /// Leave DEST as it was unless stdin has so many bytes
    #[arg(long, value_name = "SIZE", value_parser = size_or_none)]
    pub(crate) expect_size: Option<u64>,
    /// Leave DEST as it was unless stdin has this BLAKE3
    #[arg(long, value_name = "HEX", value_parser = blake3)]
    pub(crate) expect_blake3: Option<[u8; 32]>,
    /// Memory for the index of the base's blocks
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64M")]
    pub(crate) index_memory: u64,
}
