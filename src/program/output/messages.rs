//! The sentences for the reports of engines: events and errors. Results and tables are in the file of their command.

use super::reasons;
use crate::error::{Advice, Error};
use crate::monitor::Event;
use crate::util::text::{self, count, counted, size};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// An error in one line, with advice for the user.
pub(crate) fn error(error: &Error) -> String {
    error.with_advice(error.advice().map(advice))
}

/// The advice, in terms of the command line.
fn advice(advice: Advice) -> &'static str {
    match advice {
        Advice::PipeInput => "pipe it in, as in 'pg_dump db | pleach put db.sql', or use '< FILE'",
        Advice::GiveEmptyInput => "to empty a file use 'pleach put --allow-empty DEST < /dev/null'",
        Advice::AllowEmptyInput => "use --allow-empty to replace it",
        Advice::AllowEmptySource => "use --allow-empty to take it anyway",
        Advice::DoNotFreeze => "run as root, or without --freeze",
        Advice::FindRepository => "is the path right, and is its disk mounted?",
        Advice::RepositoryFirst => "the repository comes first, then the snapshot",
        Advice::EmptyDirectory => "name a missing or an empty directory, or a repository",
        Advice::NameRepositoryLast => "the last path is the repository: was it forgotten? Name it after the sources",
        Advice::ListSnapshots => "`pleach list` shows all",
        Advice::DeleteOthers => "--delete would remove it",
        Advice::VerifyExisting => "--verify would replace it",
        Advice::GiveRule => "name what to keep, as in --keep-daily 7; see 'pleach prune --help'",
        Advice::Unpin => "run `pleach unpin` first",
        Advice::AnyEngine => "without --engine it would be copied",
        Advice::VerifySnapshots => "`pleach verify` names the damaged files",
        Advice::InitReceiver => "is its disk mounted? `pleach receive --init` makes a new one",
        Advice::MountDestination => "is its disk mounted? `pleach replicate` makes a new one",
    }
}

