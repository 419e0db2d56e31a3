//! The things that are damaged.

use super::commands::Command;
use super::kinds::Damage;
use super::site::Site;
use crate::harness::{Kind, inside, names, tools};
use std::path::PathBuf;

/// Something that pleach keeps or reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Object {
    /// The manifest of `two`, a snapshot in the middle.
    Manifest,
    /// The manifest of `three`, the last snapshot.
    LastManifest,
    /// A file in the tree of `two`.
    TreeFile,
    /// A large file in the tree of `three`.
    LargeTreeFile,
    /// A file in the tree of `three`. Its source is on another filesystem, and has changed since.
    ChangedFromElsewhere,
    /// The same, but the source is unchanged.
    UnchangedFromElsewhere,
    /// The tree of `two`.
    Tree,
    /// The list of hashes of the large file.
    BlockHashes,
    Format,
    Lock,
    Latest,
    /// The tags of `two`.
    Marks,
    /// The map of `two`.
    Map,
    /// What the run of `three` saw.
    Seen,
    /// What `two` added.
    Added,
    /// All unfinished snapshots.
    StagingArea,
    /// A file of the unfinished snapshot.
    StagedFile,
    /// The manifest of the unfinished snapshot.
    StagedManifest,
    /// The list of its finished files.
    FinishedList,
    /// The cache of `dedupe`.
    DedupeCache,
    /// A stream with a whole snapshot.
    Stream,
    /// A stream with a snapshot that differs little from `three`.
    BasedStream,
    Profile,
}

impl Object {
    pub(super) const ALL: [Object; 23] = [
        Object::Manifest,
        Object::LastManifest,
        Object::TreeFile,
        Object::LargeTreeFile,
        Object::ChangedFromElsewhere,
        Object::UnchangedFromElsewhere,
        Object::Tree,
        Object::BlockHashes,
        Object::Format,
        Object::Lock,
        Object::Latest,
        Object::Marks,
        Object::Map,
        Object::Seen,
        Object::Added,
        Object::StagingArea,
        Object::StagedFile,
        Object::StagedManifest,
        Object::FinishedList,
        Object::DedupeCache,
        Object::Stream,
        Object::BasedStream,
        Object::Profile,
    ];

    /// Its path.
    pub(super) fn path(self, site: &Site) -> PathBuf {
        let control = |name: &str| site.repo.join(".pleach").join(name);
        match self {
            Object::Manifest => control("manifests/two"),
            Object::LastManifest => control("manifests/three"),
            Object::TreeFile => inside(&site.repo, "two", &site.file()),
            Object::LargeTreeFile => inside(&site.repo, "three", &site.large()),
            Object::ChangedFromElsewhere => inside(&site.repo, "three", &site.file_elsewhere()),
            Object::UnchangedFromElsewhere => inside(&site.repo, "three", &site.elsewhere.join("file b")),
            Object::Tree => site.repo.join("two"),
            Object::BlockHashes => {
                let lists = control("blocks/three");
                let [name] = &names(&lists)[..] else { panic!("there is one large file") };
                lists.join(name)
            }
            Object::Format => control("format"),
            Object::Lock => control("lock"),
            Object::Latest => site.repo.join("latest"),
            Object::Marks => control("marks/two"),
            Object::Map => control("usage/two"),
            Object::Seen => control("seen/three"),
            Object::Added => control("added/two"),
            Object::StagingArea => control("partial"),
            Object::StagedFile => control("partial/stopped/tree").join(site.below_root(&site.file_elsewhere())),
            Object::StagedManifest => control("partial/stopped/manifest"),
            Object::FinishedList => control("partial/stopped/finished"),
            Object::DedupeCache => site.cache(),
            Object::Stream => site.stream(),
            Object::BasedStream => site.based_stream(),
            Object::Profile => site.profile(),
        }
    }

    fn is_directory(self) -> bool {
        matches!(self, Object::Tree | Object::StagingArea)
    }

    /// Why it cannot be damaged in this way.
    pub(super) fn cannot_be(self, damage: Damage, kind: Kind) -> Option<&'static str> {
        match (self, damage) {
            (Object::Seen, _) if kind != Kind::Btrfs => Some("only subvolumes have one"),
            (_, Damage::Cut | Damage::BitFlipped | Damage::Enormous) if self.is_directory() => {
                Some("a directory has no content of its own")
            }
            (Object::Latest, Damage::Unreadable) => Some("a link has no permissions"),
            (Object::Stream | Object::BasedStream, Damage::Pipe) => Some("a stream may come from a pipe"),
            _ => None,
        }
    }

    /// Why the damage cannot matter to this command.
    pub(super) fn is_no_matter_for(self, command: Command) -> Option<&'static str> {
        match command {
            Command::FullWalk if ![Object::LastManifest, Object::Seen].contains(&self) => {
                return Some("it is snapshot, but takes nothing from the records of the last run");
            }
            Command::Put if self == Object::Tree => return Some("only a file can be the base of a file"),
            Command::Unpin if self != Object::Marks => return Some("it is pin with another value"),
            _ => {}
        }
        let is_for = |commands: &[Command], why| (!commands.contains(&command)).then_some(why);
        match self {
            Object::DedupeCache => is_for(&[Command::Dedupe], "only dedupe has a cache"),
            Object::Stream => is_for(&[Command::Receive], "only receive reads a stream"),
            Object::BasedStream => is_for(&[Command::ReceiveBased], "only receive reads a stream"),
            Object::Profile => is_for(&[Command::Run], "only run reads a profile"),
            _ if self.is_in_tree() => None,
            _ => match command {
                Command::Copy | Command::Put | Command::Fiemap | Command::DuOfPaths => {
                    Some("it is named a file of a tree, and reads nothing else")
                }
                _ => None,
            },
        }
    }

    /// The snapshot that it is a part of.
    pub(super) fn snapshot(self) -> Option<&'static str> {
        match self {
            Object::Manifest | Object::TreeFile | Object::Tree => Some("two"),
            Object::LastManifest
            | Object::LargeTreeFile
            | Object::ChangedFromElsewhere
            | Object::UnchangedFromElsewhere => Some("three"),
            _ => None,
        }
    }

    /// Whether commands succeed without it. What root may not read is an error all the same.
    pub(super) fn can_be_spared(self, damage: Damage) -> bool {
        match self {
            Object::BlockHashes | Object::Map | Object::Seen | Object::Added => damage != Damage::Unreadable,
            Object::StagedFile | Object::StagedManifest | Object::FinishedList => damage != Damage::Unreadable,
            Object::DedupeCache | Object::StagingArea => damage == Damage::Deleted,
            _ => false,
        }
    }

    /// Whether it is a tree or in one.
    pub(super) fn is_in_tree(self) -> bool {
        self.snapshot().is_some() && !matches!(self, Object::Manifest | Object::LastManifest)
    }

    /// Damages it. A tree that is a subvolume is read-only again afterwards.
    pub(super) fn inflict(self, damage: Damage, site: &Site) {
        let tree = self.snapshot().filter(|_| self.is_in_tree()).map(|name| site.repo.join(name));
        let subvolume = tree.filter(|tree| tools::is_subvolume(tree));
        subvolume.iter().for_each(|tree| tools::set_read_only(tree, false));
        damage.inflict(&self.path(site));
        subvolume.iter().filter(|tree| tools::is_subvolume(tree)).for_each(|tree| tools::set_read_only(tree, true));
    }
}
