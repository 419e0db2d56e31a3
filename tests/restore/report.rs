//! The report of a restore: the snapshot that it used, the repository that it skipped, and why it cannot begin.

use super::Scene;
use crate::harness::*;
use crate::on_filesystems;
use pleach::snapshot::restore::Options;
use std::ffi::OsStr;
use std::fs;
use std::process::Command;

on_filesystems! {
    [xfs] fn the_summary_names_the_snapshot_that_was_used(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        let name = snapshot(&scene.source, &scene.repo)["name"].as_str().unwrap().to_string();
        let restore = |more: &[&str]| {
            let args = ["restore".as_ref(), "--target".as_ref(), scene.target.as_os_str(), scene.repo.as_ref()];
            pleach(args.into_iter().chain(["latest".as_ref()]).chain(more.iter().map(OsStr::new))).expect(0)
        };
        assert!(restore(&[]).stdout.contains(&format!("restored {name} below")));
        restore(&["--dry-run"]).saying(&name);
        assert_eq!(restore(&["--json"]).summary()["snapshot"], *name);
        assert_eq!(restore(&["--json", "--dry-run"]).summary()["snapshot"], *name);
        // A run that failed before it began has no summary.
        let args = ["restore", "--json", "--target", "/proc/self/no-directory"].map(OsStr::new);
        let run = pleach(args.into_iter().chain([scene.repo.as_os_str(), "latest".as_ref()])).expect(1);
        assert_eq!((run.stdout.lines().count(), run.stdout.starts_with(r#"{"type":"error""#)), (1, true));
    }

    fn the_repository_in_a_restored_directory_is_skipped_with_a_notice(fs: &Filesystem) {
        let scene = Scene { source: fs.dir("source"), repo: fs.join("source/backup"), target: "/".into() };
        tree::plain(&scene.source);
        snapshot(&scene.source, &scene.repo);
        write(scene.source.join("extra"), b"x");
        let before = tools::inventory(&scene.repo.join(".pleach"));
        for more in ["--dry-run", "-v"] {
            let args = ["restore", "--delete", more, "--target", "/"].map(OsStr::new);
            let run = pleach(args.into_iter().chain([scene.repo.as_os_str(), "latest".as_ref()])).expect(0);
            assert!(run.saying("the repository itself").stderr.contains("source/backup"));
        }
        assert!(!scene.source.join("extra").exists());
        assert_eq!(tools::inventory(&scene.repo.join(".pleach")), before);
        let (stats, _, problems) = scene.recorded(&Options { delete: true, ..scene.in_place() });
        assert_eq!((stats.errors, problems), (0, vec![]));
    }

    [xfs] fn without_proc_one_error_says_what_is_missing(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        fs::remove_dir(&scene.target).unwrap();
        let (source, repo, target) = (scene.source.as_os_str(), scene.repo.as_os_str(), scene.target.as_os_str());
        let commands: [&[&OsStr]; 3] = [
            &["restore".as_ref(), "--target".as_ref(), target, repo, "latest".as_ref()],
            &["copy".as_ref(), source, target],
            &["snapshot".as_ref(), source, target],
        ];
        for args in commands {
            let mut unshare = Command::new("unshare");
            let script = "mount -t tmpfs none /proc && exec \"$@\"";
            unshare.args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_pleach")]).args(args);
            let run = finish(unshare.env_remove("PLEACH_REPO")).expect(1).saying("/proc is not mounted");
            assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
            assert!(!scene.target.exists(), "nothing was begun");
        }
    }
}
