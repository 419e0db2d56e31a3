//! The arguments of `pleach replicate`, `pleach send` and `pleach receive`.

use super::repo_first::with_repo_before_ids;
use super::values;
use crate::snapshot::replicate::Destination;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach replicate /backup /mnt/disk2/backup           to another disk
  pleach replicate /backup ssh://ann@nas/srv/backup    to another host, which has pleach
  pleach replicate --last 7 /backup ssh://nas/backup   only the newest seven
  pleach replicate /backup /mnt/disk2/backup monday    only this snapshot

Only snapshots that DEST lacks are sent, each as its difference from the one before: unchanged data is not
read, and data that files share is sent once and shared there. An interrupted run loses nothing; the same
command continues it, also inside a large file. ssh is your own, with its configuration and keys.
'pleach send' and 'pleach receive' do the same through a pipe or a file.
ID is as in 'pleach restore'. With PLEACH_REPO set, a first word without a slash is not a repository.

Environment:
  PLEACH_SSH     the program that connects, with options, instead of ssh; quotes may enclose blanks
  PLEACH_REMOTE  the command on the remote host, instead of pleach";

pub(super) const SEND_EXAMPLES: &str = "\
Examples:
  pleach send /backup latest > monday.pleach
  pleach send /backup tuesday --base monday > tuesday.pleach
  pleach send /backup latest | ssh nas pleach receive /srv/backup

Without --base the stream has all of the snapshot. With it, the receiver must have the base.";

pub(super) const RECEIVE_EXAMPLES: &str = "\
Examples:
  pleach receive /srv/backup < monday.pleach
  ssh web pleach send /backup latest | pleach receive /srv/web

A snapshot appears when all of it has arrived and matches its digests, or not at all.
The options are for keys that can only add snapshots: docs/guide/replication.md.";

#[derive(Args, Debug)]
pub(crate) struct Replicate {
    /// The repository, the destination, and the snapshots
    ///
    /// DEST is a path, or ssh://[USER@]HOST[:PORT]/PATH. Without a repository, $PLEACH_REPO. Without snapshots, all of
    /// them.
    #[arg(value_name = "REPO DEST [ID]", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    words: Vec<OsString>,
    /// Send all snapshots; this is the default
    #[arg(long, conflicts_with = "last")]
    all: bool,
    /// Send only the N newest snapshots
    #[arg(long, value_name = "N", value_parser = values::whole::<usize>(1..=u64::MAX))]
    pub(crate) last: Option<usize>,
    /// Only list the snapshots that would be sent
    ///
    /// A host is asked which ones it has.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[arg(skip)]
    pub(crate) repo: PathBuf,
    #[arg(skip)]
    pub(crate) destination: Option<Destination>,
    #[arg(skip)]
    pub(crate) ids: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Send {
    /// The repository, and the snapshot
    ///
    /// Without a repository, $PLEACH_REPO.
    #[arg(value_name = "REPO ID", required = true, num_args = 1..=2, value_hint = clap::ValueHint::AnyPath)]
    words: Vec<OsString>,
    /// Send only the difference from this snapshot
    #[arg(long, value_name = "ID")]
    pub(crate) base: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Receive {
    /// The repository [default: $PLEACH_REPO]
    ///
    /// It is made if it does not exist.
    #[arg(value_parser = values::repository(), value_hint = clap::ValueHint::DirPath)]
    pub(crate) repo: Option<PathBuf>,
    /// Make the repository, and receive nothing
    ///
    /// For one that gets snapshots with --restrict.
    #[arg(long, conflicts_with_all = ["stdio", "restrict", "append_only"])]
    pub(crate) init: bool,
    /// Speak the protocol of 'pleach replicate'
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Accept nothing else from this ssh key
    ///
    /// As the command of an ssh key: the repository must exist, and whatever else is asked for is refused.
    #[arg(long)]
    pub(crate) restrict: bool,
    /// Refuse snapshots dated in the future
    #[arg(long)]
    pub(crate) append_only: bool,
    /// Only answer which snapshots are missing
    ///
    /// For 'pleach replicate --dry-run'.
    #[arg(long, requires = "stdio")]
    pub(crate) dry_run: bool,
}

impl Replicate {
    /// Settles which words are the repository, the destination and IDs.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        let mut words = std::mem::take(&mut self.words);
        // Two paths, or a path and a host: the first one is the repository.
        let is_place = |word: &OsString| super::is_path(word) || word.as_encoded_bytes().starts_with(b"ssh://");
        if !(words.len() > 1 && is_place(&words[0]) && is_place(&words[1]))
            && let Some(repo) = environment
        {
            words.insert(0, repo.into());
        }
        if words.len() < 2 {
            return Err(format!("name the repository and the destination ({})", super::repo_first::or_set_it()));
        }
        let mut words = words.into_iter();
        self.repo = words.next().unwrap_or_default().into();
        self.destination = Some(Destination::parse(&words.next().unwrap_or_default())?);
        let ids = words.map(|id| id.into_string().map_err(|_| "the name of a snapshot is UTF-8".to_string()));
        self.ids = ids.collect::<Result<_, _>>()?;
        if !self.ids.is_empty() && (self.all || self.last.is_some()) {
            return Err("name snapshots, or use --all or --last".into());
        }
        Ok(())
    }
}

impl Send {
    /// Settles which word is the repository.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        self.words = with_repo_before_ids(std::mem::take(&mut self.words), environment, 1)?;
        Ok(())
    }

    /// The repository, and the snapshot.
    pub(crate) fn repo_and_id(&self) -> (PathBuf, String) {
        let word = |number: usize| self.words.get(number).cloned().unwrap_or_default();
        (word(0).into(), word(1).to_string_lossy().into_owned())
    }
}

impl Receive {
    /// Settles which repository is meant.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        // A key that is restricted does not depend on the environment, which the sender may be able to set.
        let environment = environment.filter(|_| !self.restrict);
        self.repo = self.repo.take().or(environment);
        match self.repo {
            Some(_) => Ok(()),
            None => Err(format!("name the repository ({})", super::repo_first::or_set_it())),
        }
    }
}
