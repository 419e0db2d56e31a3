//! `pleach log`: the versions of a path, by content.

use crate::diff::{damage, take};
use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

fn log(repo: &Path, path: &Path, more: &[&OsStr]) -> Run {
    let words = ["log".as_ref(), repo.as_os_str(), path.as_os_str()];
    pleach(words.into_iter().chain(more.iter().copied()))
}

/// The versions as `kind first last number`.
fn versions(run: &Run) -> Vec<String> {
    let text = |line: &Value, field: &str| line[field].as_str().unwrap().to_string();
    let lines = run.json().into_iter().filter(|line| line["type"] == "version" || line["type"] == "absence");
    let shown = lines.map(|line| {
        format!("{} {} {} {}", text(&line, "kind"), text(&line, "first"), text(&line, "last"), line["snapshots"])
    });
    shown.collect()
}

on_filesystems! {
    fn versions_are_those_of_the_content_with_the_newest_first(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let path = source.join("dir/file");
        fs::create_dir(source.join("dir")).unwrap();
        write(source.join("keep"), b"a source without files is refused");
        take("s1", &source, &repo);
        write(&path, b"first");
        take("s2", &source, &repo);
        tree::set_mtime(&path, 1_600_000_000, 0);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        take("s3", &source, &repo);
        write(&path, b"second one");
        take("s4", &source, &repo);
        fs::remove_file(&path).unwrap();
        take("s5", &source, &repo);
        take("s6", &source, &repo);
        write(&path, b"first");
        take("s7", &source, &repo);
        fs::remove_file(&path).unwrap();
        symlink("target", &path).unwrap();
        take("s8", &source, &repo);
        fs::remove_file(&path).unwrap();
        take("s9", &source, &repo);
        // A snapshot of other sources has no say.
        let other = fs.dir("other");
        take("t", &other, &repo);

        let run = log(&repo, &path, &["--json".as_ref()]).expect(0);
        let wanted = ["absent s9 s9 1", "symlink s8 s8 1", "absent s5 s6 2", "file s4 s4 1", "file s2 s7 3"];
        assert_eq!(versions(&run), wanted);
        let lines = run.lines_of_type("version");
        assert_eq!((number(&lines[1], "size"), number(&lines[2], "size")), (10, 5));
        assert_eq!(lines[2]["blake3"], blake3::hash(b"first").to_hex().as_str());
        assert_eq!(lines[0]["target"]["path"], "target");
        let summary = run.summary();
        assert_eq!((number(&summary, "versions"), number(&summary, "snapshots")), (3, 9));
        let table = log(&repo, &path, &[]).expect(0).stdout;
        assert!(table.lines().count() == 7 && table.contains("-> target"), "{table}");
        assert!(table.lines().all(|line| line.len() <= 80), "{table}");

        let dir = log(&repo, &source.join("dir"), &["--json".as_ref()]).expect(0);
        assert_eq!(versions(&dir)[0].split(' ').next(), Some("directory"));
        let nowhere = source.join("nowhere");
        let message = format!("cannot find {} in any snapshot in {}", nowhere.display(), repo.display());
        log(&repo, &nowhere, &[]).expect(1).saying(&message);
        log(&repo, Path::new("file"), &[]).expect(2).saying("not absolute");
    }

    [xfs] fn a_directory_has_a_version_for_each_change_of_its_entries_and_not_of_its_time(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let dir = source.join("dir");
        // More records in a subdirectory than are passed one by one, and a name that sorts right behind it.
        fs::create_dir_all(dir.join("sub/deep")).unwrap();
        tree::crowded(&dir.join("sub/deep"), 2000);
        fs::create_dir_all(dir.join("sub-2")).unwrap();
        write(dir.join("file"), b"first");
        take("s1", &source, &repo);
        tree::set_mtime(&dir, 1_600_000_000, 0);
        write(dir.join("file"), b"second");
        write(dir.join("sub/deep/more"), b"x");
        take("s2", &source, &repo);
        fs::create_dir(dir.join("sub-3")).unwrap();
        tree::set_mtime(&dir, 1_600_000_000, 0);
        take("s3", &source, &repo);
        fs::remove_dir(dir.join("sub-2")).unwrap();
        take("s4", &source, &repo);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        take("s5", &source, &repo);
        fs::remove_file(dir.join("file")).unwrap();
        symlink("target", dir.join("file")).unwrap();
        take("s6", &source, &repo);
        take("s7", &source, &repo);
        let run = log(&repo, &dir, &["--json".as_ref()]).expect(0);
        let wanted = ["s6 s7 2", "s5 s5 1", "s4 s4 1", "s3 s3 1", "s1 s2 2"].map(|text| format!("directory {text}"));
        assert_eq!(versions(&run), wanted);
    }

    [xfs] fn without_hashes_size_time_and_inode_make_a_version(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let path = source.join("file");
        let take = |name: &str| {
            settle();
            let args = snapshot_named(name, &source, &repo);
            pleach(args.into_iter().chain(["--hash".as_ref(), "none".as_ref()])).expect(0);
        };
        write(&path, b"first");
        take("one");
        take("two");
        write(&path, b"other");
        take("three");
        let run = log(&repo, &path, &["--json".as_ref()]).expect(0);
        assert_eq!(versions(&run), ["file three three 1", "file one two 2"]);
        assert!(run.lines_of_type("version")[0]["blake3"].is_null());
    }

    [xfs] fn only_the_blocks_of_the_path_are_read_and_damage_hides_one_snapshot(fs: &Filesystem) {
        let (source, repo) = damage::snapshots_of_which_two_is_damaged(fs);
        // Blocks elsewhere do not matter, and are not even read.
        for path in ["a/file-000000", "c/file-001499"] {
            let run = log(&repo, &source.join(path), &["--json".as_ref()]).expect(0);
            assert_eq!(versions(&run), ["file one three 3"], "{path}");
        }
        let damaged = |number: &usize| {
            let path = source.join(format!("{}/file-{:06}", ["a", "b"][number % 2], number / 2 * 100));
            log(&repo, &path, &["--json".as_ref()]).status == 3
        };
        let number = (0..30).find(damaged).expect("a path lies in the damaged block");
        let path = source.join(format!("{}/file-{:06}", ["a", "b"][number % 2], number / 2 * 100));
        let run = log(&repo, &path, &["--json".as_ref()]).expect(3).saying("its checksum is wrong");
        assert_eq!(versions(&run), ["file one three 2"]);
        fs::remove_file(repo.join(".pleach/manifests/three")).unwrap();
        let run = log(&repo, &path, &["--json".as_ref()]).expect(3);
        assert_eq!(versions(&run), ["file one one 1"]);
    }
}
