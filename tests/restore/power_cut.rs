//! Power cuts: whatever a restore left, the next one ends with the content of the snapshot.

use super::Scene;
use crate::harness::own::Own;
use crate::harness::power::Shutdown::{self, AtOnce, LogWritten};
use crate::harness::power::cut_during;
use crate::harness::tools::assert_equal_trees;
use crate::harness::*;
use crate::on_filesystems;
use pleach::snapshot::restore::{Options, Overwrite};
use std::fs;
use std::process::Command;

/// Restores until a condition is met, then cuts the power and mounts the filesystem again.
fn restore_and_cut(own: &mut Own, scene: &Scene, how: Shutdown, until: &dyn Fn() -> bool) {
    let mut command = command(["restore", "-q", "--target"]);
    cut_during(own, command.arg(&scene.target).arg(&scene.repo).arg("latest"), how, until);
}

/// Asserts that the next run completes the restore, even a run that trusts size and time.
#[track_caller]
fn assert_next_run_completes(own: &mut Own, scene: &Scene) {
    let options = Options { overwrite: Overwrite::IfChanged, delete: true, ..scene.options() };
    let (stats, _, problems) = scene.recorded(&options);
    assert_eq!((stats.errors, problems), (0, vec![]));
    own.remount();
    assert_equal_trees(&scene.source, &scene.inside(""));
    assert!(names(&scene.inside("")).iter().all(|name| !name.starts_with(".pleach")));
}

fn scene(other: &Filesystem, files: u64) -> Scene {
    let scene = Scene { source: other.dir("source"), repo: other.join("repo"), target: other.dir("target") };
    for number in 0..files {
        write(scene.source.join(format!("file-{number}")), &bytes(number, 1 << 20));
    }
    fs::hard_link(scene.source.join("file-3"), scene.source.join("linked")).unwrap();
    snapshot(&scene.source, &scene.repo);
    scene
}

on_filesystems! {
    [xfs, ext4] fn after_a_power_cut_the_next_restore_takes_no_zeros_for_good(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = scene(&other, 50);
        for (how, count) in [(LogWritten, 5), (LogWritten, 25), (LogWritten, 50), (AtOnce, 20)] {
            let Some(mut own) = Own::new(fs.kind, "restore::power_cut", 512, &[], "") else { return };
            let scene = Scene { target: own.join("target"), source: scene.source.clone(), repo: scene.repo.clone() };
            let named = || scene.inside("").exists() && names(&scene.inside("")).len() >= count;
            restore_and_cut(&mut own, &scene, how, &named);
            fs::create_dir_all(&scene.target).unwrap();
            assert_next_run_completes(&mut own, &scene);
            own.assert_clean();
        }
    }

    [xfs, ext4] fn a_replaced_file_is_the_old_or_the_new_one_after_a_power_cut(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = scene(&other, 40);
        for (how, count) in [(LogWritten, 1), (LogWritten, 30), (AtOnce, 20)] {
            let Some(mut own) = Own::new(fs.kind, "restore::power_cut", 512, &[], "") else { return };
            let scene = Scene { target: own.join("target"), source: scene.source.clone(), repo: scene.repo.clone() };
            fs::create_dir_all(scene.inside("")).unwrap();
            for number in 0..40 {
                write(scene.inside(&format!("file-{number}")), &bytes(100 + number, 5000));
            }
            write(scene.inside("linked"), b"old");
            rustix::fs::syncfs(fs::File::open(&scene.target).unwrap()).unwrap();
            let temporary =
                || names(&scene.inside("")).iter().filter(|name| name.starts_with(".pleach-restore.")).count();
            let replaced = || {
                tools::files(&scene.inside(""))
                    .iter()
                    .any(|file| file.metadata().is_ok_and(|meta| meta.len() == 1 << 20))
            };
            restore_and_cut(&mut own, &scene, how, &|| temporary() >= count || replaced());
            for number in 0..40 {
                let name = format!("file-{number}");
                let (now, old) = (fs::read(scene.inside(&name)).unwrap(), bytes(100 + number, 5000));
                assert!(now == old || now == bytes(number, 1 << 20), "{name} is neither the old nor the new one");
            }
            assert_next_run_completes(&mut own, &scene);
            own.assert_clean();
        }
    }

    fn what_replaces_and_what_follows_from_it_comes_in_its_order(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene { source: other.dir("source"), repo: other.join("repo"), target: fs.dir("target") };
        for dir in ["one", "two"] {
            fs::create_dir(scene.source.join(dir)).unwrap();
            fs::create_dir_all(scene.inside(dir)).unwrap();
            for name in ["a", "b", "c"] {
                write(scene.source.join(dir).join(name), &bytes(7, 9000));
                write(scene.inside(dir).join(name), b"old");
            }
            write(scene.inside(dir).join("extra"), b"old");
        }
        // One inode with names in both directories, which replace others; immutable files; one with a new name.
        fs::remove_file(scene.source.join("two/b")).unwrap();
        fs::hard_link(scene.source.join("one/b"), scene.source.join("two/b")).unwrap();
        fs::hard_link(scene.source.join("one/b"), scene.source.join("two/new")).unwrap();
        fs::hard_link(scene.source.join("one/c"), scene.source.join("two/d")).unwrap();
        for name in ["one/a", "two/d"] {
            finish(Command::new("chattr").arg("+i").arg(scene.source.join(name))).expect(0);
        }
        snapshot(&scene.source, &scene.repo);
        let options = Options { delete: true, ..scene.options() };
        let (stats, _, problems) = scene.recorded(&options);
        assert_eq!((stats.errors, problems), (0, vec![]));
        assert_eq!((stats.deleted, stats.damaged), (2, 0));
        assert_equal_trees(&scene.source, &scene.inside(""));
        for name in ["one/a", "one/c"] {
            let flags = tools::tool("lsattr", &[], &scene.inside(name)).stdout;
            assert!(flags.split_whitespace().next().unwrap().contains('i'), "{flags}");
        }
        let again = scene.recorded(&Options { dry_run: true, ..options }).1;
        assert_eq!(again, []);
        for dir in [&scene.source, &scene.target] {
            finish(Command::new("chattr").args(["-R", "-i"]).arg(dir)).expect(0);
        }
    }

    fn few_descriptors_are_enough(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene { source: other.dir("source"), repo: other.join("repo"), target: fs.dir("target") };
        tree::crowded(&scene.source, 300);
        fs::create_dir_all(scene.inside("")).unwrap();
        for number in 0..80 {
            write(scene.inside(&format!("replaced-{number}")), b"old");
            write(scene.source.join(format!("replaced-{number}")), &bytes(number, 20_000));
        }
        snapshot(&scene.source, &scene.repo);
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n 128 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pleach")]);
        finish(shell.args(["restore", "-j", "1", "--target"]).arg(&scene.target).arg(&scene.repo).arg("latest"))
            .expect(0);
        assert_equal_trees(&scene.source, &scene.inside(""));
    }
}
