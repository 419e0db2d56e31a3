//! The sources of a snapshot: a repository below a source is excluded, and a source that is suddenly empty is refused.

use crate::harness::json_lines::Warning;
use crate::harness::mounted::Mounted;
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

fn try_snapshot(options: &[&str], sources: &[&Path], repo: &Path) -> Run {
    settle();
    let options = options.iter().map(OsStr::new);
    let paths = sources.iter().copied().chain([repo]).map(Path::as_os_str);
    pleach(["snapshot", "--json"].iter().map(OsStr::new).chain(options).chain(paths))
}

on_filesystems! {
    fn a_repository_below_its_source_is_left_out_and_named(fs: &Filesystem) {
        let source = fs.dir("source");
        tree::plain(&source);
        let repo = source.join("c/repo");
        for (name, unchanged) in [("one", 0), ("two", 5)] {
            let run = try_snapshot(&["--name", name], &[&source], &repo).expect(0);
            assert_eq!(number(&run.summary(), "errors"), 0);
            assert_eq!(number(&run.summary(), "files"), 5);
            assert_eq!(number(&run.summary(), "unchanged_files"), unchanged);
            let lines = run
                .stderr
                .lines()
                .filter(|line| line.contains("skipped the repository itself") && line.contains("c/repo"));
            assert_eq!(lines.count(), 1, "{}", run.stderr);
            let warnings = run.lines::<Warning>();
            let warning = warnings.iter().find(|warning| warning.code == "repository-skipped");
            assert_eq!(warning.and_then(|warning| warning.path.as_deref()), repo.to_str(), "{}", run.stdout);
            assert_eq!(names(&inside(&repo, name, &source).join("c")), ["d", "one", "two"]);
        }
        let plan = try_snapshot(&["--dry-run"], &[&source], &repo).expect(0).saying("skipped the repository itself");
        assert!(!plan.stdout.contains("c/repo/"), "{}", plan.stdout);
        // A restore with --delete removes neither the repository nor anything in it.
        let args = ["restore", "--delete", "--target", "/"].iter().map(OsStr::new);
        let run = pleach(args.chain([repo.as_os_str(), "latest".as_ref(), source.as_os_str()]));
        assert!([0, 3].contains(&run.status), "{}", run.stderr);
        assert_eq!(listed(&repo), ["one", "two"]);
    }

    [xfs] fn a_repository_mounted_below_its_source_is_left_out_there_too(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        snapshot(&source, &repo);
        let _bind = Mounted::bind(&repo, &source.join("again"));
        let run = try_snapshot(&["--name", "two"], &[&source], &repo).expect(0).saying("skipped the repository itself");
        assert_eq!(number(&run.summary(), "files"), 5);
        // Paths inside the repository are not allowed as sources, however they are written.
        let within = source.join("again/two");
        try_snapshot(&[], &[&within], &repo).expect(2).saying("inside");
        try_snapshot(&[], &[&source.join("again")], &repo).expect(2).saying("inside");
    }

    fn a_source_that_is_suddenly_empty_is_refused(fs: &Filesystem) {
        let (source, other, repo) = (fs.dir("source"), fs.dir("other"), fs.join("repo"));
        tree::plain(&source);
        tree::plain(&other);
        try_snapshot(&["--name", "one"], &[&source, &other], &repo).expect(0);
        fs::rename(&source, fs.join("aside")).unwrap();
        fs::create_dir(&source).unwrap();
        for options in [&[][..], &["--dry-run"]] {
            let run = try_snapshot(options, &[&source, &other], &repo).expect(1);
            run.saying(&source.to_string_lossy()).saying("one has files there").saying("--allow-empty");
        }
        try_snapshot(&[], &[&source], &repo).expect(1).saying("is the disk mounted");
        // In the state that mkfs leaves.
        fs::create_dir(source.join("lost+found")).unwrap();
        try_snapshot(&[], &[&source, &other], &repo).expect(1);
        assert_eq!(listed(&repo), ["one"]);
        assert_no_leftovers(&repo);
        // One of its directories was also part of the last snapshot.
        fs::create_dir_all(source.join("c")).unwrap();
        try_snapshot(&[], &[&source.join("c")], &repo).expect(1);
        fs::remove_dir(source.join("c")).unwrap();

        // Directories do not count as files, at any depth, unless a file is among them.
        let deep = source.join("photos/2026/november");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir_all(source.join("videos")).unwrap();
        try_snapshot(&[], &[&source, &other], &repo).expect(1).saying("without files").saying("--allow-empty");
        assert_eq!(listed(&repo), ["one"]);
        // Links do not count either, if the source had files.
        symlink("nowhere", deep.join("link")).unwrap();
        try_snapshot(&[], &[&source, &other], &repo).expect(1).saying("without files");
        write(deep.join("file"), b"");
        try_snapshot(&["--dry-run"], &[&source, &other], &repo).expect(0);
        fs::remove_dir_all(source.join("photos")).unwrap();

        try_snapshot(&["--name", "two", "--allow-empty"], &[&source, &other], &repo).expect(0);
        try_snapshot(&["--name", "three"], &[&source, &other], &repo).expect(0);
        fs::remove_dir_all(&source).unwrap();
        try_snapshot(&[], &[&source, &other], &repo).expect(1).saying("No such file");
        assert_eq!(listed(&repo), ["one", "two", "three"]);
    }

    [xfs] fn a_source_that_was_always_empty_is_none_to_refuse(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for name in ["one", "two"] {
            try_snapshot(&["--name", name], &[&source], &repo).expect(0);
        }
    }

    fn what_a_snapshot_added_is_shown_and_kept(fs: &Filesystem) {
        // What others free meanwhile counts too.
        let test = concat!(module_path!(), "::what_a_snapshot_added_is_shown_and_kept");
        let Some(own) = Own::new(fs.kind, test, 600, &[], "") else { return };
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).unwrap();
        let elsewhere = fs.elsewhere();
        let far = elsewhere.dir("far");
        write(source.join("near"), &bytes(1, 3 << 20));
        write(far.join("far"), &bytes(2, (5 << 20) + 1));
        let summary = try_snapshot(&["--name", "one"], &[&source, &far], &repo).expect(0).summary();
        let copied = (5 << 20) + 4096 + if fs.reflinks() { 0 } else { 3 << 20 };
        assert_eq!(number(&summary, "added_data_bytes"), copied, "{summary}");
        assert!(number(&summary, "free_bytes") > 0);
        let run = pleach(["list".as_ref(), "--json".as_ref(), repo.as_os_str()]).expect(0);
        let listed = &run.lines::<json_lines::Snapshot>()[0];
        assert_eq!(listed.added_data_bytes, Some(copied));
        assert_eq!(listed.added_metadata_bytes, summary["added_metadata_bytes"].as_u64());
        // A snapshot of an earlier version does not have this note.
        fs::remove_file(repo.join(".pleach/added/one")).unwrap();
        let run = pleach(["list".as_ref(), "--json".as_ref(), repo.as_os_str()]).expect(0);
        assert_eq!(run.lines::<json_lines::Snapshot>()[0].added_data_bytes, None);
        let table = pleach(["list".as_ref(), repo.as_os_str()]).expect(0).stdout;
        assert!(table.lines().nth(1).unwrap().contains(" - "), "{table}");
    }

    [ext4] fn hard_links_are_suggested_once_where_every_file_is_copied_again(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let said = |run: Run| run.expect(0).stderr.matches("--unchanged hardlink").count();
        assert_eq!(said(try_snapshot(&[], &[&source], &repo)), 0, "nothing was unchanged yet");
        assert_eq!(said(try_snapshot(&[], &[&source], &repo)), 1);
        assert_eq!(said(try_snapshot(&[], &[&source], &repo)), 0, "once is enough");
    }

    [btrfs] fn hard_links_are_not_suggested_where_unchanged_files_take_no_space(fs: &Filesystem) {
        // What others free meanwhile counts too.
        let test = concat!(module_path!(), "::hard_links_are_not_suggested_where_unchanged_files_take_no_space");
        let Some(own) = Own::new(fs.kind, test, 1000, &[], "") else { return };
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).unwrap();
        let file = |number: u64| source.join(format!("file-{number}"));
        (0..15_000).for_each(|number| write(file(number), &bytes(number, 2000)));
        try_snapshot(&[], &[&source], &repo).expect(0);
        (0..7000).for_each(|number| write(file(number), &bytes(number + 1, 2000)));
        let run = try_snapshot(&[], &[&source], &repo).expect(0);
        assert!(number(&run.summary(), "added_metadata_bytes") > 16 << 20, "{}", run.summary());
        assert!(!run.stderr.contains("--unchanged hardlink"), "{}", run.stderr);
    }

    fn latest_is_that_of_a_path_where_one_is_given(fs: &Filesystem) {
        let (a, b, repo) = (fs.dir("a"), fs.dir("b"), fs.join("repo"));
        tree::plain(&a);
        tree::plain(&b);
        write(a.join("old"), b"old");
        try_snapshot(&["--name", "one"], &[&a], &repo).expect(0);
        fs::remove_file(a.join("old")).unwrap();
        try_snapshot(&["--name", "two"], &[&a], &repo).expect(0);
        try_snapshot(&["--name", "three"], &[&b], &repo).expect(0);
        let table = pleach(["list".as_ref(), repo.as_os_str()]).expect(0).stdout;
        assert!(table.contains(&*a.to_string_lossy()) && table.contains(&*b.to_string_lossy()), "{table}");

        let target = fs.join("target");
        let restore = |id: &str, paths: &[&Path]| {
            let _ = fs::remove_dir_all(&target);
            let args = ["restore".as_ref(), "--target".as_ref(), target.as_os_str(), repo.as_ref(), id.as_ref()];
            pleach(args.into_iter().chain(paths.iter().map(|path| path.as_os_str())))
        };
        let got = |path: &Path| target.join(path.strip_prefix("/").unwrap()).exists();
        restore(&format!("latest:{}", a.display()), &[]).expect(0);
        assert!(got(&a.join("a")) && !got(&a.join("old")) && !got(&b));
        restore(&format!("latest:{}/", b.join("c").display()), &[]).expect(0);
        assert!(got(&b.join("a")) && !got(&a));
        symlink(&a, fs.join("link")).unwrap();
        restore(&format!("latest:{}", fs.join("link").display()), &[]).expect(0);
        assert!(got(&a));

        let run = restore("latest", &[&b.join("a")]).expect(0);
        assert!(!run.stderr.contains("newest"), "{}", run.stderr);
        restore("latest", &[&a.join("a")]).expect(0).saying("three").saying("using two");
        restore("latest", &[&a.join("old")]).expect(0).saying("using one");
        assert!(got(&a.join("old")));
        restore("latest", &[&a.join("never")]).expect(1).saying("never");

        restore(&format!("latest:{}", fs.join("none").display()), &[]).expect(1).saying("there are snapshots of");
        restore("latest:a", &[]).expect(2).saying("absolute");
        restore("thr33", &[]).expect(1).saying("three");
    }
}

