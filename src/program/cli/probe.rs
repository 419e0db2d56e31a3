//! The arguments of `pleach probe`.

use clap::Args;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach probe /srv
  pleach probe --json /srv | jq 'select(.item == \"reflink\").value'
  pleach probe --bench /srv                  also measure how fast each way of copying is
  pleach probe --bench --json /srv | jq 'select(.type == \"bench\")'

Each feature is tried with an unnamed file that disappears at once. Features that cannot be tried,
on a read-only mount or in a directory without write permission, show \"?\"; the exit status is 3.

--bench copies one large file and 2,000 small ones by each engine of 'pleach copy --engine', into
files and into memory (memfd), cached, on one thread, several times, and shows the medians. The time
of copies into files includes the sync. The test files are in a directory of their own, which is
removed again.";

#[derive(Args, Debug)]
pub(crate) struct Probe {
    /// A directory, or a file in it
    ///
    /// Unnamed test files are created in the directory.
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) path: PathBuf,
    /// Measure how fast each engine copies there
    ///
    /// With a file of up to 256 MiB and 2,000 small files.
    #[arg(long)]
    pub(crate) bench: bool,
}
