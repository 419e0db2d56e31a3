//! The commands that run after the damage.

use super::site::Site;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A command of pleach, with arguments that lead it to the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Command {
    List,
    Find,
    Log,
    Cat,
    CatLatest,
    Diff,
    DiffLive,
    Verify,
    Restore,
    RestoreLatest,
    Report,
    Send,
    Replicate,
    Copy,
    Fiemap,
    DuOfPaths,
    Du,
    Tag,
    Pin,
    Unpin,
    Prune,
    Remove,
    Repair,
    Snapshot,
    FullWalk,
    Run,
    Receive,
    ReceiveBased,
    ReplicateHere,
    Adopt,
    Dedupe,
    Put,
    Probe,
    Completions,
    Man,
    InitProfile,
    Offsite,
}

impl Command {
    pub(super) const ALL: [Command; 37] = [
        Command::List,
        Command::Find,
        Command::Log,
        Command::Cat,
        Command::CatLatest,
        Command::Diff,
        Command::DiffLive,
        Command::Verify,
        Command::Restore,
        Command::RestoreLatest,
        Command::Report,
        Command::Send,
        Command::Replicate,
        Command::Copy,
        Command::Fiemap,
        Command::DuOfPaths,
        Command::Du,
        Command::Tag,
        Command::Pin,
        Command::Unpin,
        Command::Prune,
        Command::Remove,
        Command::Repair,
        Command::Snapshot,
        Command::FullWalk,
        Command::Run,
        Command::Receive,
        Command::ReceiveBased,
        Command::ReplicateHere,
        Command::Adopt,
        Command::Dedupe,
        Command::Put,
        Command::Probe,
        Command::Completions,
        Command::Man,
        Command::InitProfile,
        Command::Offsite,
    ];

    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Command::List => "list",
            Command::Find => "find",
            Command::Log => "log",
            Command::Cat | Command::CatLatest => "cat",
            Command::Diff | Command::DiffLive => "diff",
            Command::Verify | Command::Repair => "verify",
            Command::Restore | Command::RestoreLatest => "restore",
            Command::Report => "report",
            Command::Send => "send",
            Command::Replicate | Command::ReplicateHere => "replicate",
            Command::Copy => "copy",
            Command::Fiemap => "fiemap",
            Command::DuOfPaths | Command::Du => "du",
            Command::Tag => "tag",
            Command::Pin => "pin",
            Command::Unpin => "unpin",
            Command::Prune => "prune",
            Command::Remove => "remove",
            Command::Snapshot | Command::FullWalk => "snapshot",
            Command::Run => "run",
            Command::Receive | Command::ReceiveBased => "receive",
            Command::Adopt => "adopt",
            Command::Dedupe => "dedupe",
            Command::Put => "put",
            Command::Probe => "probe",
            Command::Completions => "completions",
            Command::Man => "man",
            Command::InitProfile => "init-profile",
            Command::Offsite => "offsite",
        }
    }

    /// Why no damage matters to it.
    pub(super) fn is_harmless(self) -> Option<&'static str> {
        match self {
            Command::Probe => Some("it looks at the filesystem, and at no file of a repository"),
            Command::Completions | Command::Man | Command::InitProfile => Some("it reads nothing"),
            Command::Offsite => Some("it takes seconds for each store; tests/offsite has its own damage"),
            _ => None,
        }
    }

    /// Whether it changes nothing that another command reads: they run one after the other after the same damage.
    pub(super) fn only_reads(self) -> bool {
        !matches!(
            self,
            Command::Du
                | Command::Tag
                | Command::Pin
                | Command::Unpin
                | Command::Prune
                | Command::Remove
                | Command::Repair
                | Command::Snapshot
                | Command::FullWalk
                | Command::Run
                | Command::Receive
                | Command::ReceiveBased
                | Command::ReplicateHere
                | Command::Adopt
                | Command::Dedupe
                | Command::Put
        )
    }

    /// Whether it makes a snapshot of the sources.
    pub(super) fn takes_snapshot(self) -> bool {
        matches!(self, Command::Snapshot | Command::FullWalk | Command::Run)
    }

    /// The snapshots that it may remove.
    pub(super) fn may_remove(self) -> &'static [&'static str] {
        match self {
            Command::Remove => &["two"],
            Command::Prune | Command::Run => &["one", "two"],
            _ => &[],
        }
    }

    /// Its arguments. `tree_file` is a file in a tree, for the commands that know nothing of repositories.
    pub(super) fn arguments(self, site: &Site, tree_file: &Path) -> Vec<OsString> {
        let (repo, file, target) = (site.repo.as_path(), site.file(), site.target());
        let (source, elsewhere) = (site.source.as_path(), site.elsewhere.as_path());
        let word = Path::new;
        let words: Vec<PathBuf> = match self {
            Command::List => owned(&[repo]),
            Command::Find => owned(&[repo, word("*file*")]),
            Command::Log => owned(&[repo, &file]),
            Command::Cat => owned(&[repo, word("two"), &file]),
            Command::CatLatest => owned(&[repo, word("latest"), &site.large()]),
            Command::Diff => owned(&[repo, word("two"), word("three")]),
            Command::DiffLive => owned(&[repo, word("three"), word("live")]),
            Command::Verify => owned(&[repo]),
            Command::Restore => owned(&[word("--verify"), word("--target"), &target, repo, word("two")]),
            Command::RestoreLatest => owned(&[word("--target"), &target, repo, word("latest")]),
            Command::Report => owned(&[repo, word("--html"), &target]),
            Command::Send => owned(&[repo, word("two")]),
            Command::Replicate => owned(&[repo, &target]),
            Command::Copy => owned(&[tree_file, &target]),
            Command::Fiemap | Command::DuOfPaths => owned(&[tree_file]),
            Command::Du => owned(&[word("--snapshots"), repo]),
            Command::Tag => owned(&[repo, word("two"), word("+new")]),
            Command::Pin | Command::Unpin => owned(&[repo, word("two")]),
            Command::Prune => owned(&[word("--no-wait"), word("--keep-last"), word("1"), repo]),
            Command::Remove => owned(&[word("--no-wait"), repo, word("two")]),
            Command::Repair => owned(&[word("--repair-from"), word("/"), repo]),
            Command::Snapshot => owned(&[word("--name"), word("new"), source, elsewhere, repo]),
            Command::FullWalk => owned(&[word("--full-walk"), word("--name"), word("new"), source, elsewhere, repo]),
            Command::Run => owned(&[&site.profile()]),
            Command::Receive | Command::ReceiveBased => owned(&[repo]),
            Command::ReplicateHere => owned(&[&site.other(), repo]),
            Command::Adopt => owned(&[&site.old(), word("--source"), word("/old"), repo]),
            Command::Dedupe => owned(&[word("--cache"), &site.cache(), repo]),
            Command::Put => owned(&[word("--base"), tree_file, &target]),
            Command::Probe | Command::Completions | Command::Man | Command::InitProfile | Command::Offsite => {
                Vec::new()
            }
        };
        [self.name(), "--threads", "2"]
            .map(OsString::from)
            .into_iter()
            .chain(words.into_iter().map(Into::into))
            .collect()
    }

    /// What it reads on stdin.
    pub(super) fn input(self, site: &Site) -> Option<PathBuf> {
        match self {
            Command::Receive => Some(site.stream()),
            Command::ReceiveBased => Some(site.based_stream()),
            Command::Put => Some(site.file()),
            _ => None,
        }
    }
}

fn owned(words: &[&Path]) -> Vec<PathBuf> {
    words.iter().map(|word| word.to_path_buf()).collect()
}