/// An event in one sentence.
pub(crate) fn event(event: &Event<'_>) -> String {
    match *event {
        Event::Accepted(accepted) | Event::CacheFailed(accepted) => error(accepted),
        Event::ParentMetadata(failure) => error(failure),
        Event::LeftoversRemoved { count, path } => {
            format!(
                "removed {} that an interrupted run left near {}",
                counted(count, "unfinished file"),
                text::path(path)
            )
        }
        Event::EngineRefused { engine, why, next: Some(next) } => {
            format!("{engine} cannot copy here: {}; using {next} instead", reasons::engine_refusal(why))
        }
        Event::EngineRefused { engine, why, next: None } => {
            format!("{engine} cannot copy here: {}; copying files one at a time", reasons::engine_refusal(why))
        }
        Event::UnmatchedPatterns { patterns, more, relative, source } => unmatched(patterns, more, relative, source),
        Event::RepositoryMade(path) => format!("made a new repository in {}", text::path(path)),
        Event::RepositoryMissing(path) => format!("there is no repository in {}: a run makes one", text::path(path)),
        Event::NothingEarlier => "there is no earlier snapshot of these sources: everything is new".into(),
        Event::RepositorySkipped(path) => format!("skipped the repository itself: {}", text::path(path)),
        Event::NoLocks => {
            "the repository's filesystem has no locks: make sure that only one run uses it at a time".into()
        }
        Event::NoReflinks { filesystem, unchanged_are_linked } => {
            let what = if unchanged_are_linked { "every new or changed file" } else { "every file" };
            format!("the repository is on {filesystem}, which has no reflinks: {what} is copied")
        }
        Event::CaseInsensitive => {
            "the repository's filesystem ignores case: of names that differ only in case it can hold one".into()
        }
        Event::NoSubvolumes => {
            "cloning each file: only root may create and delete Btrfs subvolumes in the repository".into()
        }
        Event::TreeFromSnapshot(name) => format!("the new tree begins as a Btrfs snapshot of {name}"),
        Event::ChangesOnly { inodes, since } => {
            format!("looking only at {} that changed since {since}", counted(inodes, "inode"))
        }
        Event::WholeWalk(why) => format!("looking at everything: {}", reasons::whole_walk(why)),
        Event::ChangeMissed(path) => format!(
            "{} changed, and the filesystem does not show it: please report this; this snapshot has the change, \
             but earlier ones may lack it",
            text::path(path)
        ),
        Event::SnapshotChanged(name) => {
            format!("cloning each file this time: the snapshot {name} was changed after it was published")
        }
        Event::ClockBehind { clock, given } => {
            format!("the clock says {clock}, which is before the newest snapshot: this snapshot gets the time {given}")
        }
        Event::SmallRenamesIgnored { bytes } => {
            format!(
                "renamed files smaller than {} are copied: the last snapshot has too many files to index all",
                size(bytes)
            )
        }
        Event::NotFrozen(path) => {
            format!(
                "{} is a separate subvolume and was read live; name it as a source to freeze it too",
                text::path(path)
            )
        }
        Event::FrozenNotDeleted(failure) => format!("{}; the next run tries again", error(failure)),
        Event::FrozenDeleted(name) => format!("deleted the frozen snapshot {} of an interrupted run", shown(name)),
        Event::OlderSnapshot { newest, used, paths } => {
            format!("the newest snapshot, {newest}, lacks {}: using {used}, the newest that has it", missing(paths))
        }
        Event::RenamesNotSought { changes } => {
            let changes = counted(changes, "change");
            format!("renamed entries were found among the first {changes}; further ones are shown as - and +")
        }
        Event::SnapshotIncomplete { snapshot, problems, skipped } => {
            let snapshot = shown(OsStr::new(snapshot));
            match skipped {
                Some(skipped) => {
                    let entries = if skipped == 1 { "entry" } else { "entries" };
                    let skipped = count(skipped);
                    format!("the snapshot {snapshot} is incomplete: its run skipped {skipped} {entries} with errors")
                }
                None => format!(
                    "the snapshot {snapshot} is incomplete ({} in its run): entries that it lacks may have been \
                     unreadable",
                    counted(problems, "problem")
                ),
            }
        }
        Event::RepositoryKept(path) => format!("the repository itself was not deleted: {}", text::path(path)),
        Event::SnapshotDeleted(name) => {
            format!("the snapshot {} was deleted meanwhile: the rest of it was not verified", shown(OsStr::new(name)))
        }
        Event::SnapshotNotMeasured(name) => {
            format!("the snapshot {} was deleted meanwhile: it is not included", shown(OsStr::new(name)))
        }
        Event::PositionNotRecorded(failure) => {
            let remedy = match failure.code() {
                "no-space" => "free some space",
                "read-only" => "make the repository writable, or verify everything, without --read",
                _ => "verify as a user who can write to the repository, or without --read",
            };
            format!("{}, so the next run reads the same part again: {remedy}", error(failure))
        }
        Event::Stray { path, more, missing } => {
            let hint = match missing {
                Some(name) => format!(
                    "the snapshot {} has no tree: if this is its tree, give it that name again",
                    shown(OsStr::new(name))
                ),
                None => "if it was one, restore its manifest or delete the directory".into(),
            };
            let path = text::path(path);
            match more {
                0 => format!("{path} has no manifest, so it is not a snapshot: {hint}"),
                _ => format!("{path} and {} more have no manifest, so they are not snapshots: {hint}", count(more)),
            }
        }
        Event::OtherTree { path, more } => {
            let path = text::path(path);
            match more {
                0 => format!(
                    "{path} is not the tree of its snapshot: move the tree back here, or delete {path} to give up \
                     the snapshot"
                ),
                _ => format!(
                    "{path} and {} more are not the trees of their snapshots: move the trees back to these places, \
                     or delete these entries to give up the snapshots",
                    count(more)
                ),
            }
        }
        Event::DatedAhead { snapshots, latest, created } => {
            let what = counted(snapshots, "snapshot");
            let latest = shown(OsStr::new(latest));
            format!(
                "{what} dated in the future, up to {created} ({latest}): no rule counts or removes these; \
                 if the clock was wrong, remove them"
            )
        }
        Event::NotKept { what, entries, first } => not_kept(what, entries, first),
        Event::OutputHeldOpen(program) => {
            let program = shown(program);
            format!(
                "{program} has exited with status 0, but another process holds its output open; waiting for it to end"
            )
        }
        Event::LinkFollowed { link, target } => {
            format!("{} is a symbolic link; replacing the file behind it: {}", text::path(link), text::path(target))
        }
        Event::OtherNames { path, names } => {
            let others = counted(names, "other name");
            format!("{} has {others} (hard links), which keep the old content", text::path(path))
        }
        Event::NothingShared { path, base, why } => {
            let base = base.map_or_else(|| "its last version".into(), text::path);
            format!("{} shares nothing with {base} and was written completely: {why}", text::path(path))
        }
        Event::FilesystemSkipped { path, filesystem } => {
            format!("skipped {}: {filesystem} cannot share extents", text::path(path))
        }
        Event::FileSkipped { path, why } => format!("skipped {} ({})", text::path(path), reasons::skip(why)),
        Event::CacheOutdated => {
            "the cache describes another state of a filesystem, which may have been reset: comparing all files again"
                .into()
        }
        Event::CacheReplaced { path, why } => {
            let why = reasons::cache_fault(why);
            format!("the cache {} {why}: replacing it, and comparing all files again", text::path(path))
        }
        Event::CacheHomeless => "keeping no cache for the next run: neither XDG_CACHE_HOME nor HOME is set".into(),
        Event::LengthsEstimated => {
            "the length of compressed data on disk is estimated by its uncompressed length: only root can read it"
                .into()
        }
        Event::NotFreed(failure) => format!("{}: its space is not freed", error(failure)),
        Event::NotShared { bytes, why } => {
            format!("{} of equal data is not shared: {}", size(bytes), reasons::pinned(why))
        }
        Event::IndexSampled { one_in, run_bytes } => {
            format!("the index has room for one block in {one_in}: runs shorter than {} may be missed", size(run_bytes))
        }
        Event::SharersUnknown(failure) => format!("cannot find out whether other files share: {}", error(failure)),
        Event::NoReverseMap { inodes } => {
            let inodes = counted(inodes, "inode");
            format!("this XFS has no reverse map (mkfs.xfs -m rmapbt=1): reading the extents of all its {inodes}")
        }
        Event::SnapshotNotSent(name) => {
            format!("the snapshot {} was deleted meanwhile: it was not sent", shown(OsStr::new(name)))
        }
        Event::SameFilesystem(path) => format!(
            "{} is on the same filesystem as the repository: if that disk breaks, both are lost",
            text::path(path)
        ),
        Event::ReplicaInSource { path, snapshot } => format!(
            "the replica {} is in a source of the snapshot {}, which has a copy of it: exclude it, with `snapshot \
             --exclude {}`",
            text::path(path),
            shown(OsStr::new(snapshot)),
            text::path(path)
        ),
        Event::OtherHost { host, line } => format!("{host}: {line}"),
        Event::CallsNotCounted { cause } => format!("cannot count system calls here (seccomp): {cause}"),
    }
}

