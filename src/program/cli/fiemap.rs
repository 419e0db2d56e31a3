//! The arguments of `pleach fiemap`.

use crate::program::output::fiemap::Format;
use clap::Args;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach fiemap disk.img
  pleach fiemap /backup/*/home/ann/disk.img      the same addresses: the same blocks
  pleach fiemap --owners disk.img                every file that holds its extents
  pleach fiemap --format filefrag /srv/db        every file below, for a script that reads filefrag -v
  pleach fiemap --shared-with a.img b.img        which ranges they have in common
  pleach fiemap --map /backup/*/srv/disk.img     draw them in the terminal, one line each
  pleach fiemap --svg disks.svg *.img            draw a picture, with bands between shared ranges
  pleach fiemap --json disk.img | jq 'select(.type == \"file\").shared_bytes'

Offsets and addresses are in bytes. A physical address is an address of the device; on Btrfs, of the
filesystem's logical address space. Data without an address of its own (inline, not yet on disk)
shows \"-\". The xfs_io format counts in units of 512 bytes, the filefrag format in blocks of the
filesystem. Both print names byte by byte, as those programs do; only on a terminal are control
characters escaped.

--shared-with, --map and --svg show sharing among the given files. A group is the data that exactly
the same files have in common. For compressed extents it is an upper bound. See docs/sharing.md.

--owners asks the filesystem, so it also shows files that were not given. On Btrfs it also shows
files that hold only another part of an extent: the extent stays allocated as long as one of them
exists. On an XFS made without mkfs.xfs -m rmapbt=1 it looks at every file; names that the kernel
does not know are found by walking the tree.";

#[derive(Args, Debug)]
pub(crate) struct Fiemap {
    /// Regular files, or directories with all files in them
    ///
    /// Symbolic links are followed only if named here.
    #[arg(value_name = "FILE", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// The format of the list
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(crate) format: Format,
    /// Show which ranges the files share with each other
    #[arg(long, conflicts_with = "format")]
    pub(crate) shared_with: bool,
    /// Draw the files in the terminal
    ///
    /// One line per file, and a letter for each group of shared data.
    #[arg(long, conflicts_with = "format")]
    pub(crate) map: bool,
    /// Draw the files as a picture in FILE ('-': stdout)
    ///
    /// Bands join shared ranges.
    #[arg(long, value_name = "FILE", conflicts_with = "format", value_hint = clap::ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
    /// Do not sync the files first
    ///
    /// Data that is not on the disk yet is then shown as delalloc.
    #[arg(long)]
    pub(crate) no_sync: bool,
    /// Name all files that hold these extents (root)
    ///
    /// It searches the whole filesystem: XFS or Btrfs.
    #[arg(long)]
    pub(crate) owners: bool,
}

impl Fiemap {
    /// Refuses options that both write to stdout.
    pub(super) fn assert_one_use_of_stdout(&self, json: bool) -> Result<(), &'static str> {
        let picture = self.svg.as_deref() == Some(Path::new("-"));
        let foreign = self.format != Format::Table;
        match () {
            () if json && foreign => Err("the argument '--json' cannot be used with a '--format' for other readers"),
            () if self.owners && foreign => {
                Err("the argument '--owners' cannot be used with a '--format' for other readers")
            }
            () if self.owners && picture => Err("the argument '--owners' cannot be used with '--svg -'"),
            () if json && self.map => Err("the argument '--json' cannot be used with '--map'"),
            () if json && picture => Err("the argument '--json' cannot be used with '--svg -'"),
            () if self.map && picture => Err("the argument '--map' cannot be used with '--svg -'"),
            () if self.shared_with && picture => Err("the argument '--shared-with' cannot be used with '--svg -'"),
            () => Ok(()),
        }
    }
}
