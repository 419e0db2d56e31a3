//! Restoring: everything is restored exactly, and nothing else is touched.

mod attributes;
mod deep;
mod failed;
mod identical;
mod interrupted;
mod kept;
mod mounts;
mod power_cut;
mod report;
mod verify;

use crate::harness::tools::{assert_equal_trees, assert_same_blocks, differences, files, inventory};
use crate::harness::{Filesystem, Kind, bytes, command, finish, names, snapshot, tree, write};
use crate::on_filesystems;
use pleach::error::{ErrorKind, Result};
use pleach::monitor::{Change, Recording, Silent};
use pleach::snapshot::restore::{self, Options, Overwrite, Stats};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source with a snapshot, and an empty target.
struct Scene {
    source: PathBuf,
    repo: PathBuf,
    target: PathBuf,
}

impl Scene {
    fn new(fs: &Filesystem, fill: impl Fn(&Path)) -> Scene {
        let scene = Scene { source: fs.dir("source"), repo: fs.join("repo"), target: fs.dir("target") };
        fill(&scene.source);
        snapshot(&scene.source, &scene.repo);
        scene
    }

    fn options(&self) -> Options {
        Options { target: self.target.clone(), threads: Some(2), ..Options::default() }
    }

    /// The path in the target of a path in the source.
    fn inside(&self, path: &str) -> PathBuf {
        let source = self.target.join(self.source.strip_prefix("/").unwrap());
        if path.is_empty() { source } else { source.join(path) }
    }

    fn restore(&self, paths: &[&str], options: &Options) -> Result<Stats> {
        let paths: Vec<_> = paths.iter().map(|path| self.source.join(path)).collect();
        Ok(restore::restore(&self.repo, "latest", &paths, options, &Silent)?)
    }

    /// Restores, and returns the changes and problems that the monitor got.
    fn recorded(&self, options: &Options) -> (Stats, Vec<(Change, PathBuf)>, Vec<String>) {
        let monitor = Recording::default();
        let stats = restore::restore(&self.repo, "latest", &[], options, &monitor).unwrap();
        (stats, monitor.plan.into_inner().unwrap(), monitor.problems.into_inner().unwrap())
    }

    /// Restores over the source itself.
    fn in_place(&self) -> Options {
        Options { target: "/".into(), ..self.options() }
    }
}

