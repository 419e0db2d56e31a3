//! The arguments of `pleach run` and `pleach init-profile`.

use clap::Args;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach init-profile /etc/pleach/home.toml    write a commented profile, to be edited
  pleach run --show home                       show all settings, with their defaults
  pleach run --dry-run home                    show what would be done
  pleach run home                              take the snapshot and do everything else

A profile is a TOML file. PROFILE is a path if it contains a slash or ends in .toml; otherwise
~/.config/pleach/PROFILE.toml or /etc/pleach/PROFILE.toml. A profile that root runs must belong to
root, and nobody else may be able to write it, since it can name commands.

Hooks run in this order: before; after, if all steps were done; failed, if the exit status is not 0;
finally, in any case. They get PLEACH_HOOK, PLEACH_PROFILE, PLEACH_PROFILE_FILE, PLEACH_REPOSITORY,
PLEACH_STATUS, PLEACH_SNAPSHOT and PLEACH_ERROR, and all but before can read a report from stdin.

Metrics: with the section [metrics], the results of the run are written to a file, for Prometheus'
node exporter. A failure of the hooks failed or finally is added to it.

The exit status is the worst of all steps; the order is 130, 1, 2, 4, 11, 3, 0.";

pub(super) const INIT_EXAMPLES: &str = "\
Examples:
  pleach init-profile /etc/pleach/home.toml
  pleach init-profile ~/.config/pleach/photos.toml

Only its owner can read the new file. A missing directory for it is created.";

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The profile's name or path
    #[arg(value_name = "PROFILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) profile: PathBuf,
    /// Only show the profile with all defaults
    ///
    /// As TOML, or with --json as an object.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) show: bool,
    /// Only show what would be done
    ///
    /// Runs no hook and writes no metrics.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Args, Debug)]
pub(crate) struct InitProfile {
    /// The file to create
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}
