//! Filesystems that fail during a restore: the restore fails too, reports only entries that are on the disk as
//! restored, and the next run completes the work.

use super::Scene;
use crate::harness::failing_disk::FailingDisk;
use crate::harness::own::Own;
use crate::harness::power::{Shutdown, shut_down};
use crate::harness::tools::assert_equal_trees;
use crate::harness::*;
use crate::on_filesystems;
use pleach::copy_tree;
use pleach::error::ErrorKind;
use pleach::monitor::{Amount, Monitor};
use pleach::snapshot::{create, restore};
use std::fs;
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shuts a filesystem down after this many entries.
struct ShutDownAfter {
    entries: u64,
    seen: AtomicU64,
    once: Once,
    mount: PathBuf,
    how: Shutdown,
}

impl ShutDownAfter {
    fn new(entries: u64, own: &Own, how: Shutdown) -> ShutDownAfter {
        let mount = own.path().to_path_buf();
        ShutDownAfter { entries, seen: AtomicU64::default(), once: Once::new(), mount, how }
    }
}

impl Monitor for ShutDownAfter {
    fn advance(&self, done: Amount) {
        if self.seen.fetch_add(done.files, Ordering::Relaxed) + done.files >= self.entries {
            self.once.call_once(|| shut_down(&self.mount, self.how));
        }
    }
}

const FILES: u64 = 400;

fn files(scene: &Scene) {
    for number in 0..FILES {
        write(scene.source.join(format!("{number:03}")), &bytes(number, 20_000));
    }
}

on_filesystems! {
    [xfs, ext4] fn a_filesystem_that_is_shut_down_under_a_restore_makes_it_fail(fs: &Filesystem) {
        for how in [Shutdown::LogWritten, Shutdown::AtOnce] {
            // The filesystem of the target, of the repository, and of both.
            for (target_dies, repo_dies) in [(true, false), (false, true), (true, true)] {
                let Some(mut own) = Own::new(fs.kind, "restore::failed", 512, &[], "") else { return };
                let safe = fs.dir(format!("{how:?} {target_dies} {repo_dies}"));
                let at = |dies, name: &str| if dies { own.join(name) } else { safe.join(name) };
                let scene = Scene {
                    source: safe.join("source"),
                    repo: at(repo_dies, "repo"),
                    target: at(target_dies, "target"),
                };
                fs::create_dir(&scene.source).unwrap();
                files(&scene);
                snapshot(&scene.source, &scene.repo);
                // After a remount, nothing of the repository is in memory.
                own.remount();
                let monitor = ShutDownAfter::new(50, &own, how);
                let stopped = restore::restore(&scene.repo, "latest", &[], &scene.options(), &monitor)
                    .expect_err("its filesystem is gone");
                assert_eq!(stopped.error.kind(), ErrorKind::Failed, "{}", stopped.error);
                own.remount();
                let (stats, _, problems) = scene.recorded(&scene.options());
                assert_eq!((stats.errors, problems), (0, vec![]));
                own.remount();
                assert_equal_trees(&scene.source, &scene.inside(""));
            }
        }
    }

    [xfs, ext4] fn a_filesystem_that_is_shut_down_under_a_copy_makes_it_fail(fs: &Filesystem) {
        for source_dies in [false, true] {
            let Some(mut own) = Own::new(fs.kind, "restore::failed", 512, &[], "") else { return };
            let safe = fs.dir(format!("{source_dies}"));
            let (source, target) = if source_dies { (own.path(), &*safe) } else { (&*safe, own.path()) };
            let scene = Scene { source: source.join("source"), repo: safe.join("repo"), target: target.join("target") };
            fs::create_dir(&scene.source).unwrap();
            files(&scene);
            own.remount();
            let monitor = ShutDownAfter::new(50, &own, Shutdown::AtOnce);
            let options = copy_tree::Options { threads: Some(2), ..copy_tree::Options::default() };
            let error = copy_tree::copy(&[scene.source], &scene.target, &options, &monitor)
                .expect_err("its filesystem is gone");
            assert_eq!(error.error.kind(), ErrorKind::Failed, "{error}");
        }
    }

    [xfs, ext4] fn a_filesystem_that_is_shut_down_under_a_snapshot_of_it_makes_that_fail(fs: &Filesystem) {
        let Some(mut own) = Own::new(fs.kind, "restore::failed", 512, &[], "") else { return };
        let scene = Scene { source: own.join("source"), repo: fs.join("repo"), target: fs.join("target") };
        fs::create_dir(&scene.source).unwrap();
        files(&scene);
        own.remount();
        let monitor = ShutDownAfter::new(50, &own, Shutdown::AtOnce);
        let options = create::Options { threads: Some(2), ..create::Options::default() };
        let sources = [scene.source.clone()];
        let error = create::create(&sources, &scene.repo, &options, &monitor).expect_err("its filesystem is gone");
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        assert_eq!(published(&scene.repo), [""; 0]);
        own.remount();
        snapshot(&scene.source, &scene.repo);
        assert_equal_trees(&scene.source, &inside(&scene.repo, "latest", &scene.source));
    }

    [xfs] fn writes_that_fail_once_make_a_restore_fail_and_the_next_one_repairs_it(fs: &Filesystem) {
        let other = fs.elsewhere();
        let disk = FailingDisk::new(fs);
        let scene = Scene { source: other.dir("source"), repo: other.join("repo"), target: disk.join("target") };
        for number in 0..200 {
            write(scene.source.join(format!("{number:03}")), &bytes(number, 300_000));
        }
        snapshot(&scene.source, &scene.repo);
        for replaces in [false, true] {
            let _ = fs::remove_dir_all(&scene.target);
            if replaces {
                fs::create_dir_all(scene.inside("")).unwrap();
                for number in 0..200 {
                    write(scene.inside(&format!("{number:03}")), &bytes(1000 + number, 5000));
                }
            }
            disk.breaks_after(8 << 20);
            let mut command = command(["restore", "--json", "--target"]);
            let run = finish(command.arg(&scene.target).arg(&scene.repo).arg("latest")).expect(1);
            assert_eq!(run.summary()["complete"], false);
            disk.is_mended();
            for file in tools::files(&scene.target) {
                let name = file.file_name().unwrap().to_str().unwrap();
                let Ok(original) = scene.source.join(name).metadata() else { continue };
                let meta = file.metadata().unwrap();
                let looks_restored =
                    (meta.len(), meta.modified().unwrap()) == (original.len(), original.modified().unwrap());
                let content = fs::read(&file).unwrap();
                let is_old = replaces && content == bytes(1000 + name.parse::<u64>().unwrap(), 5000);
                assert!(
                    is_old || !looks_restored || content == fs::read(scene.source.join(name)).unwrap(),
                    "{name} only looks restored"
                );
                assert!(
                    is_old || !replaces || content == fs::read(scene.source.join(name)).unwrap(),
                    "{name} is neither the old nor the new one"
                );
            }
            let (stats, _, problems) = scene.recorded(&scene.options());
            assert_eq!((stats.errors, problems), (0, vec![]));
            disk.remount();
            assert_equal_trees(&scene.source, &scene.inside(""));
        }
    }
}
