//! `pleach find`: the snapshots that have a path, by the patterns of `--exclude`.

use crate::diff::{damage, take};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

fn find(repo: &Path, pattern: &str) -> Run {
    pleach(["find".as_ref(), "--json".as_ref(), repo.as_os_str(), OsStr::new(pattern)])
}

/// The paths as `path first last number`, relative to the source.
#[track_caller]
fn found(repo: &Path, source: &Path, pattern: &str) -> Vec<String> {
    let lines = find(repo, pattern).expect(0).lines_of_type("path");
    let shown = lines.iter().map(|line| {
        let path = Path::new(line["path"].as_str().unwrap());
        let path = path.strip_prefix(source).unwrap_or(path).display().to_string();
        let slash = if line["directory"] == true { "/" } else { "" };
        let [first, last] = ["first", "last"].map(|field| line[field].as_str().unwrap());
        format!("{path}{slash} {first} {last} {}", line["snapshots"])
    });
    shown.collect()
}

on_filesystems! {
    fn paths_come_with_their_first_and_last_snapshot(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        fs::create_dir_all(source.join("ann/docs")).unwrap();
        for name in ["ann/notes.txt", "ann/docs/a.txt", "ann/docs/b.md", "notes.txt"] {
            write(source.join(name), b"text");
        }
        take("s1", &source, &repo);
        fs::remove_file(source.join("ann/notes.txt")).unwrap();
        take("s2", &source, &repo);
        write(source.join("ann/notes.txt"), b"text");
        fs::remove_dir_all(source.join("ann/docs")).unwrap();
        write(source.join("ann/docs"), b"now a file");
        take("s3", &source, &repo);
        assert_eq!(found(&repo, &source, "notes.txt"), ["notes.txt s1 s3 3", "ann/notes.txt s1 s3 2"]);
        assert_eq!(found(&repo, &source, "ann/*.txt"), ["ann/notes.txt s1 s3 2"]);
        assert_eq!(found(&repo, &source, "*.md"), ["ann/docs/b.md s1 s2 2"]);
        assert_eq!(found(&repo, &source, "docs"), ["ann/docs s3 s3 1", "ann/docs/ s1 s2 2"]);
        assert_eq!(found(&repo, &source, "docs/"), ["ann/docs/ s1 s2 2"]);
        let absolute = source.join("**/a.txt").display().to_string();
        assert_eq!(found(&repo, &source, &absolute), ["ann/docs/a.txt s1 s2 2"]);
        assert_eq!(found(&repo, &source, "nothing"), [""; 0]);
        let all = find(&repo, "*").expect(0).summary();
        assert_eq!((number(&all, "snapshots"), number(&all, "errors")), (3, 0));
        let table = pleach(["find".as_ref(), repo.as_os_str(), "docs".as_ref()]).expect(0);
        let table = table.saying("2 paths in 3 snapshots");
        assert!(table.stdout.lines().last().unwrap().ends_with("ann/docs/"), "{}", table.stdout);
        pleach(["find".as_ref(), repo.as_os_str(), "nothing".as_ref()]).expect(0).saying("nothing matches");
        for wrong in ["!notes.txt", "", "a{", "../a"] {
            find(&repo, wrong).expect(2);
        }
    }

    [xfs] fn every_path_is_that_of_the_trees(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        take("one", &source, &repo);
        tree::plain(&source);
        fs::remove_dir_all(source.join("names")).unwrap();
        take("two", &source, &repo);
        let below = format!("{}/**", source.display());
        let lines = find(&repo, &below).expect(0).lines_of_type("path");
        let of = |name: &str| tools::paths(&inside(&repo, name, &source)).len() - 1;
        let [one, two] = [of("one"), of("two")];
        let sum: u64 = lines.iter().map(|line| number(line, "snapshots")).sum();
        assert_eq!(sum as usize, one + two);
        let text = pleach(["find".as_ref(), repo.as_os_str(), OsStr::new(&below)]).expect(0).stdout;
        assert!(!text.contains('\x1b') && text.lines().count() == lines.len() + 1, "{text}");
    }

    [xfs] fn more_snapshots_than_open_files_are_searched(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("letter"), b"Dear Ann");
        for number in 0..50 {
            write(source.join(format!("file-{number:02}")), b"text");
            take(&format!("s{number:02}"), &source, &repo);
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n 32 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pleach"), "find", "--json"]);
        let run = finish(shell.arg(&repo).arg("*")).expect(0);
        let summary = run.summary();
        assert_eq!((number(&summary, "snapshots"), number(&summary, "errors")), (50, 0));
        let counts: Vec<_> = run.lines_of_type("path").iter().map(|line| number(line, "snapshots")).collect();
        assert!(counts.contains(&50) && counts.contains(&1), "{counts:?}");
    }

    [xfs] fn a_damaged_block_or_manifest_hides_only_itself(fs: &Filesystem) {
        let (_, repo) = damage::snapshots_of_which_two_is_damaged(fs);
        let run = find(&repo, "file-*").expect(3).saying("its checksum is wrong");
        let lines = run.lines_of_type("path");
        assert_eq!(lines.len(), 4500);
        let lost = lines.iter().filter(|line| number(line, "snapshots") == 2).count();
        assert!(lost > 100 && lost < 2000, "{lost}");
        assert!(lines.iter().all(|line| line["first"] == "one" && line["last"] == "three"));
        fs::write(repo.join(".pleach/manifests/one"), b"not a manifest").unwrap();
        let run = find(&repo, "file-000000").expect(3);
        assert_eq!((number(&run.summary(), "errors"), number(&run.summary(), "snapshots")), (2, 2));
    }
}
