//! `--overwrite if-different`, the default: identical files stay untouched, different ones are replaced.

use super::Scene;
use crate::harness::tools::{assert_equal_trees, inventory};
use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::Change;
use pleach::snapshot::restore::{Options, Overwrite};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Small, inline, large, sparse, empty and linked files.
fn fill(dir: &Path) {
    for (number, size) in [0, 1, 100, 2000, 4096, 5000, 70_000, 1 << 20, (4 << 20) + 7].into_iter().enumerate() {
        write(dir.join(format!("file {number}")), &bytes(number as u64, size));
    }
    fs::create_dir(dir.join("many")).unwrap();
    for number in 0..200_u64 {
        write(dir.join(format!("many/{number}")), &bytes(number, 300 * number as usize));
    }
    let sparse = File::create(dir.join("sparse")).unwrap();
    sparse.write_all_at(&bytes(7, 9000), 3_000_001).unwrap();
    sparse.set_len(8 << 20).unwrap();
    fs::hard_link(dir.join("file 6"), dir.join("linked")).unwrap();
    std::os::unix::fs::symlink("file 1", dir.join("symlink")).unwrap();
}

/// Inode and change time of every entry below a directory.
fn inodes(dir: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut rest = vec![dir.to_path_buf()];
    while let Some(dir) = rest.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let status = path.symlink_metadata().unwrap();
            if status.is_dir() {
                rest.push(path.clone());
            }
            found.insert(path, (status.ino(), status.ctime(), status.ctime_nsec()));
        }
    }
    found
}

/// Damages a file in place, keeping its size and modification time.
fn damage(path: &Path) {
    let time = path.metadata().unwrap().modified().unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    let at = file.metadata().unwrap().len() / 2;
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x55], at).unwrap();
    file.set_modified(time).unwrap();
}

