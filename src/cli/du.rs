//! The arguments of `pleach du`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Du {
    /// Files or directories
    ///
    /// Symbolic links are followed only if named here. Mount points are crossed.
    #[arg(value_name = "PATH", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Do not sync the filesystems first
    ///
    /// Data that is not on the disk yet then does not count.
    #[arg(long)]
    pub(crate) no_sync: bool,
}
