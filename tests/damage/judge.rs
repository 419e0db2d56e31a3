//! What a command may do after damage: fail with a reason, or succeed with the result of a sound repository, or with
//! another one that it says something about.

use super::commands::Command;
use super::kinds::Damage;
use super::objects::Object;
use super::site::{NAMES, Site};
use crate::harness::tree_state::TreeState;
use crate::harness::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The exit statuses that pleach documents. The limit on time ends a run with 124.
const STATUSES: [i32; 6] = [0, 1, 2, 3, 4, 11];

/// A finished run after damage.
pub(super) struct Case<'a> {
    pub(super) site: &'a Site<'a>,
    pub(super) object: Object,
    pub(super) damage: Damage,
    pub(super) command: Command,
    /// The run, and the same command in the sound repository.
    pub(super) run: &'a Run,
    pub(super) sound: &'a Run,
    /// The trees right before the run.
    pub(super) before: &'a Trees,
}

/// The trees in the repository: what `lstat` shows of each entry. Any write to an entry changes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Trees(BTreeMap<String, Vec<String>>);

impl Trees {
    pub(super) fn of(repo: &Path) -> Trees {
        let trees = published(repo).into_iter().map(|name| (name.clone(), repo.join(name)));
        Trees(trees.filter(|(_, path)| path.is_dir()).map(|(name, path)| (name, states(&path))).collect())
    }
}

/// The state of each entry without the number of its blocks: damage may not be on the disk yet.
fn states(tree: &Path) -> Vec<String> {
    let without_blocks = |line: String| {
        let (before, after) = line.split_once(" blocks ").expect("the number of blocks is there");
        format!("{before} {}", after.split_once(' ').expect("times follow").1)
    };
    tools::inventory(tree).into_iter().map(without_blocks).collect()
}