on_filesystems! {
    fn every_kind_of_entry_comes_back_exactly(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::every_kind);
        let (stats, _, problems) = scene.recorded(&scene.options());
        assert_eq!(problems, [""; 0]);
        assert_equal_trees(&scene.source, &scene.inside(""));
        assert_eq!(stats.unchanged_files + stats.errors + stats.deleted, 0);
        let snapshot = scene.repo.join("latest").join(scene.source.strip_prefix("/").unwrap());
        if fs.reflinks() {
            // Btrfs keeps some data inline.
            assert!(stats.copied_bytes < if fs.kind == Kind::Xfs { 1 } else { 10_000 }, "{stats:?}");
            assert_same_blocks(&snapshot.join("large"), &scene.inside("large"));
        }
        let blocks = |path: &Path| path.join("sparse").metadata().unwrap().blocks();
        assert!(blocks(&scene.inside("")) <= blocks(&scene.source) + 16, "holes are kept");
    }

    fn a_second_restore_changes_nothing(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::every_kind);
        scene.restore(&[""], &scene.options()).unwrap();
        let before = inventory(&scene.target);
        let options = Options { overwrite: Overwrite::IfChanged, ..scene.options() };
        let stats = scene.restore(&[""], &options).unwrap();
        assert_eq!(stats.unchanged_files, stats.files);
        if fs.kind == Kind::Xfs {
            let stats = scene.restore(&[""], &scene.options()).unwrap();
            assert_eq!(stats.cloned_bytes, 0, "the same extents prove the same content");
        }
        let planned = scene.recorded(&Options { dry_run: true, ..options }).1;
        assert_eq!(planned, []);
        assert_eq!(inventory(&scene.target), before);
    }

    fn a_tree_is_put_back_in_place(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::every_kind);
        let original = fs.join("original");
        let copied = Command::new("cp").arg("-a").args([&scene.source, &original]).status();
        assert!(copied.unwrap().success());
        disturb(&scene.source);
        let extra = differences(&original, &scene.source);
        assert!(!extra.is_empty());
        let (stats, _, problems) = scene.recorded(&scene.in_place());
        assert_eq!(stats.errors, 1, "{problems:?}");
        assert!(problems[0].contains("a directory is in its place"), "{problems:?}");
        assert!(scene.source.join("extra").exists(), "only --delete removes");
        let options = Options { delete: true, ..scene.in_place() };
        let stats = scene.restore(&[""], &options).unwrap();
        assert_eq!(stats.errors, 0);
        assert_equal_trees(&original, &scene.source);
    }

    fn a_dry_run_plans_what_is_then_done_and_changes_nothing(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::every_kind);
        disturb(&scene.source);
        let before = inventory(&scene.source);
        let options = Options { delete: true, dry_run: true, ..scene.in_place() };
        let (planned, plan, _) = scene.recorded(&options);
        assert_eq!(inventory(&scene.source), before);
        let line = |change, path: &str| plan.contains(&(change, scene.source.join(path)));
        assert!(line(Change::Removed, "extra") && line(Change::Removed, "extra dir"), "{plan:?}");
        assert!(line(Change::Content, "large") && line(Change::Added, "tiny") && line(Change::Type, "unaligned"));
        assert!(!line(Change::Removed, "extra dir/inner"), "a directory is one line");
        let done = scene.recorded(&Options { dry_run: false, ..options }).0;
        let counts = |stats: &Stats| (stats.files, stats.dirs, stats.unchanged_files, stats.deleted, stats.errors);
        assert_eq!(counts(&planned), counts(&done));
        let again = Options { dry_run: true, overwrite: Overwrite::IfChanged, delete: true, ..scene.in_place() };
        assert_eq!(scene.recorded(&again).1, []);
        let missing = Options { target: fs.join("missing"), dry_run: true, ..scene.options() };
        let (stats, plan, _) = scene.recorded(&missing);
        assert!(!fs.join("missing").exists());
        assert!(plan.iter().all(|(change, _)| *change == Change::Added));
        assert!(plan.len() as u64 > stats.files + stats.dirs);
    }

    fn chosen_paths_come_alone(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        fs::set_permissions(scene.source.join("c"), fs::Permissions::from_mode(0o711)).unwrap();
        snapshot(&scene.source, &scene.repo);
        let stats = scene.restore(&["c/two", "c/d", "c/d/three", "a"], &scene.options()).unwrap();
        assert_eq!((stats.files, stats.dirs), (3, 1));
        let names: Vec<_> = files(&scene.inside(""))
            .iter()
            .map(|path| path.strip_prefix(scene.inside("")).unwrap().display().to_string())
            .collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(scene.inside("c/two").exists() && scene.inside("c/d/three").exists() && scene.inside("a").exists());
        let mode = scene.inside("c").metadata().unwrap().mode() & 0o777;
        assert_eq!(mode, 0o711, "a directory on the way is made as it was");
        let error = scene.restore(&["a", "x", "c/y"], &scene.options()).unwrap_err().to_string();
        assert!(error.contains("source/x") && error.contains("source/c/y") && !error.contains("source/a"), "{error}");
    }

    fn directories_on_the_way_stay_as_they_are(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        fs::create_dir_all(scene.inside("c")).unwrap();
        fs::set_permissions(scene.inside("c"), fs::Permissions::from_mode(0o701)).unwrap();
        write(scene.inside("c/mine"), b"mine");
        let options = Options { delete: true, ..scene.options() };
        scene.restore(&["c/d", "c/one"], &options).unwrap();
        assert_eq!(scene.inside("c").metadata().unwrap().mode() & 0o777, 0o701);
        assert!(scene.inside("c/mine").exists(), "what was not chosen is not cleaned");
    }

    fn no_link_in_the_target_is_followed(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        let outside = fs.dir("outside");
        write(outside.join("two"), b"precious");
        let before = inventory(&outside);
        // On the way to it: an error, and the link stays.
        let top = scene.target.join(scene.source.strip_prefix("/").unwrap().components().next().unwrap());
        symlink(&outside, &top).unwrap();
        let (stats, _, problems) = scene.recorded(&Options { delete: true, ..scene.options() });
        assert_eq!((stats.files, stats.errors), (0, 1), "{problems:?}");
        assert!(problems[0].contains("symbolic link"), "{problems:?}");
        fs::remove_file(&top).unwrap();
        // In the restored tree: kept with `never`, else replaced.
        fs::create_dir_all(scene.inside("")).unwrap();
        symlink(&outside, scene.inside("c")).unwrap();
        let never = Options { overwrite: Overwrite::Never, delete: true, ..scene.options() };
        assert_eq!(scene.recorded(&never).0.errors, 1);
        assert_eq!(inventory(&outside), before);
        assert_eq!(scene.recorded(&Options { delete: true, ..scene.options() }).0.errors, 0);
        assert!(scene.inside("c").symlink_metadata().unwrap().is_dir());
        assert_equal_trees(&scene.source, &scene.inside(""));
        assert_eq!(inventory(&outside), before);
        // If a link is at the path of a file, it is replaced, not written through.
        fs::remove_file(scene.inside("a")).unwrap();
        symlink(outside.join("two"), scene.inside("a")).unwrap();
        scene.restore(&[""], &scene.options()).unwrap();
        assert_equal_trees(&scene.source, &scene.inside(""));
        assert_eq!(inventory(&outside), before);
    }

    fn overwrite_decides_on_files_that_are_there(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        scene.restore(&[""], &scene.options()).unwrap();
        write(scene.inside("a"), b"mine");
        let same_size = bytes(99, scene.inside("b").metadata().unwrap().len() as usize);
        let time = scene.inside("b").metadata().unwrap().modified().unwrap();
        write(scene.inside("b"), &same_size);
        File::options().write(true).open(scene.inside("b")).unwrap().set_modified(time).unwrap();
        fs::set_permissions(scene.inside("c/one"), fs::Permissions::from_mode(0o600)).unwrap();
        let content = |path: &str| fs::read(scene.inside(path)).unwrap();
        let with = |overwrite| scene.restore(&[""], &Options { overwrite, ..scene.options() }).unwrap();
        assert_eq!(with(Overwrite::Never).unchanged_files, 5);
        assert_eq!(content("a"), b"mine");
        assert_eq!(scene.inside("c/one").metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(with(Overwrite::IfChanged).unchanged_files, 4);
        assert_ne!(content("a"), b"mine");
        assert_ne!(scene.inside("c/one").metadata().unwrap().mode() & 0o777, 0o600, "metadata is set right");
        assert_eq!(content("b"), same_size, "size and time are all it looks at");
        with(Overwrite::Always);
        assert_equal_trees(&scene.source, &scene.inside(""));
    }

    fn names_that_share_an_inode_here_but_not_in_the_snapshot_are_parted(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        scene.restore(&[""], &scene.options()).unwrap();
        fs::hard_link(scene.inside("a"), fs.join("elsewhere")).unwrap();
        fs::set_permissions(scene.inside("a"), fs::Permissions::from_mode(0o604)).unwrap();
        scene.restore(&[""], &scene.options()).unwrap();
        assert_equal_trees(&scene.source, &scene.inside(""));
        assert_eq!(fs.join("elsewhere").metadata().unwrap().mode() & 0o777, 0o604, "the other name keeps its own");
    }

    fn nothing_is_inherited_from_the_target(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::every_kind);
        let set = Command::new("setfacl").args(["-d", "-m", "u:4321:rwx,g:4321:rwx"]).arg(&scene.target).status();
        assert!(set.unwrap().success());
        fs::set_permissions(&scene.target, fs::Permissions::from_mode(0o2775)).unwrap();
        assert_eq!(scene.recorded(&scene.options()).2, [""; 0]);
        assert_equal_trees(&scene.source, &scene.inside(""));
    }

    fn the_repository_is_never_a_target_nor_deleted(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        for target in [scene.repo.clone(), scene.repo.join("latest"), scene.repo.join(".pleach/partial")] {
            let options = Options { target, ..scene.options() };
            let error = scene.restore(&[""], &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        }
        // The repository is moved into a restored directory, and below an extraneous one.
        for (below, errors) in [("", 0), ("extraneous/deeper", 1)] {
            let scene = Scene {
                source: fs.dir("source"),
                repo: fs.dir(format!("in {}", below.len())),
                target: fs.dir("target"),
            };
            let home = scene.source.join(below);
            fs::remove_dir(&scene.repo).unwrap();
            snapshot(&scene.source, &scene.repo);
            fs::create_dir_all(&home).unwrap();
            let moved = home.join("repo");
            fs::rename(&scene.repo, &moved).unwrap();
            let before = inventory(&moved.join(".pleach"));
            let scene = Scene { repo: moved.clone(), ..scene };
            let (stats, _, problems) = scene.recorded(&Options { delete: true, ..scene.in_place() });
            assert_eq!((stats.errors, problems.len()), (errors, errors as usize), "{problems:?}");
            assert!(problems.iter().all(|problem| problem.contains("the repository is in it")), "{problems:?}");
            assert_eq!(inventory(&moved.join(".pleach")), before);
            fs::rename(&moved, fs.join(format!("out {}", below.len()))).unwrap();
        }
    }

    fn trees_deeper_than_a_path_can_be_come_back(fs: &Filesystem) {
        let scene = Scene::new(fs, |source| deep(source, 120));
        let stats = scene.restore(&[""], &scene.options()).unwrap();
        assert_eq!((stats.files, stats.dirs, stats.errors), (120, 121, 0));
        let again = scene.restore(&[""], &Options { overwrite: Overwrite::IfChanged, delete: true, ..scene.options() });
        assert_eq!(again.unwrap().unchanged_files, 120);
    }

    fn a_damaged_block_costs_only_its_own_files(fs: &Filesystem) {
        let scene = Scene::new(fs, |source| {
            for dir in ["first", "last"] {
                fs::create_dir(source.join(dir)).unwrap();
                (0..1500).for_each(|i| write(source.join(dir).join(format!("{i:05}")), b"x"));
            }
        });
        let manifests = scene.repo.join(".pleach/manifests");
        let manifest = fs::read_dir(manifests).unwrap().next().unwrap().unwrap().path();
        let file = File::options().read(true).write(true).open(&manifest).unwrap();
        let middle = file.metadata().unwrap().len() / 2;
        let mut byte = [0];
        file.read_exact_at(&mut byte, middle).unwrap();
        file.write_all_at(&[byte[0] ^ 1], middle).unwrap();
        write(scene.source.join("last/extra"), b"x");
        let (stats, _, problems) = scene.recorded(&Options { delete: true, ..scene.options() });
        assert!(problems[0].contains("block"), "{problems:?}");
        // A block has about 700 of the 3,000 records; wherever it begins, the entries after it are restored.
        assert!(stats.files > 2000 && stats.files < 3000, "{stats:?}");
        // Entries that the damaged manifest may have lost are not deleted.
        let (_, _, problems) = scene.recorded(&Options { delete: true, ..scene.in_place() });
        assert!(!problems.is_empty());
        assert_eq!(fs::read_dir(scene.source.join("first")).unwrap().count(), 1500);
    }

    [xfs, btrfs] fn an_ordinary_user_restores_their_own_tree(fs: &Filesystem) {
        let scene = Scene { source: fs.dir("source"), repo: fs.join("repo"), target: fs.dir("target") };
        tree::plain(&scene.source);
        fs::create_dir(scene.source.join("closed")).unwrap();
        write(scene.source.join("closed/file"), &bytes(5, 5000));
        symlink("closed", scene.source.join("link")).unwrap();
        fs::set_permissions(scene.source.join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
        assert!(Command::new("chown").args(["-hR", "65534:65534"]).arg(fs.path()).status().unwrap().success());
        let run = |args: &[&str], paths: &[&Path]| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_pleach")]);
            finish(command.args(args).args(paths)).expect(0);
        };
        run(&["snapshot", "-q"], &[&scene.source, &scene.repo]);
        for _ in 0..2 {
            let (repo, target) = (scene.repo.to_str().unwrap(), scene.target.to_str().unwrap());
            run(&["restore", "-q", repo, "latest", "--delete", "--target", target], &[&scene.source]);
            let source = fs.path().strip_prefix("/").unwrap();
            assert_equal_trees(&scene.source.join("closed"), &scene.inside("closed"));
            assert!(scene.target.join(source).exists());
            write(scene.inside("c/extra"), b"x");
        }
        assert!(!scene.inside("a/extra").exists());
    }

    fn a_killed_restore_blocks_no_later_one(fs: &Filesystem) {
        let scene = Scene::new(fs, |source| tree::crowded(source, 3000));
        for pause in [5, 20, 45, 80] {
            let mut command = command(["restore", "-q", "--delete", "--target"]);
            let mut child = command.arg(&scene.target).arg(&scene.repo).arg("latest").spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(pause));
            child.kill().unwrap();
            child.wait().unwrap();
            let whole: std::collections::HashSet<_> = names(&scene.source).into_iter().collect();
            if let Ok(found) = fs::read_dir(scene.inside("")) {
                // A file under its final name is whole.
                for file in found
                    .map(|entry| entry.unwrap())
                    .filter(|entry| whole.contains(entry.file_name().to_str().unwrap()))
                {
                    let original = scene.source.join(file.file_name());
                    assert_eq!(fs::read(file.path()).unwrap(), fs::read(original).unwrap());
                }
            }
        }
        assert_eq!(scene.recorded(&Options { delete: true, ..scene.options() }).2, [""; 0]);
        assert_equal_trees(&scene.source, &scene.inside(""));
    }

    [xfs] fn another_filesystem_gets_copies_with_holes(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene { target: other.dir("target"), ..Scene::new(fs, tree::every_kind) };
        let (stats, _, problems) = scene.recorded(&scene.options());
        assert_eq!(problems, [""; 0]);
        assert_eq!(stats.cloned_bytes, 0);
        assert!(stats.copied_bytes > 3 << 20);
        assert_equal_trees(&scene.source, &scene.inside(""));
        let blocks = |path: PathBuf| path.metadata().unwrap().blocks();
        assert!(blocks(scene.inside("sparse")) <= blocks(scene.source.join("sparse")) + 64);
    }
}

