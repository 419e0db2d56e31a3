//! A filesystem with a source, a repository and copies, and the model of all of them.

use super::Action;
use crate::harness::edits::Tree;
use crate::harness::own::Own;
use crate::harness::random::Random;
use crate::harness::tree_state::TreeState;
use crate::harness::*;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The most that metadata changes the used space meanwhile.
const METADATA: u64 = 1 << 20;

/// A source and everything that is made from it, with the state that each must have.
pub(super) struct World {
    kind: Kind,
    own: Own,
    /// Another filesystem, for the replica and the cache.
    other: Own,
    source: Tree,
    state: TreeState,
    /// The snapshots in the repository. The order of their names is that of their creation.
    snapshots: BTreeMap<String, TreeState>,
    replicas: BTreeMap<String, TreeState>,
    copies: BTreeMap<PathBuf, TreeState>,
    puts: BTreeMap<PathBuf, Vec<u8>>,
}

impl World {
    /// An empty repository and a small source. `None` if nothing can be mounted.
    pub(super) fn new(kind: Kind, test: &str) -> Option<World> {
        let (own, other) = (Own::new(kind, test, 512, &[], "")?, Own::new(Kind::XfsOther, test, 400, &[], "")?);
        let source = Tree::new(kind, own.join("source"), Random(1));
        for name in ["copies", "puts"] {
            fs::create_dir(own.join(name)).expect("a directory can be made");
        }
        let state = TreeState::of(&source.top);
        let (snapshots, replicas, copies, puts) = Default::default();
        Some(World { kind, own, other, source, state, snapshots, replicas, copies, puts })
    }

    /// Takes a step, and compares everything with the model.
    #[track_caller]
    pub(super) fn take(&mut self, number: usize, action: Action, mut choice: Random) {
        self.source.done.clear();
        match action {
            Action::Edit => self.edit(choice),
            Action::Snapshot => self.snapshot(&format!("s{number:04}"), &mut choice),
            Action::Dedupe => self.dedupe(&mut choice),
            Action::Put => self.put(&mut choice),
            Action::Copy => self.copy(number),
            Action::Prune => self.prune(&mut choice),
            Action::Remove => self.remove(&mut choice),
            Action::Restore => self.restore(&mut choice),
            Action::Replicate => self.replicate(),
            Action::Verify => self.verify(),
        }
        self.check(&format!("step {number}, {action:?} {:?}", self.source.done));
    }

    /// Takes a last snapshot, which rsync compares. The filesystem must be sound.
    pub(super) fn end(mut self) {
        self.snapshot("z", &mut Random(0));
        if self.kind != Kind::Btrfs {
            tools::assert_equal_trees(&self.source.top, &inside(&self.repo(), "latest", &self.source.top));
        }
        self.verify();
        self.own.assert_clean();
        self.other.assert_clean();
    }

    fn repo(&self) -> PathBuf {
        self.own.join("repo")
    }

    fn replica(&self) -> PathBuf {
        self.other.join("replica")
    }

    fn any_snapshot(&self, choice: &mut Random) -> Option<String> {
        self.snapshots.keys().nth(choice.below(self.snapshots.len())).cloned()
    }

    fn edit(&mut self, mut choice: Random) {
        let changes = 1 + choice.below(8);
        self.source.random = choice;
        (0..changes).for_each(|_| self.source.change());
        self.state = TreeState::of(&self.source.top);
    }

    fn snapshot(&mut self, name: &str, choice: &mut Random) {
        settle();
        let mut snapshot = command(snapshot_named(name, &self.source.top, &self.repo()));
        snapshot.args(["--full-walk"].iter().filter(|_| choice.below(4) == 0));
        let summary = finish(&mut snapshot).expect(0).summary();
        if self.kind != Kind::Ext4 {
            assert_eq!(number(&summary, "copied_bytes"), 0, "everything can be cloned: {summary}");
        }
        self.snapshots.insert(name.into(), self.state.clone());
    }

    fn dedupe(&mut self, choice: &mut Random) {
        if self.kind == Kind::Ext4 {
            return;
        }
        let mut dedupe = command(["dedupe", "--json", "--min-run=4K"]);
        match choice.below(3) {
            0 => dedupe.arg("--no-cache"),
            _ => dedupe.arg("--cache").arg(self.other.join("cache")),
        };
        dedupe.args([&self.source.top, &self.own.join("copies"), &self.own.join("puts")]);
        let before = self.own.used();
        let summary = finish(&mut dedupe).expect(0).summary();
        self.assert_freed(before, number(&summary, "freed_bytes"), "dedupe");
    }

    fn put(&mut self, choice: &mut Random) {
        let path = self.own.join("puts").join(choice.below(3).to_string());
        let content = match self.puts.get(&path) {
            Some(content) if choice.below(4) > 0 => content.clone(),
            _ => bytes(choice.below(1 << 30) as u64, 1 + choice.below(600_000)),
        };
        let (at, new) = (choice.below(content.len()), bytes(choice.below(1 << 30) as u64, 1 + choice.below(20_000)));
        let end = match choice.below(3) {
            // In the place of as much, inserted, or in the place of everything behind it.
            0 => content.len().min(at + new.len()),
            1 => at,
            _ => content.len(),
        };
        let content = [&content[..at], &new, &content[end..]].concat();
        let input = self.other.join("input");
        write(&input, &content);
        let stdin = File::open(&input).expect("a file can be opened");
        finish(command([OsStr::new("put"), path.as_os_str()]).stdin(stdin)).expect(0);
        self.puts.insert(path, content);
    }