#[test]
fn a_mount_point_below_a_source_that_is_not_mounted_any_more_is_reported() {
    let test = concat!(module_path!(), "::a_mount_point_below_a_source_that_is_not_mounted_any_more_is_reported");
    let (Ok(fs), Some(disk)) = (Filesystem::open(Kind::Xfs, test), Own::new(Kind::Ext4, test, 64, &["-F"], "")) else {
        return;
    };
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    tree::plain(&source);
    fs::create_dir(source.join("empty")).unwrap();
    write(disk.join("file"), b"on the disk");
    let bind = Mounted::bind(disk.path(), &source.join("disk"));
    try_snapshot(&["--name", "one"], &[&source], &repo).expect(0);
    drop(bind);
    let run = try_snapshot(&["--name", "two"], &[&source], &repo).expect(3);
    assert_eq!(number(&run.summary(), "errors"), 1);
    run.saying("source/disk").saying("not mounted");
    // Only once: it was just as empty in the last snapshot.
    try_snapshot(&["--name", "three"], &[&source], &repo).expect(0);
    let _bind = Mounted::bind(disk.path(), &source.join("disk"));
    try_snapshot(&["--name", "four"], &[&source], &repo).expect(0);
    fs::remove_file(disk.join("file")).unwrap();
    try_snapshot(&["--name", "five"], &[&source], &repo).expect(0);
}