/// Changes of every kind, in a tree made by `tree::every_kind`.
fn disturb(dir: &Path) {
    write(dir.join("extra"), b"x");
    fs::create_dir_all(dir.join("extra dir/inner")).unwrap();
    write(dir.join("extra dir/inner/file"), b"x");
    fs::remove_file(dir.join("tiny")).unwrap();
    File::options().write(true).open(dir.join("large")).unwrap().write_all_at(b"changed", 100_000).unwrap();
    fs::remove_file(dir.join("unaligned")).unwrap();
    symlink("/etc/passwd", dir.join("unaligned")).unwrap();
    // A directory replaces a file.
    fs::remove_file(dir.join("empty")).unwrap();
    fs::create_dir_all(dir.join("empty/was a file")).unwrap();
    // A file replaces a directory.
    fs::remove_dir_all(dir.join("names")).unwrap();
    write(dir.join("names"), b"was a directory");
    fs::set_permissions(dir.join("nodes"), fs::Permissions::from_mode(0o700)).unwrap();
    // Delayed allocation would look like a change.
    rustix::fs::syncfs(File::open(dir).unwrap()).unwrap();
}

/// A file in each of `depth` nested directories with long names.
fn deep(top: &Path, depth: usize) {
    use rustix::fs::{Mode, OFlags, mkdirat, openat};
    let name = std::ffi::OsStr::from_bytes(&[b'd'; 100]);
    let mut dir: std::os::fd::OwnedFd = File::open(top).unwrap().into();
    for _ in 0..depth {
        mkdirat(&dir, name, Mode::RWXU).unwrap();
        dir = openat(&dir, name, OFlags::RDONLY, Mode::empty()).unwrap();
        let file = openat(&dir, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
        File::from(file).write_all_at(b"deep", 0).unwrap();
    }
}
