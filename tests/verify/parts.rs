//! `--read PERCENT`: another part each time, and everything once after enough runs.

use super::*;

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
