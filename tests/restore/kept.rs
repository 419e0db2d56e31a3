//! Files that somebody else saves at a restored path, after pleach decided to replace the old file, are kept; and two
//! restores at the same time do not disturb each other.

use super::Scene;
use crate::harness::meddler::{Meddler, When};
use crate::harness::running;
use crate::harness::tools::{assert_equal_trees, paths};
use crate::harness::*;
use crate::on_filesystems;
use pleach::snapshot::restore::{self, Options, Overwrite, Stats};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A scene with its repository on another filesystem than the target, so that all data is written.
fn scene(fs: &Filesystem, other: &Filesystem, fill: impl Fn(&Path)) -> Scene {
    let scene = Scene { source: other.dir("source"), repo: other.join("repo"), target: fs.dir("target") };
    fill(&scene.source);
    snapshot(&scene.source, &scene.repo);
    scene
}

#[track_caller]
fn assert_nothing_unfinished(scene: &Scene) {
    let is_unfinished = |path: &PathBuf| path.to_string_lossy().contains(".pleach-restore.");
    assert_eq!(paths(&scene.target).into_iter().filter(is_unfinished).collect::<Vec<_>>(), [] as [PathBuf; 0]);
}

fn restored(scene: &Scene, options: &Options, when: When, meddle: impl Fn() + Sync) -> (Stats, Vec<String>) {
    let meddler = Meddler::new(when, meddle);
    let stats = restore::restore(&scene.repo, "latest", &[], options, &meddler).unwrap();
    assert_nothing_unfinished(scene);
    (stats, meddler.problems())
}

