//! Events that engines report in addition to failures: typed facts, without sentences. `output` turns them into words
//! and JSON.

use super::reason::{CacheFault, EngineRefusal, Pinned, Skip};
use crate::error::Error;
use std::ffi::OsStr;
use std::path::Path;

/// An event in a run that is not a failure.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A failure that the user accepted in advance.
    Accepted(&'a Error),
    /// Metadata of a directory above the restored paths could not be restored.
    ParentMetadata(&'a Error),
    /// A file of an earlier run was removed: that run was killed before the file was complete.
    LeftoversRemoved {
        /// The number of files.
        count: u64,
        /// The file next to them, or the directory that contained them.
        path: &'a Path,
    },
    /// An engine cannot copy here.
    EngineRefused {
        /// The engine.
        engine: &'a str,
        /// Why not.
        why: EngineRefusal,
        /// The engine that replaces it. `None`: files are copied one at a time.
        next: Option<&'a str>,
    },
    /// Patterns matched nothing.
    UnmatchedPatterns {
        /// The first of them, as the user gave them.
        patterns: &'a [&'a str],
        /// The number of further patterns.
        more: usize,
        /// Whether some can only match at the top of a source, because they contain a slash.
        relative: bool,
        /// Whether some match a source itself, which is never excluded.
        source: bool,
    },
    /// A repository was made.
    RepositoryMade(&'a Path),
    /// `snapshot`, dry run: there is no repository yet.
    RepositoryMissing(&'a Path),
    /// `snapshot`, dry run: there is no earlier snapshot to compare with, so everything is new.
    NothingEarlier,
    /// `snapshot`: the directory of the repository was found below a source and skipped.
    RepositorySkipped(&'a Path),
    /// A directory in the repository has no manifest, so it is not a snapshot.
    Stray {
        /// The directory.
        path: &'a Path,
        /// The number of further ones.
        more: u64,
        /// A manifest without a tree: perhaps its tree was renamed. These manifests are kept meanwhile.
        missing: Option<&'a str>,
    },
    /// Something other than a directory is in the place of a snapshot's tree. The manifest is kept meanwhile.
    OtherTree {
        /// The place.
        path: &'a Path,
        /// The number of further ones.
        more: u64,
    },
    /// `snapshot`: the filesystem of the repository has no locks.
    NoLocks,
    /// `snapshot`: the filesystem of the repository does not support reflinks.
    NoReflinks {
        /// The filesystem.
        filesystem: &'a str,
        /// Whether unchanged files still need no copy.
        unchanged_are_linked: bool,
    },
    /// `snapshot`: the filesystem of the repository treats names that differ only in case as the same.
    CaseInsensitive,
    /// `snapshot`: without privileges no tree can begin as a Btrfs snapshot.
    NoSubvolumes,
    /// `snapshot`: the tree begins as a Btrfs snapshot of this snapshot.
    TreeFromSnapshot(&'a str),
    /// `snapshot`: only this many inodes, which changed since this snapshot, and the way to them are looked at.
    ChangesOnly {
        /// The inodes, also those that were only read.
        inodes: u64,
        /// The snapshot.
        since: &'a str,
    },
    /// `snapshot`: everything is looked at, although the last run noted what it saw.
    WholeWalk(WholeWalk<'a>),
    /// `snapshot`: an entry changed, and the filesystem does not show it. This run saw it because it looked at
    /// everything.
    ChangeMissed(&'a Path),
    /// `snapshot`: the tree of this snapshot was changed after it was published, so no tree can begin with it.
    SnapshotChanged(&'a str),
    /// `snapshot`: the clock is behind the newest snapshot.
    ClockBehind {
        /// The time of the clock, in RFC 3339.
        clock: &'a str,
        /// The time that the snapshot gets.
        given: &'a str,
    },
    /// `snapshot`: there are too many files to recognize small renamed files.
    SmallRenamesIgnored {
        /// Files smaller than this are copied if they were renamed.
        bytes: u64,
    },
    /// `snapshot`: this directory is not part of the frozen subvolume and was read live.
    NotFrozen(&'a Path),
    /// `snapshot`: the temporary snapshot of a source could not be deleted.
    FrozenNotDeleted(&'a Error),
    /// `snapshot`: the temporary snapshot of a killed run was deleted.
    FrozenDeleted(&'a OsStr),
    /// `restore`: an older snapshot is used, because the newest lacks a path.
    OlderSnapshot {
        /// The newest snapshot.
        newest: &'a str,
        /// The snapshot that is used.
        used: &'a str,
        /// The paths that were asked for.
        paths: &'a [std::path::PathBuf],
    },
    /// `diff`: there are too many changes to find all renamed entries. The others are shown as removed and added.
    RenamesNotSought {
        /// The changes among which renamed entries were found.
        changes: u64,
    },
    /// `restore`: the repository is in a place where files are deleted, and was kept.
    RepositoryKept(&'a Path),
    /// `diff`, `log`, `restore --delete`: the run of this snapshot skipped entries with an error, so an entry that it
    /// lacks may have existed.
    SnapshotIncomplete {
        /// The snapshot.
        snapshot: &'a str,
        /// The problems of its run.
        problems: u64,
        /// How many entries were skipped. `None`: they are not all known.
        skipped: Option<u64>,
    },
    /// `verify`: this snapshot was deleted meanwhile, so the rest of it was not verified.
    SnapshotDeleted(&'a str),
    /// `list`, `du`, `report`, dry runs of `prune` and `remove`: it was deleted meanwhile, so it was not measured.
    SnapshotNotMeasured(&'a str),
    /// `verify` of a part: how far it came could not be recorded, so the next run reads the same part.
    PositionNotRecorded(&'a Error),
    /// `prune`: snapshots are dated in the future. They are kept, and no rule counts them.
    DatedAhead {
        /// How many.
        snapshots: u64,
        /// The one with the latest time.
        latest: &'a str,
        /// Its time, in RFC 3339.
        created: &'a str,
    },
    /// `copy`: only root can set some metadata.
    NotKept {
        /// The metadata.
        what: &'a str,
        /// The number of entries.
        entries: u64,
        /// The first entry.
        first: &'a Path,
    },
    /// `put`: the command has ended, but another process holds its output open.
    OutputHeldOpen(&'a OsStr),
    /// `put`: the destination is a symbolic link, and the file behind it is replaced.
    LinkFollowed {
        /// The link.
        link: &'a Path,
        /// The file.
        target: &'a Path,
    },
    /// `put`: the replaced file has other names, which keep the old content.
    OtherNames {
        /// The file.
        path: &'a Path,
        /// The number of its other names.
        names: u64,
    },
    /// `put`: nothing could be shared.
    NothingShared {
        /// The new file.
        path: &'a Path,
        /// The base that was named; `None`: the last version.
        base: Option<&'a Path>,
        /// Why not.
        why: &'a str,
    },
    /// `dedupe`: a filesystem cannot share extents and was skipped.
    FilesystemSkipped {
        /// The first directory on it.
        path: &'a Path,
        /// The filesystem.
        filesystem: &'a str,
    },
    /// `dedupe`: a file was skipped.
    FileSkipped {
        /// The file.
        path: &'a Path,
        /// Why.
        why: Skip,
    },
    /// `dedupe`: the cache describes another state of the filesystem.
    CacheOutdated,
    /// `dedupe`: the cache cannot be used; the run begins without it.
    CacheReplaced {
        /// The cache file.
        path: &'a Path,
        /// Why.
        why: &'a CacheFault,
    },
    /// `dedupe`: the cache cannot be read or written.
    CacheFailed(&'a Error),
    /// `dedupe`: there is no directory for the cache.
    CacheHomeless,
    /// `dedupe`: lengths on the disk are estimated.
    LengthsEstimated,
    /// `dedupe`: the rest of an extent could not be rewritten, so its space stays in use.
    NotFreed(&'a Error),
    /// `dedupe`: equal data was not shared.
    NotShared {
        /// How much.
        bytes: u64,
        /// Why.
        why: Pinned,
    },
    /// `dedupe`: the index has room for only some of the blocks.
    IndexSampled {
        /// It has room for one block of this many.
        one_in: u64,
        /// Shorter runs may be missed.
        run_bytes: u64,
    },
    /// `du`: it is unknown whether other files share data.
    SharersUnknown(&'a Error),
    /// `fiemap`: this XFS has no reverse map, so all inodes are searched.
    NoReverseMap {
        /// The number of inodes.
        inodes: u64,
    },
    /// `replicate` and `offsite push`: a snapshot was deleted before it was sent.
    SnapshotNotSent(&'a str),
    /// `replicate`: the destination is on the filesystem of the repository.
    SameFilesystem(&'a Path),
    /// `replicate`: the newest snapshot that is sent has a copy of the destination, so each one holds those before it.
    ReplicaInSource {
        /// The destination.
        path: &'a Path,
        /// The snapshot.
        snapshot: &'a str,
    },
    /// `replicate`: ssh, or the command on another host, printed a message.
    OtherHost {
        /// The host.
        host: &'a str,
        /// The message.
        line: &'a str,
    },
    /// `probe`: system calls cannot be counted.
    CallsNotCounted {
        /// The cause.
        cause: &'a str,
    },
}

/// Why a run looks at everything.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WholeWalk<'a> {
    /// It is time to, or the user asked for it.
    Due,
    /// The sources, the options or the version of the program are others than in the last run.
    OtherConditions,
    /// The sources are not in the subvolumes or filesystems that they were in.
    OtherSubvolumes,
    /// Files are excluded by age, and they grow older without a change.
    ExcludesByAge,
    /// So much changed that looking at everything is as fast.
    ManyChanges,
    /// The filesystem's trees, or the last manifest, could not be read.
    Unreadable,
    /// The filesystem was mounted again since the last run. It may be an older image.
    MountedAgain,
    /// This entry differs from the last snapshot's, and the transactions do not show it.
    Disagrees(&'a Path),
}

impl<'a> Event<'a> {
    /// Whether it is only of interest to curious users.
    pub fn is_detail(&self) -> bool {
        match self {
            Event::WholeWalk(why) => !matches!(why, WholeWalk::Unreadable | WholeWalk::Disagrees(_)),
            Event::ParentMetadata(_)
            | Event::LeftoversRemoved { .. }
            | Event::EngineRefused { .. }
            | Event::NothingEarlier
            | Event::TreeFromSnapshot(_)
            | Event::ChangesOnly { .. }
            | Event::FrozenDeleted(_)
            | Event::FileSkipped { .. }
            | Event::NotShared { .. }
            | Event::IndexSampled { .. }
            | Event::SharersUnknown(_) => true,
            _ => false,
        }
    }

    /// The word by which programs recognize the event. It is part of the output format: do not change it later.
    pub fn code(&self) -> &'static str {
        match self {
            Event::Accepted(error) => error.code(),
            Event::ParentMetadata(_) => "parent-metadata",
            Event::LeftoversRemoved { .. } => "leftovers-removed",
            Event::EngineRefused { .. } => "engine-refused",
            Event::UnmatchedPatterns { .. } => "unmatched-patterns",
            Event::RepositoryMade(_) => "repository-made",
            Event::RepositoryMissing(_) => "repository-missing",
            Event::NothingEarlier => "nothing-earlier",
            Event::RepositorySkipped(_) => "repository-skipped",
            Event::NoLocks => "no-locks",
            Event::NoReflinks { .. } => "no-reflinks",
            Event::CaseInsensitive => "case-insensitive",
            Event::NoSubvolumes => "no-subvolumes",
            Event::TreeFromSnapshot(_) => "tree-from-snapshot",
            Event::ChangesOnly { .. } => "changes-only",
            Event::WholeWalk(_) => "whole-walk",
            Event::ChangeMissed(_) => "change-missed",
            Event::SnapshotChanged(_) => "snapshot-changed",
            Event::ClockBehind { .. } => "clock-behind",
            Event::SmallRenamesIgnored { .. } => "small-renames-ignored",
            Event::NotFrozen(_) => "not-frozen",
            Event::FrozenNotDeleted(_) => "frozen-not-deleted",
            Event::FrozenDeleted(_) => "frozen-deleted",
            Event::OlderSnapshot { .. } => "older-snapshot",
            Event::RenamesNotSought { .. } => "renames-not-sought",
            Event::RepositoryKept(_) => "repository-kept",
            Event::SnapshotDeleted(_) | Event::SnapshotNotSent(_) | Event::SnapshotNotMeasured(_) => "snapshot-deleted",
            Event::SnapshotIncomplete { .. } => "snapshot-incomplete",
            Event::PositionNotRecorded(_) => "position-not-recorded",
            Event::DatedAhead { .. } => "dated-ahead",
            Event::Stray { .. } => "no-manifest",
            Event::OtherTree { .. } => "no-tree",
            Event::NotKept { .. } => "not-kept",
            Event::OutputHeldOpen(_) => "output-held-open",
            Event::LinkFollowed { .. } => "link-followed",
            Event::OtherNames { .. } => "other-names",
            Event::NothingShared { .. } => "nothing-shared",
            Event::FilesystemSkipped { .. } => "filesystem-skipped",
            Event::FileSkipped { .. } => "file-skipped",
            Event::CacheOutdated => "cache-outdated",
            Event::CacheReplaced { .. } => "cache-replaced",
            Event::CacheFailed(_) => "cache-failed",
            Event::CacheHomeless => "no-cache-directory",
            Event::LengthsEstimated => "lengths-estimated",
            Event::NotFreed(_) => "not-freed",
            Event::NotShared { .. } => "not-shared",
            Event::IndexSampled { .. } => "index-sampled",
            Event::SharersUnknown(_) => "sharers-unknown",
            Event::NoReverseMap { .. } => "no-reverse-map",
            Event::SameFilesystem(_) => "same-filesystem",
            Event::ReplicaInSource { .. } => "replica-in-source",
            Event::OtherHost { .. } => "other-host",
            Event::CallsNotCounted { .. } => "calls-not-counted",
        }
    }

    /// The path of the event.
    pub fn path(&self) -> Option<&'a Path> {
        match self {
            Event::Accepted(error)
            | Event::ParentMetadata(error)
            | Event::FrozenNotDeleted(error)
            | Event::PositionNotRecorded(error)
            | Event::CacheFailed(error)
            | Event::NotFreed(error)
            | Event::SharersUnknown(error) => error.path(),
            Event::RepositoryMade(path) | Event::RepositoryMissing(path) | Event::RepositorySkipped(path) => Some(path),
            Event::NotFrozen(path) | Event::RepositoryKept(path) => Some(path),
            Event::LeftoversRemoved { path, .. }
            | Event::Stray { path, .. }
            | Event::OtherTree { path, .. }
            | Event::OtherNames { path, .. }
            | Event::NothingShared { path, .. }
            | Event::FilesystemSkipped { path, .. }
            | Event::FileSkipped { path, .. }
            | Event::CacheReplaced { path, .. } => Some(path),
            Event::NotKept { first, .. } => Some(first),
            Event::LinkFollowed { link, .. } => Some(link),
            Event::SameFilesystem(path) | Event::ReplicaInSource { path, .. } => Some(path),
            _ => None,
        }
    }
}
