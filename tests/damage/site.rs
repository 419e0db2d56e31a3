//! Repositories to be damaged: each is a copy of a sound one that is made once.

use crate::harness::*;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The snapshots, oldest first.
pub(super) const NAMES: [&str; 3] = ["one", "two", "three"];

const MIB: u64 = 1 << 20;

/// The sources, a sound repository, and the copy of it that is damaged.
pub(super) struct Site<'a> {
    fs: &'a Filesystem,
    _other_fs: Filesystem,
    pub(super) source: PathBuf,
    /// A source on another filesystem.
    pub(super) elsewhere: PathBuf,
    sound: PathBuf,
    pub(super) repo: PathBuf,
    /// The trees of all snapshots that are in the repository or may come into it, as they were made.
    trees: BTreeMap<&'static str, PathBuf>,
}

impl Site<'_> {
    /// Three snapshots of two sources, a killed snapshot, and a state of the sources that no snapshot has.
    #[track_caller]
    pub(super) fn new(fs: &Filesystem) -> Site<'_> {
        let other_fs = fs.elsewhere();
        let (source, sound) = (fs.dir("source"), fs.join("sound"));
        let elsewhere = other_fs.dir("from-elsewhere");
        write(source.join("file"), &bytes(1, 9000));
        write(source.join("tiny file"), b"tiny");
        // Large enough for a list of hashes.
        write(source.join("large"), &bytes(2, 9 << 20));
        fs.dir("source/equal files");
        ["a", "b"].iter().for_each(|name| write(source.join("equal files").join(name), &bytes(3, 200_000)));
        symlink("file", source.join("link")).unwrap();
        fs::hard_link(source.join("file"), source.join("second name")).unwrap();
        tools::tool("mkfifo", &[], &source.join("pipe"));
        ["file a", "file b"].iter().for_each(|name| write(elsewhere.join(name), &bytes(4, 300_000)));
        let mut site =
            Site { fs, _other_fs: other_fs, source, elsewhere, sound, repo: fs.join("repo"), trees: BTreeMap::new() };
        site.make_repository();
        site.make_inputs();
        // No snapshot has these. The run that takes the first one is killed.
        write(site.source.join("new file"), &bytes(5, 9000));
        overwrite(&site.file_elsewhere(), 100_000, b"changed");
        settle();
        site.kill_a_run();
        site
    }

    /// A run is killed when it has made everything and syncs it.
    fn kill_a_run(&self) {
        let mut args = snapshot_named("stopped", &self.source, &self.sound).to_vec();
        args.insert(1, self.elsewhere.as_os_str());
        let left = self.sound.join(".pleach/partial/stopped");
        // It also syncs when it begins.
        let is_left = (1..4).any(|nth| {
            tools::killed_at("syncfs", nth, &args);
            left.join("finished").exists()
        });
        assert!(is_left && !self.sound.join("stopped").exists());
        assert!(left.join("tree").join(self.below_root(&self.file_elsewhere())).exists());
    }

    fn take(&self, name: &str, repo: &Path) {
        settle();
        let mut args = snapshot_named(name, &self.source, repo).to_vec();
        args.insert(1, self.elsewhere.as_os_str());
        pleach(args).expect(0);
    }

    fn make_repository(&mut self) {
        for (number, name) in NAMES.into_iter().enumerate() {
            self.take(name, &self.sound);
            self.trees.insert(name, self.sound.join(name));
            overwrite(&self.large(), (2 + 2 * number as u64) * MIB, name.as_bytes());
            write(self.source.join(format!("file of {name}")), &bytes(10 + number as u64, 30_000));
        }
        let sound = self.sound.as_os_str();
        pleach(["tag".as_ref(), sound, "two".as_ref(), "+tagged".as_ref()]).expect(0);
        pleach(["du".as_ref(), "--snapshots".as_ref(), sound]).expect(0);
    }

    /// The other input of commands.
    fn make_inputs(&mut self) {
        // A later snapshot, of a repository that has the same three.
        let later = self.fs.join("later");
        self.copy(&later);
        self.take("four", &later);
        let stream = |base: &[&str], to: &Path| {
            let mut send = command(["send"]);
            let run = send.arg(&later).arg("four").args(base).stdout(File::create(to).unwrap());
            finish(run).expect(0);
        };
        stream(&[], &self.stream());
        stream(&["--base", "three"], &self.based_stream());
        self.trees.insert("four", later.join("four"));
        pleach([
            "snapshot".as_ref(),
            "--name".as_ref(),
            "five".as_ref(),
            self.source.as_os_str(),
            self.other().as_ref(),
        ])
        .expect(0);
        self.trees.insert("five", self.other().join("five"));
        fs::create_dir(self.old()).unwrap();
        write(self.old().join("file"), b"old");
        self.copy(&self.repo);
        pleach(["dedupe".as_ref(), "--cache".as_ref(), self.cache().as_os_str(), self.repo.as_ref()]).expect(0);
        let text = format!(
            "repository = {:?}\n[snapshot]\nsources = [{:?}, {:?}]\n[prune]\nkeep_last = 2\n",
            self.repo, self.source, self.elsewhere
        );
        write(self.profile(), text.as_bytes());
        fs::set_permissions(self.profile(), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(self.kept()).unwrap();
        for input in self.inputs() {
            fs::copy(&input, self.kept().join(input.file_name().unwrap())).unwrap();
        }
    }

    fn inputs(&self) -> [PathBuf; 4] {
        [self.stream(), self.based_stream(), self.profile(), self.cache()]
    }

    /// Copies the sound repository. Subvolumes stay subvolumes that the manifests know.
    fn copy(&self, to: &Path) {
        fs::create_dir(to).unwrap();
        fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
        let (trees, rest): (Vec<String>, Vec<String>) = names(&self.sound)
            .into_iter()
            .partition(|name| name != "latest" && tools::is_subvolume(&self.sound.join(name)));
        let rest = rest.iter().map(|name| self.sound.join(name));
        finish(Command::new("cp").args(["-a", "--reflink=auto"]).args(rest).arg(to)).expect(0);
        for name in trees {
            let tree = to.join(&name);
            let mut snapshot = Command::new("btrfs");
            finish(snapshot.args(["subvolume", "snapshot", "-r"]).arg(self.sound.join(&name)).arg(&tree)).expect(0);
            let manifest = manifests::manifest(to, &name);
            let mut known = [0; 100];
            let length = rustix::fs::getxattr(&manifest, KNOWN, &mut known).expect("the manifest knows its subvolume");
            let id = uuid(&tree);
            known[..id.len()].copy_from_slice(id.as_bytes());
            rustix::fs::setxattr(&manifest, KNOWN, &known[..length], rustix::fs::XattrFlags::REPLACE).unwrap();
        }
    }

    /// Makes a sound copy again, and removes all results.
    pub(super) fn renew(&self) {
        self.clear();
        remove(&self.repo);
        self.copy(&self.repo);
    }

    /// Makes sound inputs again.
    pub(super) fn renew_inputs(&self) {
        for input in self.inputs() {
            let kept = self.kept().join(input.file_name().unwrap());
            remove(&input);
            fs::copy(kept, &input).unwrap();
        }
    }

    /// Removes the results of commands outside of the repository.
    pub(super) fn clear(&self) {
        remove(&self.target());
    }

    pub(super) fn kind(&self) -> Kind {
        self.fs.kind
    }

    pub(super) fn file(&self) -> PathBuf {
        self.source.join("file")
    }

    pub(super) fn large(&self) -> PathBuf {
        self.source.join("large")
    }

    pub(super) fn file_elsewhere(&self) -> PathBuf {
        self.elsewhere.join("file a")
    }

    /// Where commands write.
    pub(super) fn target(&self) -> PathBuf {
        self.fs.join("target")
    }

    pub(super) fn stream(&self) -> PathBuf {
        self.fs.join("stream")
    }

    pub(super) fn based_stream(&self) -> PathBuf {
        self.fs.join("based-stream")
    }

    pub(super) fn profile(&self) -> PathBuf {
        self.fs.join("profile.toml")
    }

    pub(super) fn cache(&self) -> PathBuf {
        self.fs.join("cache")
    }

    /// Another repository, with a snapshot.
    pub(super) fn other(&self) -> PathBuf {
        self.fs.join("other")
    }

    /// A backup to be adopted.
    pub(super) fn old(&self) -> PathBuf {
        self.fs.join("old")
    }

    fn kept(&self) -> PathBuf {
        self.fs.join("kept")
    }

    /// The tree of a snapshot as it was made.
    pub(super) fn tree(&self, name: &str) -> &Path {
        &self.trees[name]
    }

    /// An absolute path, without the slash at its beginning.
    pub(super) fn below_root(&self, path: &Path) -> PathBuf {
        path.strip_prefix("/").expect("sources are absolute").to_path_buf()
    }
}

/// The UUID of a subvolume. Beside other tests, `btrfs` may print it and then fail to list the snapshots.
fn uuid(subvolume: &Path) -> String {
    let shown = finish(Command::new("btrfs").args(["subvolume", "show"]).arg(subvolume)).stdout;
    let line = shown.lines().find_map(|line| line.trim().strip_prefix("UUID:")).expect("a subvolume has a UUID");
    line.trim().replace('-', "")
}

/// The attribute of a manifest that names its subvolume.
const KNOWN: &str = "user.pleach.tree";

fn remove(path: &Path) {
    if let Ok(status) = fs::symlink_metadata(path) {
        let is_dir = status.is_dir();
        if is_dir && rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type == libc::BTRFS_SUPER_MAGIC) {
            tools::let_be_removed(path);
        }
        // Without a process of its own: this happens thousands of times.
        let removed = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
