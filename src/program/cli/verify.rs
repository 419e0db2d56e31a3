//! The arguments of `pleach verify`.

use super::repo_first::with_repo_before_ids;
use super::values;
use clap::Args;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach verify /backup                      read everything once, and compare it with its hashes
  pleach verify /backup latest               only the newest snapshot
  pleach verify --quick /backup              only types, sizes, times, owners and modes; reads no data
  pleach verify --read 5% /backup            another part each time: everything in 20 runs
  pleach verify --repair-from / /backup      replace damaged files by those of the sources
  pleach verify --json /backup | jq -r 'select(.type == \"damage\") | .snapshot + \" \" + .path'

Data that several snapshots share is read once, and damage is reported for each snapshot and path that
has it; the exit status is then 4. Without --repair-from nothing is changed. ID is as in 'pleach restore'.
With PLEACH_REPO set, a first word without a slash is an ID.";

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The repository, and the snapshots to verify
    ///
    /// Without a repository, $PLEACH_REPO. Without snapshots, all of them.
    #[arg(value_name = "REPO [ID]", num_args = 0.., value_hint = clap::ValueHint::AnyPath)]
    words: Vec<PathBuf>,
    /// Compare types, sizes and metadata only; read no data
    #[arg(long, conflicts_with = "read")]
    pub(crate) quick: bool,
    /// Read only this part of the data, another one each time
    ///
    /// For example 5%: after 20 runs on all snapshots, all data was read once. The repository remembers where the
    /// last run ended.
    #[arg(long, value_name = "PERCENT", value_parser = values::part)]
    pub(crate) read: Option<f64>,
    /// Check that files share their data as the manifests say
    #[arg(long)]
    pub(crate) sharing: bool,
    /// Replace damaged files by sound copies from this snapshot or directory
    ///
    /// ID is another snapshot of the repository. SOURCE is a path with a slash: a directory that has the sources below
    /// their absolute paths, such as / or the tree of a snapshot of another repository. A copy is used only if its
    /// content has the recorded hash.
    #[arg(long, value_name = "ID|SOURCE", conflicts_with = "quick", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) repair_from: Option<PathBuf>,
}

impl Verify {
    /// Settles which word is the repository.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        self.words = with_repo_before_ids(std::mem::take(&mut self.words), environment, 0)?;
        Ok(())
    }

    /// The repository, and the snapshots.
    pub(crate) fn repo_and_ids(&self) -> (&Path, &[PathBuf]) {
        match &self.words[..] {
            [repo, ids @ ..] => (repo, ids),
            // `settle` leaves at least one.
            [] => (Path::new(""), &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_without_a_slash_is_a_snapshot_if_the_environment_names_the_repository() {
        let settled = |words: &[&str], environment: Option<&str>| {
            let words = words.iter().map(PathBuf::from).collect();
            let mut verify = Verify { words, quick: false, read: None, sharing: false, repair_from: None };
            verify.settle(environment.map(PathBuf::from)).map(|()| verify.words)
        };
        let paths = |words: &[&str]| Ok(words.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(settled(&["r", "latest"], None), paths(&["r", "latest"]));
        assert_eq!(settled(&["/r", "latest"], Some("/e")), paths(&["/r", "latest"]));
        assert_eq!(settled(&["latest"], Some("/e")), paths(&["/e", "latest"]));
        assert_eq!(settled(&["latest:/home"], Some("/e")), paths(&["/e", "latest:/home"]));
        assert_eq!(settled(&[], Some("/e")), paths(&["/e"]));
        assert!(settled(&[], None).is_err());
    }
}
