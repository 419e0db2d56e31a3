//! The arguments of `pleach list`.

use super::values;
use clap::Args;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach list /backup
  pleach list --exclusive /backup            how much deleting each snapshot would free at least
  pleach list --json /backup | jq -r 'select(.type == \"snapshot\").name'

\"size\" is the sum of the files of a snapshot; \"added data\" and \"metadata\" is the space on the disk
that it added when it was made (metadata approximately, since other programs may write meanwhile;
\"-\": not known); \"alone\" is data that no other file shares: deleting the snapshot frees at least
that much; \"only here\" is data that no other snapshot of the repository holds, when
'pleach du REPO --snapshots' last made maps (\"-\": no map of it; \"≤\": others have no map). Sources
are shown if they differ, or with -v. Columns that do not fit the terminal, or 80 columns without
one, are shown below their snapshot.";

#[derive(Args, Debug)]
pub(crate) struct List {
    /// The repository
    #[arg(value_name = "REPO", env = "PLEACH_REPO", hide_env_values = true, value_hint = clap::ValueHint::DirPath)]
    #[arg(value_parser = values::repository())]
    pub(crate) repo: PathBuf,
    /// Measure the data that only one snapshot holds
    ///
    /// This reads the extents of every file, except as root on an XFS with a reverse map.
    #[arg(long)]
    pub(crate) exclusive: bool,
}
