//! `--read PERCENT`: another part each time, and everything once after enough runs.

use super::*;
use std::io::Write as _;

/// Takes all free space, to the last byte.
fn fill(fs: &Filesystem) {
    // On a full disk there may be no room for an inode.
    let files = ["large", "small"].map(|name| File::create(fs.join(name)).unwrap());
    for (mut file, length) in files.into_iter().zip([1 << 20, 512]) {
        let block = vec![7; length];
        while file.write_all(&block).is_ok() {}
        let _ = file.sync_all();
    }
}

on_filesystems! {
    fn after_enough_runs_everything_was_read_once(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        (0..200).for_each(|number| write(source.join(format!("{number}")), &bytes(number, 5000)));
        take("one", &source, &repo);
        take("two", &source, &repo);
        // The start does not matter, and nor does a malformed position.
        fs::write(repo.join(".pleach/verified"), "verified 1 next 7fffffffffffffff\n").unwrap();
        let mut files = 0;
        for part in 0..5 {
            let summary = run(&repo, &["--read", if part % 2 == 0 { "20%" } else { "20" }]).expect(0).summary();
            let now = number(&summary, "checked_files");
            assert!((20..140).contains(&now), "about a fifth of 400: {now}");
            assert_eq!(number(&summary, "files"), 400);
            files += now;
        }
        assert_eq!(files, 400);
        // Every fifth run reads the same.
        let read = || number(&run(&repo, &["--read", "20%"]).expect(0).summary(), "checked_files");
        let first: Vec<_> = (0..5).map(|_| read()).collect();
        assert_eq!(first, (0..5).map(|_| read()).collect::<Vec<_>>());
        // Only part of the snapshots: the position stays.
        let position = || fs::read_to_string(repo.join(".pleach/verified")).unwrap();
        let before = position();
        pleach([OsStr::new("verify"), "--read".as_ref(), "0.5%".as_ref(), repo.as_os_str(), "one".as_ref()]).expect(0);
        assert_eq!(position(), before);
        fs::write(repo.join(".pleach/verified"), "nonsense").unwrap();
        assert_eq!(number(&run(&repo, &["--read", "100"]).expect(0).summary(), "checked_files"), 400);
        assert!(position().starts_with("verified 1 next "));
        assert_eq!(names(&repo.join(".pleach")).iter().filter(|name| name.starts_with("verified")).count(), 1);
    }

    [xfs] fn the_headline_says_what_was_not_read(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 5000));
        take("one", &source, &repo);
        let headline = |option: &[&str]| {
            let words = ["verify"].iter().chain(option).map(OsStr::new).chain([repo.as_os_str()]);
            let run = pleach(words).expect(0);
            let end = format!("found no damage in 1 snapshot of {}", repo.display());
            run.stdout.lines().next().unwrap().strip_prefix(&end).unwrap().to_string()
        };
        assert_eq!(headline(&["--quick"]), "; no data was read");
        let mut halves = [(); 2].map(|()| headline(&["--read=50%"]));
        halves.sort();
        assert_eq!(halves, ["; the data of 0 of 1 file was read", "; the data of 1 of 1 file was read"]);
        assert_eq!((headline(&["--read=100%"]), headline(&[])), (String::new(), String::new()));
    }

    [xfs_small] fn a_part_of_a_full_disk_is_verified_and_nothing_is_left(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        (0..50).for_each(|number| write(source.join(format!("{number}")), &bytes(number, 5000)));
        take("one", &source, &repo);
        fill(fs);
        let before = names(&repo.join(".pleach"));
        let json = run(&repo, &["--read", "5%"]).expect(0);
        assert!(json.json().iter().any(|line| line["code"] == "position-not-recorded"), "{}", json.stdout);
        assert_eq!(number(&json.summary(), "errors"), 0);
        json.saying("free some space");
        assert_eq!(names(&repo.join(".pleach")), before);
        let tag = pleach([OsStr::new("tag"), repo.as_os_str(), "one".as_ref(), "+x".as_ref()]).expect(1);
        tag.saying("no space left");
        let marks = repo.join(".pleach/marks");
        assert!(!marks.exists() || names(&marks).is_empty(), "{:?}", names(&marks));
    }

    fn a_position_that_cannot_be_written_leaves_no_file(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 5000));
        take("one", &source, &repo);
        let before = names(&repo.join(".pleach"));
        // Files can be made and not written to, as on a disk that is full.
        let mut limited = Command::new("sh");
        limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" verify --read 5% --json \"$1\""]);
        let run = finish(limited.arg(env!("CARGO_BIN_EXE_pleach")).arg(&repo)).expect(0);
        assert!(run.json().iter().any(|line| line["code"] == "position-not-recorded"), "{}", run.stdout);
        assert_eq!(names(&repo.join(".pleach")), before);
    }

    fn a_part_of_a_read_only_repository_is_verified_with_a_warning(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        (0..50).for_each(|number| write(source.join(format!("{number}")), &bytes(number, 5000)));
        take("one", &source, &repo);
        let mounted = mounted::Mounted::bind(&repo, &fs.dir("view"));
        let view = fs.join("view");
        finish(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(&view)).expect(0);
        let json = run(&view, &["--read", "5%"]).expect(0).saying("make the repository writable");
        assert_eq!(number(&json.summary(), "errors"), 0);
        drop(mounted);
        assert!(!repo.join(".pleach/verified").exists());
    }

    fn damage_is_found_by_the_run_that_reads_it(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        (0..50).for_each(|number| write(source.join(format!("{number}")), &bytes(number, 5000)));
        take("one", &source, &repo);
        let tree = inside(&repo, "one", &source);
        change(&repo, "one", || overwrite_quietly(&tree.join("33"), 5, b"rotten"));
        let statuses: Vec<_> = (0..4).map(|_| run(&repo, &["--read", "25%"]).status).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 4).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 0).count(), 3, "{statuses:?}");
    }
}
