//! The arguments of `pleach report`.

use super::prune::SpaceRules;
use super::values;
use clap::Args;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach report /backup --html report.html
  pleach report /backup --html r.html --keep-daily 7 --keep-weekly 4   what these would free
  pleach report /backup --html r.html --no-measure       quickly: do not read extents
  pleach report --json /backup | jq 'select(.type == \"new_data\").path'

The page is one file, without scripts, and loads nothing. It has a calendar, what each snapshot
added, what pruning would free, the largest changes, the sharing of the largest files, and the
problems of the last runs. FILE is replaced only if it is empty or a report that pleach wrote.
Without --html and --json, a few lines are printed.

Measuring what removing snapshots would free reads the extents of all files. Rules (--keep-...) have
the meaning that they have for 'pleach prune'; nothing is removed.";

#[derive(Args, Debug)]
pub(crate) struct Report {
    /// The repository
    #[arg(value_name = "REPO", env = "PLEACH_REPO", hide_env_values = true, value_hint = clap::ValueHint::DirPath)]
    #[arg(value_parser = values::repository())]
    pub(crate) repo: PathBuf,
    /// Write a page to FILE ('-': stdout)
    ///
    /// One file for a browser.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Do not measure what removing would free
    ///
    /// Measuring reads the extents of all files of the repository.
    #[arg(long)]
    pub(crate) no_measure: bool,
    /// Compare the last N pairs
    ///
    /// Each snapshot with the one before it, for the largest changes. 0: none.
    #[arg(long, value_name = "N", default_value_t = 30)]
    #[arg(value_parser = values::count::<usize>, allow_negative_numbers = true)]
    pub(crate) compare: usize,
    /// Draw the N largest files
    ///
    /// Their versions, and what these share.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = values::whole::<usize>(0..=20), allow_negative_numbers = true)]
    pub(crate) largest: usize,
    #[command(flatten)]
    pub(crate) keep: SpaceRules,
}

impl Report {
    /// Whether the page goes to stdout.
    pub(crate) fn is_on_stdout(&self) -> bool {
        self.html.as_deref() == Some(Path::new("-"))
    }

    /// Refuses options that contradict each other.
    pub(super) fn assert_consistent(&self, json: bool) -> Result<(), &'static str> {
        match () {
            () if json && self.is_on_stdout() => Err("the argument '--json' cannot be used with '--html -'"),
            () if self.no_measure && !self.keep.keep().is_empty() => {
                Err("the argument '--no-measure' cannot be used with rules ('--keep-...')")
            }
            () => Ok(()),
        }
    }
}