on_filesystems! {
    fn what_is_saved_while_its_old_version_waits_for_the_sync_is_kept(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene =
            scene(fs, &other, |source| (0..4).for_each(|n| write(source.join(format!("file-{n}")), &bytes(n, 9000))));
        for overwrite in [Overwrite::IfDifferent, Overwrite::IfChanged, Overwrite::Always] {
            fs::create_dir_all(scene.inside("")).unwrap();
            (0..4).for_each(|n| write(scene.inside(&format!("file-{n}")), &bytes(50 + n, 9000)));
            settle();
            let options = Options { overwrite, ..scene.options() };
            let (stats, problems) = restored(&scene, &options, When::Syncing, || {
                write(scene.inside("saved"), b"mine");
                fs::rename(scene.inside("saved"), scene.inside("file-0")).unwrap();
                fs::remove_file(scene.inside("file-1")).unwrap();
            });
            assert_eq!((stats.errors, stats.replaced_entries), (1, 3), "{problems:?}");
            assert!(problems[0].contains("file-0") && problems[0].contains("it was kept"), "{problems:?}");
            assert_eq!(fs::read(scene.inside("file-0")).unwrap(), b"mine");
            (1..4).for_each(|n| assert_eq!(fs::read(scene.inside(&format!("file-{n}"))).unwrap(), bytes(n, 9000)));
        }
    }

    fn a_directory_that_somebody_saves_into_while_its_file_is_made_is_kept(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = scene(fs, &other, |source| write(source.join("file"), &bytes(1, 3 << 20)));
        let saved = scene.inside("file").join("mine");
        fs::create_dir_all(scene.inside("file")).unwrap();
        settle();
        let options = Options { delete: true, ..scene.options() };
        let (stats, problems) = restored(&scene, &options, When::Copying, || write(&saved, b"mine"));
        assert_eq!((stats.errors, fs::read(&saved).unwrap()), (1, b"mine".to_vec()), "{problems:?}");
        assert_eq!(scene.recorded(&options).0.errors, 0, "it is known now");
        assert_equal_trees(&scene.source, &scene.inside(""));
    }

    fn what_came_where_nothing_was_is_kept_unless_it_is_equal(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = scene(fs, &other, |source| write(source.join("file"), &bytes(1, 3 << 20)));
        let place = scene.inside("file");
        for overwrite in [Overwrite::IfDifferent, Overwrite::Always] {
            for content in [bytes(1, 3 << 20), bytes(2, 3 << 20)] {
                let _ = fs::remove_file(&place);
                let options = Options { overwrite, ..scene.options() };
                let (stats, problems) = restored(&scene, &options, When::Copying, || write(&place, &content));
                let is_equal = content == bytes(1, 3 << 20);
                assert_eq!(stats.errors, u64::from(!is_equal), "{problems:?}");
                assert_eq!(fs::read(&place).unwrap(), content);
                if is_equal {
                    assert_equal_trees(&scene.source, &scene.inside(""));
                } else {
                    assert!(problems[0].contains("somebody else meanwhile"), "{problems:?}");
                }
            }
        }
    }

    [xfs, btrfs] fn a_name_that_somebody_else_made_before_its_link_came_is_kept(fs: &Filesystem) {
        let scene = Scene::new(fs, |source| {
            write(source.join("first"), &bytes(1, 6000));
            fs::hard_link(source.join("first"), source.join("second")).unwrap();
        });
        let (first, second) = (scene.inside("first"), scene.inside("second"));
        let restore = |program: &str, before: &[&str]| {
            let mut restore = Command::new(program);
            restore.args(before).args(["restore", "--overwrite", "always", "--json", "--target"]);
            restore.arg(&scene.target).arg(&scene.repo).arg("latest").env_remove("PLEACH_REPO");
            restore
        };
        let pleach = env!("CARGO_BIN_EXE_pleach");
        for (is_equal, status) in [(true, 0), (false, 3)] {
            fs::remove_dir_all(&scene.target).unwrap();
            let delay = "inject=renameat2:delay_enter=4000000";
            let slow = ["-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2", "-e", delay, "-P", "second", pleach];
            let slow = running::begin(&mut restore("strace", &slow));
            let is_linked = || fs::metadata(&first).is_ok_and(|status| status.nlink() == 2);
            running::await_that("the first name and a link are there", is_linked);
            // The link gets the second name after the delay.
            match is_equal {
                true => drop(finish(&mut restore(pleach, &[])).expect(0)),
                false => write(second.clone(), b"mine"),
            }
            let run = running::end(slow).expect(status);
            assert_nothing_unfinished(&scene);
            match is_equal {
                true => assert_equal_trees(&scene.source, &scene.inside("")),
                false => {
                    assert!(run.stdout.contains("somebody else meanwhile"), "{run:?}");
                    assert_eq!(fs::read(&second).unwrap(), b"mine");
                }
            }
        }
    }

    fn two_restores_at_the_same_time_come_to_their_end(fs: &Filesystem) {
        let fill = |source: &Path| {
            for number in 0..10 {
                let dir = source.join(format!("directory-{number}/deeper"));
                fs::create_dir_all(&dir).unwrap();
                (0..40).for_each(|file| write(dir.join(format!("file-{file}")), &bytes(number + file, 6000)));
                fs::hard_link(dir.join("file-0"), dir.join("other")).unwrap();
                std::os::unix::fs::symlink("nowhere", dir.join("link")).unwrap();
            }
        };
        let other = fs.elsewhere();
        for scene in [scene(fs, &other, fill), Scene::new(fs, fill)] {
            for options in [&[][..], &["--delete"], &["--overwrite", "always"], &["--overwrite", "if-changed"]] {
                for round in 0..3 {
                    if round < 2 {
                        fs::remove_dir_all(&scene.target).unwrap();
                    } else {
                        tools::files(&scene.target).iter().for_each(|file| {
                            fs::remove_file(file).unwrap();
                            write(file, b"old");
                        });
                    }
                    let begin = || {
                        let mut restore = command(["restore", "--json", "--target"]);
                        let restore = restore.arg(&scene.target).args(options).arg(&scene.repo).arg("latest");
                        restore.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
                    };
                    for run in [begin(), begin()] {
                        Run::new(run.wait_with_output().unwrap(), format!("one of two restores, {options:?} {round}"))
                            .expect(0);
                    }
                    assert_nothing_unfinished(&scene);
                    if round == 2 || options.contains(&"--overwrite") {
                        // Both replaced the names of one inode: they may be two inodes now, each whole.
                        scene.restore(&[""], &scene.options()).unwrap();
                    }
                    assert_equal_trees(&scene.source, &scene.inside(""));
                }
            }
        }
    }
}
