//! `--delete` and mounts: nothing mounted below the target is moved, crossed or deleted.

use super::Scene;
use crate::harness::mounted::Mounted;
use crate::harness::tools::inventory;
use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::Change;
use pleach::snapshot::restore::{Options, Overwrite};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// The mount points below a directory, as the kernel lists them.
fn mount_points(below: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = table.lines().map(|line| line.split(' ').nth(4).unwrap().replace("\\040", " "));
    points.filter(|point| Path::new(point).starts_with(below)).collect()
}

fn make(dir: &Path, files: &[&str]) {
    for file in files {
        let path = dir.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(path, file.as_bytes());
    }
}

on_filesystems! {
    fn a_directory_that_holds_a_mount_is_kept_whole(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        let outside = fs.dir("outside");
        make(&outside, &["precious", "deep/precious"]);
        make(&scene.source, &["extra/beside", "extra/a/b/c/point/under", "extra/a/d/e", "gone/file", "plain"]);
        type Place = fn(&Path, &Path) -> Mounted;
        let kinds: [(&str, Place); 4] = [
            ("a bind mount of the same filesystem", |outside, dir| {
                Mounted::bind(outside, &dir.join("extra/a/b/c/point"))
            }),
            ("another filesystem", |_, dir| Mounted::tmpfs(&dir.join("extra/a/b/c/point"))),
            ("a file", |outside, dir| Mounted::bind(&outside.join("precious"), &dir.join("extra/a/d/e"))),
            ("the directory itself", |outside, dir| Mounted::bind(outside, &dir.join("extra"))),
        ];
        for (kind, place) in kinds {
            make(&scene.source, &["gone/file", "plain"]);
            let mounted = place(&outside, &scene.source);
            let before = (inventory(&scene.source.join("extra")), inventory(&outside), mount_points(fs.path()));
            let options = Options { delete: true, ..scene.in_place() };
            for dry_run in [true, false] {
                let (stats, plan, problems) = scene.recorded(&Options { dry_run, ..options.clone() });
                assert_eq!((stats.errors, stats.deleted), (1, 2), "{kind}: {problems:?}");
                assert!(problems[0].contains("extra") && problems[0].contains("is mounted"), "{kind}: {problems:?}");
                assert!(problems[0].contains(&*mounted.path().display().to_string()), "{kind}: {problems:?}");
                assert!(!plan.contains(&(Change::Removed, scene.source.join("extra"))), "{kind}: {plan:?}");
                let after = (inventory(&scene.source.join("extra")), inventory(&outside), mount_points(fs.path()));
                assert_eq!(after, before, "{kind}");
            }
            assert!(!scene.source.join("gone").exists() && !scene.source.join("plain").exists(), "{kind}");
        }
        assert_eq!(scene.recorded(&Options { delete: true, ..scene.in_place() }).0.errors, 0);
        assert!(!scene.source.join("extra").exists(), "unmounted, it goes");
    }

    fn nothing_is_deleted_on_a_mount_below_the_source(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        make(&source, &["kept", "home/below"]);
        let mounted = Mounted::tmpfs(&source.join("home"));
        make(&source.join("home"), &["then", "ann/then"]);
        settle();
        for name in ["whole", "one"] {
            let more: &[&str] = if name == "one" { &["--one-file-system"] } else { &[] };
            let args = ["snapshot", "--name", name].into_iter().chain(more.iter().copied()).map(OsStr::new);
            pleach(args.chain([source.as_os_str(), repo.as_os_str()])).expect(0);
        }
        drop(mounted);
        // Another filesystem is mounted there today.
        let _mounted = Mounted::tmpfs(&source.join("home"));
        make(&source.join("home"), &["today", "ann/today"]);
        make(&source, &["extra"]);
        let restore = |name: &str, paths: &[&Path]| {
            let args = ["restore", "--delete", "--target", "/"].map(OsStr::new);
            let paths = paths.iter().map(|path| path.as_os_str());
            pleach(args.into_iter().chain([repo.as_os_str(), OsStr::new(name)]).chain(paths))
        };
        for name in ["one", "whole"] {
            restore(name, &[]).expect(3).saying("another mount");
            assert!(source.join("home/today").exists() && source.join("home/ann/today").exists(), "{name}");
            assert!(!source.join("extra").exists(), "what lies beside goes");
        }
        // A user who names the mount point means it.
        restore("whole", &[&source.join("home")]).expect(0);
        assert!(!source.join("home/today").exists() && !source.join("home/ann/today").exists());
        assert!(source.join("home/ann/then").exists());
    }

    fn a_directory_on_such_a_mount_is_not_deleted_for_an_entry_of_the_snapshot(fs: &Filesystem) {
        let scene = Scene::new(fs, |source| {
            make(source, &["disk/first", "disk/sub/file"]);
            fs::hard_link(source.join("disk/first"), source.join("disk/second")).unwrap();
        });
        let _mounted = Mounted::tmpfs(&scene.source.join("disk"));
        for name in ["first", "second", "sub/file"] {
            make(&scene.source.join("disk"), &[&format!("{name}/precious")]);
        }
        for dry_run in [true, false] {
            let (stats, _, problems) = scene.recorded(&Options { delete: true, dry_run, ..scene.in_place() });
            let blocked: Vec<_> = problems.iter().filter(|problem| problem.contains("lies on another mount")).collect();
            assert!(stats.errors >= 3 && blocked.len() >= 3, "{problems:?}");
            let has = |name: &str| blocked.iter().any(|problem| problem.contains(&format!("disk/{name} (")));
            assert!(["first", "second", "sub/file"].into_iter().all(has), "{problems:?}");
        }
        for name in ["first", "second", "sub/file"] {
            assert!(scene.source.join("disk").join(name).join("precious").exists(), "{name}");
        }
    }

    fn a_repository_opened_through_a_bind_mount_is_not_deleted(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        let home = scene.source.join("extra/deeper");
        fs::create_dir_all(&home).unwrap();
        fs::rename(&scene.repo, home.join("repo")).unwrap();
        let bound = Mounted::bind(&home.join("repo"), &fs.dir("bound"));
        let scene = Scene { repo: bound.path().to_path_buf(), ..scene };
        let before = inventory(&home.join("repo/.pleach"));
        for dry_run in [true, false] {
            let options = Options { delete: true, dry_run, ..scene.in_place() };
            let (stats, plan, problems) = scene.recorded(&options);
            assert_eq!((stats.errors, stats.deleted, problems.len()), (1, 0, 1), "{problems:?}");
            assert!(problems[0].contains("extra (the repository is in it"), "{problems:?}");
            assert!(!plan.iter().any(|(change, _)| *change == Change::Removed), "{plan:?}");
        }
        assert_eq!(inventory(&home.join("repo/.pleach")), before);
        drop(bound);
    }

    fn a_mount_made_by_another_path_is_not_moved(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        make(&scene.source, &["extra/a/b/point/under"]);
        let other = fs.dir("other path");
        let _bound = Mounted::bind(&scene.source, &other);
        let _inside = Mounted::tmpfs(&other.join("extra/a/b/point"));
        let before = mount_points(fs.path());
        let (stats, _, problems) = scene.recorded(&Options { delete: true, ..scene.in_place() });
        assert_eq!(stats.errors, 1, "{problems:?}");
        assert_eq!(mount_points(fs.path()), before);
        assert!(scene.source.join("extra/a/b/point/under").exists());
    }

    fn a_file_that_is_a_mount_point_is_neither_deleted_nor_replaced(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        let outside = fs.dir("outside");
        make(&outside, &["precious"]);
        make(&scene.source, &["extra"]);
        let _extra = Mounted::bind(&outside.join("precious"), &scene.source.join("extra"));
        let _known = Mounted::bind(&outside.join("precious"), &scene.source.join("c/one"));
        let before = mount_points(fs.path());
        let mut reported = Vec::new();
        for dry_run in [true, false] {
            let (stats, plan, mut problems) = scene.recorded(&Options { delete: true, dry_run, ..scene.in_place() });
            problems.sort();
            assert_eq!((stats.errors, problems.len()), (2, 2), "{problems:?}");
            assert!(problems.iter().all(|problem| problem.contains("mounted")), "{problems:?}");
            let planned: Vec<_> = plan.iter().filter(|(_, path)| *path != scene.source).collect();
            assert!(planned.is_empty(), "a dry run plans neither: {planned:?}");
            reported.push(problems);
        }
        assert_eq!(reported[0], reported[1], "the plan and the run agree");
        assert_eq!(fs::read(outside.join("precious")).unwrap(), b"precious");
        assert_eq!(mount_points(fs.path()), before);
    }

    fn a_dry_run_foresees_what_a_mount_refuses(fs: &Filesystem) {
        let scene = Scene::new(fs, |source| {
            tree::plain(source);
            make(source, &["dir/file", "many"]);
            fs::hard_link(source.join("many"), source.join("too")).unwrap();
        });
        let outside = fs.dir("outside");
        make(&outside, &["precious"]);
        // A directory, a file, and another name of a file must be made where mount points are, which were mounted
        // through another path.
        fs::remove_dir_all(scene.source.join("dir")).unwrap();
        fs::remove_file(scene.source.join("too")).unwrap();
        make(&scene.source, &["dir", "too"]);
        fs::remove_file(scene.source.join("b")).unwrap();
        make(&scene.source, &["b/point/under"]);
        let other = fs.dir("other path");
        let _bound = Mounted::bind(&scene.source, &other);
        let _mounted = ["dir", "too", "b/point"].map(|name| match name {
            "b/point" => Mounted::tmpfs(&other.join(name)),
            _ => Mounted::bind(&outside.join("precious"), &other.join(name)),
        });
        let reported = [true, false].map(|dry_run| {
            let (stats, plan, mut problems) = scene.recorded(&Options { delete: true, dry_run, ..scene.in_place() });
            problems.sort();
            assert_eq!((stats.errors, problems.len()), (3, 3), "{problems:?}");
            let planned: Vec<_> = plan.iter().filter(|(_, path)| *path != scene.source).collect();
            assert!(planned.is_empty(), "{planned:?}");
            assert_eq!((stats.replaced_entries, stats.deleted), (0, 0));
            problems
        });
        assert_eq!(reported[0], reported[1]);
        assert_eq!(fs::read(outside.join("precious")).unwrap(), b"precious");
    }

    fn a_directory_in_the_way_that_holds_a_mount_stays(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        fs::remove_file(scene.source.join("a")).unwrap();
        make(&scene.source, &["a/beside", "a/deep/point/under"]);
        let _mounted = Mounted::tmpfs(&scene.source.join("a/deep/point"));
        let before = (inventory(&scene.source), mount_points(fs.path()));
        for overwrite in [Overwrite::IfDifferent, Overwrite::Always] {
            let options = Options { delete: true, overwrite, ..scene.in_place() };
            let (stats, _, problems) = scene.recorded(&options);
            assert_eq!(stats.errors, 1, "{problems:?}");
            assert!(problems[0].contains("deep/point") && problems[0].contains("mounted"), "{problems:?}");
            assert!(scene.source.join("a/beside").exists());
            assert_eq!(mount_points(fs.path()), before.1);
        }
        assert_eq!(inventory(&scene.source.join("a")).len(), 3);
    }

    fn mounts_in_staging_and_trash_are_not_moved(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        make(
            &scene.repo.join(".pleach"),
            &["partial/old/tree/deep/point/under", "trash/x/deep/point/under", "trash/y/f"],
        );
        // A leftover that the next run would use.
        make(&scene.repo.join(".pleach"), &["partial/useful/tree/deep/point/under", "partial/useful/finished"]);
        let _useful = Mounted::tmpfs(&scene.repo.join(".pleach/partial/useful/tree/deep/point"));
        let _partial = Mounted::tmpfs(&scene.repo.join(".pleach/partial/old/tree/deep/point"));
        let _trash = Mounted::tmpfs(&scene.repo.join(".pleach/trash/x/deep/point"));
        let before = mount_points(fs.path());
        let (source, repo) = (scene.source.to_str().unwrap(), scene.repo.to_str().unwrap());
        let run = pleach(["snapshot", "--json", source, repo]).saying("mounted");
        assert!(run.status == 0 || run.status == 3, "{}", run.stderr);
        assert_eq!(mount_points(fs.path()), before);
        assert_eq!(published(&scene.repo).len(), 2, "no later run is blocked");
        assert!(!scene.repo.join(".pleach/trash/y").exists(), "the rest of the trash is emptied");
    }

    [btrfs] fn a_subvolume_keeps_the_directory_that_holds_it(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        make(&scene.source, &["extra/beside", "gone/file"]);
        tools::tool("btrfs", &["-q", "subvolume", "create"], &scene.source.join("extra/sub"));
        make(&scene.source, &["extra/sub/file", "extra/sub/dir/file"]);
        tools::tool("btrfs", &["-q", "subvolume", "create"], &scene.source.join("top"));
        make(&scene.source, &["top/file", "top/dir/file"]);
        let before = [inventory(&scene.source.join("extra")), inventory(&scene.source.join("top"))];
        for dry_run in [true, false] {
            let (stats, _, problems) = scene.recorded(&Options { delete: true, dry_run, ..scene.in_place() });
            assert_eq!((stats.errors, stats.deleted), (2, 1), "{problems:?}");
            assert!(problems.iter().all(|problem| problem.contains("subvolume")), "{problems:?}");
            assert_eq!([inventory(&scene.source.join("extra")), inventory(&scene.source.join("top"))], before);
        }
        for subvolume in ["extra/sub", "top"] {
            tools::tool("btrfs", &["-q", "subvolume", "delete"], &scene.source.join(subvolume));
        }
    }

    fn extraneous_trees_deeper_than_a_path_can_be_are_deleted(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        fs::create_dir(scene.source.join("extra")).unwrap();
        crate::restore::deep(&scene.source.join("extra"), 120);
        let (stats, _, problems) = scene.recorded(&Options { delete: true, ..scene.in_place() });
        assert_eq!((problems, stats.deleted), (vec![], 1));
        assert!(!scene.source.join("extra").exists());
    }

    [xfs] fn what_cannot_be_deleted_is_named_and_the_rest_goes(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        make(&scene.source, &["extra/a/fixed", "extra/a/free", "extra/b/c/free"]);
        tools::tool("chattr", &["+i"], &scene.source.join("extra/a/fixed"));
        let (stats, _, problems) = scene.recorded(&Options { delete: true, ..scene.in_place() });
        tools::tool("chattr", &["-i"], &scene.source.join("extra/a/fixed"));
        assert_eq!((stats.errors, stats.deleted, problems.len()), (1, 0, 2), "{problems:?}");
        assert!(problems[0].contains("fixed") && problems[0].contains("lsattr"), "{problems:?}");
        assert_eq!(tools::files(&scene.source.join("extra")).len(), 1);
    }
}