impl Case<'_> {
    /// Why the command cannot see the damage: it passes on content that it does not read, as documented. `verify` must
    /// find the damage in what it made.
    fn is_not_read(&self) -> Option<&'static str> {
        if self.damage != Damage::BitFlipped || !self.object.is_in_tree() {
            return None;
        }
        match (self.command, self.object) {
            (Command::RestoreLatest, _) => Some("a restored file is a clone, which only --verify reads"),
            (Command::ReceiveBased, _) => Some("a file that is the same in the base is a clone of that"),
            (Command::Send, _) => Some("the receiver compares content with its hash"),
            (Command::Snapshot | Command::FullWalk | Command::Run, Object::UnchangedFromElsewhere) => {
                Some("an unchanged file on another filesystem is not opened; the last copy is cloned")
            }
            _ => None,
        }
    }

    /// Everything that is wrong with the run.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let run = self.run;
        if !STATUSES.contains(&run.status) || run.stderr.contains("panicked") {
            faults.push("it ended in no orderly way".into());
        }
        if run.status != 0 && run.stderr.is_empty() && !run.stdout.contains("damage") {
            faults.push("it failed without a reason".into());
        }
        if run.status != 0 && self.object.can_be_spared(self.damage) {
            faults.push("it failed because of something that can be spared".into());
        }
        self.check_trees(&mut faults);
        match run.status {
            0 => self.check_success(&mut faults),
            _ => self.check_failure(&mut faults),
        }
        faults
    }

    /// Whether a difference is damage that the command did not read. `verify` finds it in a new snapshot.
    fn is_passed_on(&self) -> bool {
        let new = published(&self.site.repo).into_iter().find(|name| !self.before.0.contains_key(name));
        self.is_not_read().is_some() && new.is_none_or(|name| self.verified(&name).status == 4)
    }

    fn verified(&self, name: &str) -> Run {
        pleach(["verify".as_ref(), "-q".as_ref(), self.site.repo.as_os_str(), name.as_ref()])
    }

    /// No tree changes, and none goes that may not.
    fn check_trees(&self, faults: &mut Vec<String>) {
        let after = Trees::of(&self.site.repo);
        for (name, tree) in &self.before.0 {
            match after.0.get(name) {
                None if self.command.may_remove().contains(&name.as_str()) => {}
                None => faults.push(format!("the tree of {name} is lost")),
                // These give inodes other extents, or replace them.
                Some(_) if matches!(self.command, Command::Dedupe | Command::Repair) => {
                    let is_damaged = self.object.snapshot() == Some(name.as_str());
                    if !is_damaged && let Some(sound) = self.sound_tree(name) {
                        self.check_tree("a sound tree", &self.site.repo.join(name), sound, faults);
                    }
                }
                Some(now) if now != tree => faults.push(format!("the tree of {name} changed")),
                Some(_) => {}
            }
        }
        let new = after.0.keys().filter(|name| !self.before.0.contains_key(*name));
        let new: Vec<&String> = new.collect();
        for name in &new {
            let tree = self.site.repo.join(name);
            if self.command.takes_snapshot() {
                for source in [&self.site.source, &self.site.elsewhere] {
                    self.check_tree("the new snapshot", &inside(&self.site.repo, name, source), source, faults);
                }
                self.check_record(name, faults);
            } else if let Some(sound) = self.sound_tree(name) {
                self.check_tree("the tree that arrived", &tree, sound, faults);
            } else if self.command != Command::Adopt {
                faults.push(format!("a tree {name} that nobody wanted"));
            }
        }
        let adds = self.command.takes_snapshot()
            || matches!(
                self.command,
                Command::Receive | Command::ReceiveBased | Command::ReplicateHere | Command::Adopt
            );
        if adds && [0, 3].contains(&self.run.status) && new.is_empty() {
            faults.push("nothing was added".into());
        }
        if matches!(self.command, Command::Prune | Command::Run) && !self.has_sound_snapshot(&after) {
            faults.push("no sound snapshot is left".into());
        }
    }

    fn sound_tree(&self, name: &str) -> Option<&Path> {
        ["one", "two", "three", "four", "five"].contains(&name).then(|| self.site.tree(name))
    }

    /// A snapshot with a sound manifest is left: trees are for `verify`.
    fn has_sound_snapshot(&self, trees: &Trees) -> bool {
        self.object.is_in_tree() || trees.0.keys().any(|name| self.object.snapshot() != Some(name.as_str()))
    }

    /// The manifest of a new snapshot describes it.
    fn check_record(&self, name: &str, faults: &mut Vec<String>) {
        let verified = self.verified(name);
        if verified.status != 0 && self.is_not_read().is_none() {
            faults.push(format!("the new snapshot is damaged: {}{}", verified.stdout, verified.stderr));
        }
    }

    fn check_tree(&self, what: &str, tree: &Path, wanted: &Path, faults: &mut Vec<String>) {
        if !tree.exists() {
            faults.push(format!("{what} lacks {}", wanted.display()));
            return;
        }
        let differences = TreeState::of(wanted).differences(&TreeState::of(tree));
        if !differences.is_empty() && !self.is_passed_on() {
            faults.push(format!("{what} is another one: {differences}"));
        }
    }

    /// Whether the run says more than that in the sound repository, or need not: to delete a tree is the documented way
    /// to delete a snapshot by hand.
    fn says_so(&self) -> bool {
        if self.is_deleted_by_hand() {
            return true;
        }
        let known: Vec<&str> = self.sound.stderr.lines().collect();
        self.run.stderr.lines().any(|line| !known.contains(&line))
    }

    fn check_success(&self, faults: &mut Vec<String>) {
        let Case { site, command, run, sound, .. } = *self;
        let repo = &site.repo;
        match command {
            // They show times and figures of the disk, which differ. A snapshot may not be missing without a word.
            Command::List | Command::Du => {
                let missing = NAMES.iter().find(|name| !run.stdout.contains(**name));
                if let Some(name) = missing.filter(|_| !self.says_so()) {
                    faults.push(format!("{name} is missing without a word"));
                }
            }
            Command::Find | Command::Log | Command::Diff | Command::DiffLive
                if run.stdout != sound.stdout && !self.says_so() =>
            {
                faults.push(format!("another output without a word: {}", run.stdout));
            }
            Command::Cat | Command::CatLatest if run.stdout != sound.stdout => {
                faults.push("another content".into());
            }
            Command::Verify if self.object.snapshot().is_some() && !self.is_deleted_by_hand() => {
                faults.push("the damage is not found".into());
            }
            Command::Repair => {
                let damaged = self.object.snapshot().filter(|_| !self.is_deleted_by_hand());
                if let Some(name) = damaged {
                    self.check_tree("the repaired tree", &repo.join(name), site.tree(name), faults);
                }
            }
            Command::Restore | Command::RestoreLatest => {
                let name = if command == Command::Restore { "two" } else { "three" };
                for source in [&site.source, &site.elsewhere] {
                    let restored = site.target().join(site.below_root(source));
                    let wanted = site.tree(name).join(site.below_root(source));
                    self.check_tree("the restored tree", &restored, &wanted, faults);
                }
            }
            Command::Replicate => {
                let missing = NAMES.iter().find(|name| !site.target().join(name).exists());
                if let Some(name) = missing.filter(|_| !self.says_so()) {
                    faults.push(format!("{name} did not arrive, without a word"));
                }
                self.check_replica(faults);
            }
            Command::Send if run.stdout != sound.stdout && !self.is_passed_on() => {
                faults.push("another stream".into());
            }
            Command::Copy => {
                let (copy, original) = (site.target(), tree_file(self.object, site));
                if original.is_dir() {
                    self.check_tree("the copy", &copy, &original, faults);
                } else if !is_same_file(&copy, &original) {
                    faults.push("another copy".into());
                }
            }
            Command::Put if fs::read(site.target()).ok() != fs::read(site.file()).ok() => {
                faults.push("another content".into());
            }
            Command::Tag | Command::Pin | Command::Unpin => {
                let wanted = match command {
                    Command::Tag => ("tags", "new"),
                    Command::Pin => ("pinned", "true"),
                    _ => ("pinned", "false"),
                };
                let list = pleach(["list".as_ref(), "--json".as_ref(), repo.as_os_str()]).json();
                let row = list.iter().find(|line| line["name"] == "two");
                if row.is_none_or(|row| !row[wanted.0].to_string().contains(wanted.1)) {
                    faults.push(format!("the mark is not there: {row:?}"));
                }
            }
            Command::Report if !site.target().exists() => {
                faults.push("there is no report".into());
            }
            Command::Remove if repo.join("two").is_dir() => {
                faults.push("it is still there".into());
            }
            _ => {}
        }
    }

    /// What a failed or incomplete run leaves is right as far as it goes.
    fn check_failure(&self, faults: &mut Vec<String>) {
        match self.command {
            Command::Restore | Command::RestoreLatest => {
                let name = if self.command == Command::Restore { "two" } else { "three" };
                self.check_files(&self.site.target(), self.site.tree(name), faults);
            }
            Command::Replicate => self.check_replica(faults),
            Command::Put if self.site.target().exists() => {
                faults.push("it failed and left a file".into());
            }
            _ => {}
        }
    }

    /// Every snapshot that arrived is the one that was sent.
    fn check_replica(&self, faults: &mut Vec<String>) {
        for name in NAMES {
            let arrived = self.site.target().join(name);
            if arrived.exists() {
                self.check_tree("the tree that arrived", &arrived, self.site.tree(name), faults);
            }
        }
    }

    /// Each file below `dir` has the content of the one below `wanted`.
    fn check_files(&self, dir: &Path, wanted: &Path, faults: &mut Vec<String>) {
        if !dir.exists() {
            return;
        }
        for file in tools::files(dir) {
            let original = wanted.join(file.strip_prefix(dir).expect("it is below"));
            if !is_same_file(&file, &original) {
                faults.push(format!("another content: {}", file.display()));
            }
        }
    }

    /// To delete a tree is the documented way to delete a snapshot by hand.
    fn is_deleted_by_hand(&self) -> bool {
        self.object == Object::Tree && self.damage == Damage::Deleted
    }
}

/// Whether two entries have the same type, length and content. The content of one that is too long is not read.
fn is_same_file(a: &Path, b: &Path) -> bool {
    let [Ok(of_a), Ok(of_b)] = [a, b].map(fs::symlink_metadata) else { return false };
    let is_like = of_a.file_type() == of_b.file_type() && of_a.len() == of_b.len();
    let is_read = of_a.is_file() && of_a.len() < 1 << 30;
    is_like && (!is_read || fs::read(a).ok() == fs::read(b).ok())
}

/// The file or directory of a tree that commands get which know nothing of repositories.
pub(super) fn tree_file(object: Object, site: &Site) -> PathBuf {
    match object.is_in_tree() {
        true => object.path(site),
        false => inside(&site.repo, "two", &site.file()),
    }
}