    fn copy(&mut self, number: usize) {
        if self.copies.len() > 1
            && let Some((old, _)) = self.copies.pop_first()
        {
            tools::tool("rm", &["-rf"], &old).expect(0);
        }
        let to = self.own.join("copies").join(format!("{number:04}"));
        pleach(["copy".as_ref(), self.source.top.as_os_str(), to.as_os_str()]).expect(0);
        self.copies.insert(to, self.state.clone());
    }

    fn prune(&mut self, choice: &mut Random) {
        let kept = 1 + choice.below(4);
        if self.snapshots.is_empty() {
            return;
        }
        let before = self.own.used();
        let args: [OsString; 4] =
            ["prune".into(), "--json".into(), format!("--keep-last={kept}").into(), self.repo().into()];
        let summary = pleach(args).expect(0).summary();
        while self.snapshots.len() > kept {
            self.snapshots.pop_first();
        }
        self.assert_freed(before, number(&summary, "freed_bytes"), "prune");
    }

    fn remove(&mut self, choice: &mut Random) {
        let Some(name) = self.any_snapshot(choice) else { return };
        let before = self.own.used();
        let repo = self.repo();
        let args = [OsStr::new("remove"), "--json".as_ref(), repo.as_os_str(), name.as_ref()];
        let summary = pleach(args).expect(0).summary();
        self.snapshots.remove(&name);
        self.assert_freed(before, number(&summary, "freed_bytes"), "remove");
    }

    /// Restores into a directory that has the files of earlier snapshots.
    fn restore(&mut self, choice: &mut Random) {
        let Some(name) = self.any_snapshot(choice) else { return };
        let (repo, to) = (self.repo(), self.own.join("restored"));
        let overwrite = ["--overwrite=if-different", "--overwrite=always"][choice.below(2)];
        let args = [OsStr::new("restore"), repo.as_os_str(), name.as_ref(), "--target".as_ref(), to.as_os_str()];
        pleach(args.into_iter().chain(["--delete".as_ref(), overwrite.as_ref()])).expect(0);
        let restored = to.join(self.source.top.strip_prefix("/").expect("a source is absolute"));
        assert_state(&self.snapshots[&name], &restored, "restored");
    }

    fn replicate(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let args: [OsString; 4] = ["replicate".into(), "--all".into(), self.repo().into(), self.replica().into()];
        pleach(args).expect(0);
        self.replicas.extend(self.snapshots.clone());
    }

    fn verify(&mut self) {
        let repos = [(self.repo(), self.snapshots.is_empty()), (self.replica(), self.replicas.is_empty())];
        for (repo, _) in repos.iter().filter(|(_, is_missing)| !is_missing) {
            pleach(["verify".as_ref(), repo.as_os_str()]).expect(0);
        }
        if self.kind == Kind::Btrfs {
            return;
        }
        // XFS allocates more for a changed block of a clone than it needs, and takes the rest back later.
        self.own.remount();
        let top = self.own.path();
        let run = pleach(["du".as_ref(), "--json".as_ref(), top.as_os_str()]).expect(0);
        let path = &run.lines_of_type("path")[0];
        let taken = number(path, "exclusive_bytes") + number(path, "shared_bytes");
        let of_files = disk_space::occupied_blocks(&[top]) as u64 * 4096;
        let rest = tools::paths(top).into_iter().filter_map(|path| fs::symlink_metadata(path).ok());
        let of_rest: u64 = rest.filter(|meta| !meta.is_file()).map(|meta| meta.blocks() * 512).sum();
        assert_eq!(taken, of_files + of_rest, "the bytes that du reports");
    }

    /// Asserts that the used space is less than before by what a command reported.
    #[track_caller]
    fn assert_freed(&mut self, before: u64, reported: u64, what: &str) {
        let after = self.own.used();
        let freed = before.saturating_sub(after);
        assert!(freed.abs_diff(reported) <= METADATA, "{what} reported {reported}, and {freed} bytes are free");
    }

    /// Compares everything with the model.
    #[track_caller]
    fn check(&self, what: &str) {
        assert_state(&self.state, &self.source.top, what);
        for (repo, model) in [(self.repo(), &self.snapshots), (self.replica(), &self.replicas)] {
            if !model.is_empty() {
                let names: Vec<&String> = model.keys().collect();
                assert_eq!(published(&repo).iter().collect::<Vec<_>>(), names, "the snapshots after {what}");
            }
            for (name, state) in model {
                assert_state(state, &inside(&repo, name, &self.source.top), what);
            }
        }
        for (copy, state) in &self.copies {
            assert_state(state, copy, what);
        }
        for (path, content) in &self.puts {
            assert!(fs::read(path).is_ok_and(|now| now == *content), "{} after {what}", path.display());
        }
        for repo in [self.repo(), self.replica()] {
            assert_no_leftovers(&repo);
        }
    }
}

#[track_caller]
fn assert_state(state: &TreeState, path: &Path, what: &str) {
    let differences = state.differences(&TreeState::of(path));
    assert!(differences.is_empty(), "{} after {what}:\n{differences}", path.display());
}