fn touch(path: &Path) {
    let time = SystemTime::now() + Duration::from_secs(5);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// A source on one filesystem with its repository on another.
fn apart(fs: &Filesystem, other: &Filesystem) -> Scene {
    let scene = Scene { source: other.dir("source"), repo: fs.join("repo of another"), target: other.dir("target") };
    fill(&scene.source);
    snapshot(&scene.source, &scene.repo);
    scene
}

on_filesystems! {
    fn files_that_swapped_their_names_are_swapped_back(fs: &Filesystem) {
        let scene = Scene::new(fs, |dir| {
            for (name, seed) in [("one", 1), ("two", 2), ("three", 3)] {
                write(dir.join(name), &bytes(seed, 70_000));
                tree::set_mtime(&dir.join(name), 1_600_000_000, 0);
            }
        });
        let path = |name| scene.source.join(name);
        fs::rename(path("one"), path("aside")).unwrap();
        fs::rename(path("two"), path("one")).unwrap();
        fs::rename(path("aside"), path("two")).unwrap();
        let (stats, plan, problems) = scene.recorded(&Options { dry_run: true, ..scene.in_place() });
        let replaced = plan.iter().filter(|(change, _)| *change == Change::Content).count();
        assert_eq!((replaced, stats.unchanged_files, problems.len()), (2, 1, 0), "{plan:?}");
        let (stats, _, problems) = scene.recorded(&scene.in_place());
        assert_eq!((stats.unchanged_files, problems.len()), (1, 0), "{stats:?}");
        for (name, seed) in [("one", 1), ("two", 2), ("three", 3)] {
            assert!(fs::read(path(name)).unwrap() == bytes(seed, 70_000), "{name}");
        }
    }

    fn identical_files_stay_untouched_from_the_same_filesystem(fs: &Filesystem) {
        let scene = Scene::new(fs, fill);
        untouched(&scene, fs);
    }

    fn identical_files_stay_untouched_from_another_filesystem(fs: &Filesystem) {
        let other = fs.elsewhere();
        untouched(&apart(fs, &other), fs);
    }

    fn touched_files_are_read_and_get_only_their_time_back(fs: &Filesystem) {
        let other = fs.elsewhere();
        for scene in [Scene::new(fs, fill), apart(fs, &other)] {
            let time = |name: &str| scene.source.join(name).metadata().unwrap().modified().unwrap();
            let before = [time("file 0"), time("file 8"), time("linked"), time("many/77")];
            for number in 0..9 {
                touch(&scene.source.join(format!("file {number}")));
            }
            (0..200).for_each(|number| touch(&scene.source.join(format!("many/{number}"))));
            let ino = inodes(&scene.source);
            let dry = Options { dry_run: true, ..scene.in_place() };
            let (stats, plan, problems) = scene.recorded(&dry);
            assert_eq!(problems, [""; 0]);
            assert_eq!(plan.len(), 209, "'linked' and 'file 6' are one inode: {plan:?}");
            assert!(plan.iter().all(|(change, _)| *change == Change::Metadata), "{plan:?}");
            assert_eq!(stats.replaced_entries, 0);
            let (stats, _, problems) = scene.recorded(&scene.in_place());
            assert_eq!((problems, stats.replaced_entries, stats.copied_bytes, stats.cloned_bytes), (vec![], 0, 0, 0));
            assert_eq!([time("file 0"), time("file 8"), time("linked"), time("many/77")], before);
            let kept = inodes(&scene.source);
            assert!(ino.iter().all(|(path, (ino, ..))| kept[path].0 == *ino), "no inode was replaced");
        }
    }

    fn damaged_files_are_replaced_and_no_others(fs: &Filesystem) {
        let other = fs.elsewhere();
        for scene in [Scene::new(fs, fill), apart(fs, &other)] {
            let source = fs.join("original");
            fs::create_dir_all(&source).unwrap();
            fill(&source);
            let damaged = ["file 1", "file 3", "file 7", "file 8", "many/199", "sparse"];
            for name in damaged {
                damage(&scene.source.join(name));
                touch(&scene.source.join(name));
            }
            let options = scene.in_place();
            let (_, plan, _) = scene.recorded(&Options { dry_run: true, ..options.clone() });
            let planned: Vec<_> = plan.iter().filter(|line| line.0 == Change::Content).map(|line| &line.1).collect();
            let mut wanted: Vec<_> = damaged.iter().map(|name| scene.source.join(name)).collect();
            wanted.sort();
            let mut found: Vec<_> = planned.into_iter().cloned().collect();
            found.sort();
            assert_eq!(found, wanted);
            let (stats, _, problems) = scene.recorded(&options);
            assert_eq!((problems, stats.replaced_entries), (vec![], 6));
            for name in damaged {
                assert!(fs::read(scene.source.join(name)).unwrap() == fs::read(source.join(name)).unwrap(), "{name}");
            }
            fs::remove_dir_all(source).unwrap();
        }
    }

    fn damage_that_kept_size_and_time_is_found_in_the_source_itself(fs: &Filesystem) {
        let other = fs.elsewhere();
        for scene in [Scene::new(fs, fill), apart(fs, &other)] {
            let good = fs::read(scene.source.join("file 8")).unwrap();
            damage(&scene.source.join("file 8"));
            // Only its change time differs from that in the manifest.
            let stats = scene.recorded(&scene.in_place()).0;
            assert_eq!((stats.replaced_entries, stats.compared_files), (1, 1));
            assert!(fs::read(scene.source.join("file 8")).unwrap() == good);
        }
    }

    fn damage_that_kept_size_and_time_is_found_anywhere_with_verify(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = apart(fs, &other);
        let options = Options { overwrite: Overwrite::IfChanged, ..scene.options() };
        scene.restore(&[""], &options).unwrap();
        damage(&scene.inside("file 8"));
        damage(&scene.inside("file 2"));
        let trusting = scene.recorded(&Options { dry_run: true, ..scene.options() }).1;
        assert_eq!(trusting, [], "the same size and time are trusted");
        for overwrite in [Overwrite::IfDifferent, Overwrite::IfChanged] {
            let verify = Options { verify: true, overwrite, ..scene.options() };
            let (_, plan, _) = scene.recorded(&Options { dry_run: true, ..verify.clone() });
            assert_eq!(plan, [(Change::Content, scene.inside("file 2")), (Change::Content, scene.inside("file 8"))]);
            let (stats, _, problems) = scene.recorded(&verify);
            assert_eq!((problems, stats.replaced_entries), (vec![], 2));
            assert_equal_trees(&scene.source, &scene.inside(""));
            damage(&scene.inside("file 8"));
            damage(&scene.inside("file 2"));
        }
    }

    fn without_hashes_files_are_compared_with_the_snapshot_itself(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene { source: other.dir("source"), repo: fs.join("repo"), target: other.dir("target") };
        fill(&scene.source);
        settle();
        let (source, repo) = (scene.source.to_str().unwrap(), scene.repo.to_str().unwrap());
        pleach(["snapshot", "-q", "--hash", "none", source, repo]).expect(0);
        touch(&scene.source.join("file 5"));
        damage(&scene.source.join("file 4"));
        let (stats, plan, problems) = scene.recorded(&Options { dry_run: true, ..scene.in_place() });
        assert_eq!(problems, [""; 0]);
        assert_eq!(
            plan,
            [(Change::Content, scene.source.join("file 4")), (Change::Metadata, scene.source.join("file 5"))]
        );
        assert_eq!(stats.compared_files, 2);
    }

    fn always_replaces_every_file_and_never_touches_none(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        scene.restore(&[""], &scene.options()).unwrap();
        let before = inodes(&scene.target);
        let with = |overwrite| Options { overwrite, ..scene.options() };
        damage(&scene.inside("b"));
        assert_eq!(scene.recorded(&Options { verify: true, ..with(Overwrite::Never) }).0.replaced_entries, 0);
        let stats = scene.recorded(&with(Overwrite::Always)).0;
        assert_eq!((stats.replaced_entries, stats.unchanged_files), (stats.files, 0));
        assert!(before[&scene.inside("a")].0 != scene.inside("a").metadata().unwrap().ino());
        assert_equal_trees(&scene.source, &scene.inside(""));
    }

    fn a_file_with_another_name_elsewhere_stays_if_it_is_right(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        fs::hard_link(scene.source.join("a"), fs.join("elsewhere")).unwrap();
        assert_eq!(scene.recorded(&Options { dry_run: true, ..scene.in_place() }).1, []);
        fs::set_permissions(scene.source.join("a"), fs::Permissions::from_mode(0o604)).unwrap();
        let stats = scene.recorded(&scene.in_place()).0;
        assert_eq!((stats.replaced_entries, stats.metadata_entries), (0, 1));
        assert_eq!(fs.join("elsewhere").metadata().unwrap().mode() & 0o777, 0o604, "the other name keeps its own");
    }

    [xfs, btrfs] fn an_ordinary_user_leaves_identical_directories_untouched(fs: &Filesystem) {
        let scene = Scene { source: fs.dir("source"), repo: fs.join("repo"), target: fs.dir("target") };
        fill(&scene.source);
        tools::tool("chown", &["-hR", "65534:65534"], fs.path());
        let run = |args: &[&str]| {
            let mut command = std::process::Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_pleach")]);
            finish(command.args(args)).expect(0)
        };
        let (source, repo) = (scene.source.to_str().unwrap(), scene.repo.to_str().unwrap());
        settle();
        run(&["snapshot", "-q", source, repo]);
        let before = inodes(fs.path());
        run(&["restore", "-q", repo, "latest", source, "--target", "/"]);
        let changed = inodes(&scene.source).into_iter().filter(|(path, state)| before[path] != *state).count();
        assert_eq!(changed, 0);
    }
}

#[track_caller]
fn untouched(scene: &Scene, fs: &Filesystem) {
    let before = (inventory(&scene.source), inodes(&scene.source));
    for options in [
        scene.in_place(),
        Options { verify: true, ..scene.in_place() },
        Options { delete: true, ..scene.in_place() },
        Options { overwrite: Overwrite::IfChanged, ..scene.in_place() },
    ] {
        let (stats, plan, problems) = scene.recorded(&Options { dry_run: true, ..options.clone() });
        assert_eq!((plan, problems), (vec![], vec![]), "{options:?}");
        assert_eq!(stats.unchanged_files, stats.files);
        let stats = scene.recorded(&options).0;
        assert_eq!((stats.unchanged_files, stats.errors), (stats.files, 0), "{options:?}");
        assert_eq!(stats.cloned_bytes + stats.copied_bytes + stats.metadata_entries + stats.replaced_entries, 0);
        assert_eq!((inventory(&scene.source), inodes(&scene.source)), before, "{options:?}");
    }
    let summary = snapshot(&scene.source, &scene.repo);
    assert_eq!(number(&summary, "changed_files") + number(&summary, "new_files"), 0, "{summary}");
    // Without reflinks each snapshot is a copy.
    assert!(!fs.reflinks() || number(&summary, "read_bytes") == 0, "{summary}");
}
