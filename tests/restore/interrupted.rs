//! A restore that ends early reports its changes so far.

use super::Scene;
use crate::harness::stop::StopAfter;
use crate::harness::*;
use crate::on_filesystems;
use pleach::error::ErrorKind;
use pleach::monitor::Change;
use pleach::snapshot::restore::{self, Options, Overwrite};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

on_filesystems! {
    fn what_was_done_before_an_interruption_is_counted(fs: &Filesystem) {
        let scene = Scene::new(fs, |dir| {
            for number in 0..40 {
                fs::create_dir(dir.join(format!("dir {number:02}"))).unwrap();
                (0..50).for_each(|file| write(dir.join(format!("dir {number:02}/{file}")), &bytes(file, 600)));
            }
        });
        for number in (0..40).step_by(2) {
            (0..50).for_each(|file| write(scene.source.join(format!("dir {number:02}/{file}")), b"mine"));
            write(scene.source.join(format!("dir {number:02}/extra")), b"x");
            fs::remove_dir_all(scene.source.join(format!("dir {:02}", number + 1))).unwrap();
        }
        let options = Options { delete: true, ..scene.in_place() };
        let state = || {
            let (mut restored, mut mine, mut extra) = (0, 0, 0);
            for file in tools::files(&scene.source) {
                match fs::read(&file).unwrap() {
                    content if content == b"mine" => mine += 1,
                    content if content == b"x" => extra += 1,
                    _ => restored += 1,
                }
            }
            (restored, mine, extra)
        };
        assert_eq!(state(), (0, 1000, 20));
        for entries in [1, 300, 900, 1500, 1900] {
            let before = state();
            let monitor = StopAfter::entries(entries);
            let Err(stopped) = restore::restore(&scene.repo, "latest", &[], &options, &monitor) else { break };
            assert_eq!(stopped.error.kind(), ErrorKind::Interrupted);
            assert!(!stopped.error.to_string().contains("nothing"), "{}", stopped.error);
            let (after, stats) = (state(), stopped.stats.expect("it had begun"));
            assert_eq!(stats.replaced_entries, before.1 - after.1, "{entries}: {stats:?}");
            assert_eq!(stats.deleted, before.2 - after.2, "{entries}: {stats:?}");
            let made = (after.0 - before.0) - (before.1 - after.1);
            assert!(stats.new_entries >= made && stats.new_entries <= made + 21, "{entries}: {made} {stats:?}");
        }
        let stats = scene.recorded(&options).0;
        assert_eq!((stats.errors, state()), (0, (2000, 0, 0)), "run again, it comes to its end");
    }

    fn the_next_run_completes_the_directories_on_the_way(fs: &Filesystem) {
        let (way, home) = (fs.dir("way"), fs.join("way/home"));
        let scene = Scene { source: fs.dir("way/home/ann"), repo: fs.join("repo"), target: fs.dir("target") };
        (0..300).for_each(|file| write(scene.source.join(file.to_string()), &bytes(file, 600)));
        for (dir, mode) in [(&way, 0o711), (&home, 0o2755)] {
            fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
            File::open(dir).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        }
        snapshot(&scene.source, &scene.repo);
        let inside = |path: &Path| scene.target.join(path.strip_prefix("/").unwrap());
        let state = |path: &Path| {
            let found = fs::metadata(path).unwrap();
            (found.mode(), found.uid(), found.gid(), found.modified().unwrap())
        };
        // The user's own directory, of another mode than the snapshot's.
        let own = inside(way.parent().unwrap());
        fs::create_dir_all(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
        let options = Options { target: scene.target.clone(), ..Options::default() };
        for left in [0o5700, 0o1700] {
            let stopped = restore::restore(&scene.repo, "latest", &[], &options, &StopAfter::entries(100));
            assert_eq!(stopped.unwrap_err().error.kind(), ErrorKind::Interrupted);
            assert_eq!(fs::metadata(inside(&home)).unwrap().mode() & 0o7777, 0o5700);
            // A kill may leave it as it was made.
            fs::set_permissions(inside(&home), fs::Permissions::from_mode(left)).unwrap();
            assert_eq!(scene.recorded(&options).0.errors, 0);
            for dir in [&way, &home, &scene.source] {
                assert_eq!(state(&inside(dir)), state(dir), "{}", dir.display());
            }
            assert_eq!(fs::metadata(&own).unwrap().mode() & 0o7777, 0o700);
            fs::remove_dir_all(inside(&way)).unwrap();
        }
    }

    fn the_counts_of_a_dry_run_are_those_of_the_run(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::every_kind);
        crate::restore::disturb(&scene.source);
        let options = Options { delete: true, ..scene.in_place() };
        let (planned, plan, _) = scene.recorded(&Options { dry_run: true, ..options.clone() });
        let done = scene.recorded(&options).0;
        let count = |change| plan.iter().filter(|line| line.0 == change).count() as u64;
        assert_eq!((planned.new_entries, planned.replaced_entries), (done.new_entries, done.replaced_entries));
        assert_eq!((planned.new_entries, planned.deleted), (count(Change::Added), count(Change::Removed)));
        assert_eq!(planned.replaced_entries, count(Change::Content) + count(Change::Type));
        assert_eq!((planned.metadata_entries, planned.deleted), (done.metadata_entries, done.deleted));
    }

    [xfs_small] fn a_full_disk_ends_it_with_the_counts(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene { source: other.dir("source"), repo: other.join("repo"), target: fs.dir("target") };
        for number in 0..45 {
            write(scene.source.join(format!("{number:03}")), &bytes(number, 8 << 20));
        }
        let name = snapshot(&scene.source, &scene.repo)["name"].clone();
        let mut command = command(["restore", "--json", "--target"]);
        let run = finish(command.arg(&scene.target).arg(&scene.repo).arg("latest")).expect(1);
        assert!(run.stderr.contains("No space left"), "{}", run.stderr);
        assert!(run.stderr.contains("partly restored"), "{}", run.stderr);
        let summary = run.summary();
        assert_eq!((&summary["complete"], &summary["snapshot"]), (&Value::Bool(false), &name));
        let dirs = scene.inside("").strip_prefix(&scene.target).unwrap().components().count() as u64;
        assert_eq!(number(&summary, "new_entries"), names(&scene.inside("")).len() as u64 + dirs);
    }

    [xfs] fn an_interruption_by_signal_says_what_was_changed(fs: &Filesystem) {
        let scene = Scene::new(fs, |source| tree::crowded(source, 3000));
        for file in tools::files(&scene.source) {
            write(&file, b"another content");
        }
        let mut child = command(["restore", "--overwrite", "always", "--json", "--target", "/"]);
        let child = child.arg(&scene.repo).arg("latest");
        let child = child.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let is_begun =
            || tools::files(&scene.source).iter().any(|file| fs::read(file).is_ok_and(|now| now != b"another content"));
        while !is_begun() {}
        running::signal(&child, rustix::process::Signal::INT);
        let run = running::end(child);
        // It may have finished before the signal.
        if run.status == 130 {
            assert!(!run.stderr.contains("nothing that was there"), "{}", run.stderr);
            assert!(run.stderr.contains("partly restored") && run.stderr.contains("again"), "{}", run.stderr);
            assert_eq!(run.summary()["complete"], false);
            assert!(number(&run.summary(), "replaced_entries") > 0);
        }
        let options = Options { overwrite: Overwrite::IfDifferent, ..scene.in_place() };
        assert_eq!(scene.recorded(&options).0.errors, 0);
    }
}