fn shown(name: &OsStr) -> String {
    text::path(Path::new(name))
}

fn missing(paths: &[PathBuf]) -> String {
    match paths {
        [path] => text::path(path),
        _ => "some of these paths".into(),
    }
}

fn unmatched(patterns: &[&str], more: usize, relative: bool, source: bool) -> String {
    let subject = if patterns.len() + more == 1 { "this pattern" } else { "these patterns" };
    let named = patterns.join(", ");
    let more = if more > 0 { format!(" and {} more", count(more as u64)) } else { String::new() };
    let source = if source { "a source is never excluded; " } else { "" };
    let why = "entries below an excluded directory are not looked at";
    let also =
        if relative { "; a path that does not begin with '/' is relative to the top of each source" } else { "" };
    format!("{subject} matched nothing: {named}{more} ({source}{why}{also})")
}

fn not_kept(what: &str, entries: u64, first: &Path) -> String {
    let first = text::path(first);
    match entries {
        1 => format!("only root may set the {what}: not kept for {first}"),
        _ => format!("only root may set the {what}: not kept for {} entries, the first is {first}", count(entries)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{CacheFault, EngineRefusal, Pinned, Skip};

    #[test]
    fn events_become_one_sentence_each() {
        let path = Path::new("/a\n");
        let sentences = [
            event(&Event::RepositorySkipped(path)),
            event(&Event::OtherNames { path, names: 2 }),
            event(&Event::ReplicaInSource { path: Path::new("/a/to"), snapshot: "one" }),
            event(&Event::NotKept { what: "project id", entries: 1, first: path }),
            event(&Event::NotKept { what: "project id", entries: 2000, first: path }),
            event(&Event::EngineRefused { engine: "uring", why: EngineRefusal::RingForbidden, next: Some("sendfile") }),
            event(&Event::FileSkipped { path, why: Skip::Sparse }),
            event(&Event::NotShared { bytes: 4096, why: Pinned::Held }),
            event(&Event::CacheReplaced { path, why: &CacheFault::Truncated }),
            event(&Event::UnmatchedPatterns { patterns: &["*.o"], more: 0, relative: false, source: false }),
            event(&Event::UnmatchedPatterns { patterns: &["a", "b/c"], more: 1200, relative: true, source: true }),
        ];
        assert_eq!(
            sentences,
            [
                "skipped the repository itself: '/a\\n'",
                "'/a\\n' has 2 other names (hard links), which keep the old content",
                "the replica /a/to is in a source of the snapshot one, which has a copy of it: exclude it, with \
                 `snapshot --exclude /a/to`",
                "only root may set the project id: not kept for '/a\\n'",
                "only root may set the project id: not kept for 2,000 entries, the first is '/a\\n'",
                "uring cannot copy here: io_uring is unavailable, forbidden by sysctl kernel.io_uring_disabled or a \
                 filter; using sendfile instead",
                "skipped '/a\\n' (nearly nothing but holes)",
                "4.0 KiB of equal data is not shared: held by something outside the given paths, such as a snapshot",
                "the cache '/a\\n' is cut short: replacing it, and comparing all files again",
                "this pattern matched nothing: *.o (entries below an excluded directory are not looked at)",
                "these patterns matched nothing: a, b/c and 1,200 more (a source is never excluded; entries below an \
                 excluded directory are not looked at; a path that does not begin with '/' is relative to the top of \
                 each source)",
            ]
        );
    }

    #[test]
    fn an_error_names_the_option_that_helps() {
        let failed = Error::failed("replace").at("/a").hint("the input is empty").advise(Advice::AllowEmptyInput);
        assert_eq!(error(&failed), "cannot replace /a (the input is empty; use --allow-empty to replace it)");
        assert_eq!(failed.to_string(), "cannot replace /a (the input is empty)");
        let event = Event::Accepted(&failed);
        assert_eq!((event.code(), event.path()), ("failed", Some(Path::new("/a"))));
    }
}
