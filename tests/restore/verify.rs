//! Restored files are checked against the hashes in the manifest.

use super::Scene;
use crate::harness::tools::assert_equal_trees;
use crate::harness::*;
use crate::on_filesystems;
use pleach::snapshot::restore::Options;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn fill(dir: &Path) {
    for (number, size) in [0, 100, 5000, 300_000, 3 << 20].into_iter().enumerate() {
        write(dir.join(format!("file {number}")), &bytes(number as u64, size));
    }
}

/// Corrupts a file in the newest snapshot.
fn rot(scene: &Scene, name: &str) {
    let path = inside(&scene.repo, "latest", &scene.source).join(name);
    let writable = |flag| {
        let dir = scene.repo.join("latest").canonicalize().unwrap();
        let _ =
            std::process::Command::new("btrfs").args(["property", "set", "-ts"]).arg(dir).args(["ro", flag]).output();
    };
    writable("false");
    File::options().write(true).open(path).unwrap().write_all_at(b"rotten", 10).unwrap();
    writable("true");
}

fn restore(scene: &Scene, args: &[&str]) -> Run {
    let mut command = command(["restore", "--json", "--target"]);
    finish(command.arg(&scene.target).args(args).arg(&scene.repo).arg(OsStr::new("latest")))
}

on_filesystems! {
    fn rotten_files_of_the_snapshot_are_named_and_not_restored(fs: &Filesystem) {
        let scene = Scene::new(fs, fill);
        rot(&scene, "file 1");
        rot(&scene, "file 4");
        // One of them replaces an existing file.
        std::fs::create_dir_all(scene.inside("")).unwrap();
        write(scene.inside("file 4"), b"older");
        let run = restore(&scene, &["--verify"]).expect(4).saying("file 1'").saying("file 4'").saying("hash");
        assert_eq!((number(&run.summary(), "damaged"), number(&run.summary(), "verified_files")), (2, 2));
        assert!(!scene.inside("file 1").exists());
        assert_eq!(std::fs::read(scene.inside("file 4")).unwrap(), b"older");
        assert_eq!(std::fs::read(scene.inside("file 3")).unwrap(), bytes(3, 300_000));
        assert_eq!(names(&scene.inside("")), ["file 0", "file 2", "file 3", "file 4"], "nothing is left behind");
    }

    fn copied_data_is_checked_on_its_way(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene { target: other.dir("target"), ..Scene::new(fs, fill) };
        rot(&scene, "file 3");
        let run = restore(&scene, &[]).expect(4).saying("file 3'");
        assert_eq!((number(&run.summary(), "damaged"), number(&run.summary(), "verified_files")), (1, 3));
        assert!(!scene.inside("file 3").exists());
    }

    fn with_verify_all_that_is_restored_or_found_is_read(fs: &Filesystem) {
        let other = fs.elsewhere();
        for target in [fs.dir("target"), other.dir("target")] {
            let scene = Scene::new(fs, fill);
            let scene = Scene { target, ..scene };
            let options = Options { verify: true, ..scene.options() };
            let (stats, _, problems) = scene.recorded(&options);
            assert_eq!((problems, stats.verified_files), (vec![], 4));
            assert_eq!(stats.read_bytes, 100 + 5000 + 300_000 + (3 << 20));
            assert_equal_trees(&scene.source, &scene.inside(""));
            let stats = scene.recorded(&options).0;
            assert_eq!((stats.compared_files, stats.verified_files, stats.unchanged_files), (4, 0, 5));
            assert_eq!(stats.read_bytes, 100 + 5000 + 300_000 + (3 << 20));
            std::fs::remove_dir_all(&scene.source).unwrap();
            std::fs::rename(&scene.repo, fs.join(format!("old repo {}", stats.seconds.to_bits()))).unwrap();
        }
    }
}
