//! Snapshots that lack entries because their run could not read them: nothing that they lack counts as removed.

use super::*;
use serde_json::Value;

/// Takes a snapshot without the rights of root, which skips what the bits of the owner forbid.
#[track_caller]
fn take_incomplete(name: &str, source: &Path, repo: &Path) -> Run {
    settle();
    finish(&mut command_bound_by_permissions(snapshot_named(name, source, repo))).expect(3)
}

fn close(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
}

/// Two snapshots. The run of `two` could not read a file and a directory. A third file was really removed before it.
fn snapshots_of_which_two_is_incomplete(fs: &Filesystem) -> (std::path::PathBuf, std::path::PathBuf) {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    for name in ["kept", "secret", "gone", "closed %/in", "closed %/sub/deep"] {
        fs::create_dir_all(source.join(name).parent().unwrap()).unwrap();
        write(source.join(name), name.as_bytes());
    }
    take("one", &source, &repo);
    fs::remove_file(source.join("gone")).unwrap();
    close(&source.join("secret"));
    close(&source.join("closed %"));
    let run = take_incomplete("two", &source, &repo);
    let summary = run.summary();
    assert_eq!((number(&summary, "removed_files"), number(&summary, "errors")), (1, 2), "{}", run.stderr);
    (source, repo)
}

fn letters(run: &Run, source: &Path) -> Vec<String> {
    lines(run, source).into_iter().filter(|line| !line.starts_with("U ")).collect()
}

on_filesystems! {
    fn what_an_incomplete_snapshot_could_not_read_is_not_removed(fs: &Filesystem) {
        let (source, repo) = snapshots_of_which_two_is_incomplete(fs);
        let wanted = ["- gone", "! secret", "! 'closed %/in'", "! 'closed %/sub'", "! 'closed %/sub/deep'"];
        let run = compare(&repo, "one", "two", &[]).expect(0).saying("two is incomplete: its run skipped 2 entries");
        assert_eq!(unquoted(letters(&run, &source)), unquoted(wanted.map(String::from).into()));
        let found = summary(&compare(&repo, "one", "two", &["--json".as_ref()]).expect(0));
        assert_eq!((found.removed, found.unreadable, found.old_incomplete, found.new_incomplete), (1, 4, false, true));
        let back = compare(&repo, "two", "one", &["--json".as_ref()]).expect(0);
        let found = summary(&back);
        assert_eq!((found.added, found.unreadable, found.old_incomplete, found.new_incomplete), (5, 0, true, false));
        assert!(back.json().iter().any(|line| line["code"] == "snapshot-incomplete"), "{}", back.stdout);
        let live = summary(&compare(&repo, "two", "live", &["--json".as_ref()]).expect(0));
        assert_eq!((live.added, live.unreadable, live.old_incomplete), (4, 0, true));
        let patch = compare(&repo, "one", "two", &["--patch".as_ref()]).expect(0);
        assert_eq!(patch.stdout.matches("+++ /dev/null").count(), 1, "{}", patch.stdout);
        compare(&repo, "one", "one", &[]).expect(0);
    }

    [xfs] fn without_a_record_of_what_was_skipped_the_hint_remains(fs: &Filesystem) {
        let (source, repo) = snapshots_of_which_two_is_incomplete(fs);
        fs::remove_file(repo.join(".pleach/problems/two")).unwrap();
        let run = compare(&repo, "one", "two", &["--json".as_ref()]).expect(0);
        let found = summary(&run);
        assert_eq!((found.removed, found.unreadable, found.new_incomplete), (5, 0, true));
        compare(&repo, "one", "two", &[]).expect(0).saying("two is incomplete (2 problems in its run)");
        let log = pleach(["log".as_ref(), repo.as_os_str(), source.join("secret").as_os_str(), "--json".as_ref()]);
        assert_eq!(number(&log.expect(0).summary(), "incomplete"), 1);
    }

    [xfs] fn a_problem_with_a_part_of_an_entry_leaves_the_snapshot_complete(fs: &Filesystem) {
        let (_, repo) = snapshots_of_which_two_is_incomplete(fs);
        write(repo.join(".pleach/problems/two"), b"problems 2 all 2 skipped 0\n");
        let found = summary(&compare(&repo, "one", "two", &["--json".as_ref()]).expect(0));
        assert_eq!((found.removed, found.unreadable, found.new_incomplete), (5, 0, false));
    }

    [xfs] fn the_log_of_a_path_that_could_not_be_read_says_so(fs: &Filesystem) {
        let (source, repo) = snapshots_of_which_two_is_incomplete(fs);
        let log = |name: &str| {
            pleach(["log".as_ref(), repo.as_os_str(), source.join(name).as_os_str(), "--json".as_ref()]).expect(0)
        };
        let kinds = |run: &Run| -> Vec<String> {
            let kind = |line: &Value| Some(format!("{} {}", line["type"].as_str()?, line["kind"].as_str()?));
            run.json().iter().filter_map(kind).collect()
        };
        for name in ["secret", "closed %/in"] {
            let run = log(name);
            assert_eq!(kinds(&run), ["unreadable unreadable", "version file"], "{name}");
            assert_eq!((number(&run.summary(), "incomplete"), number(&run.summary(), "versions")), (1, 1), "{name}");
        }
        let run = log("gone");
        assert_eq!(kinds(&run), ["absence absent", "version file"]);
        assert_eq!(number(&run.summary(), "incomplete"), 0, "the snapshot knows what it skipped");
        let table = pleach(["log".as_ref(), repo.as_os_str(), source.join("secret").as_os_str()]).expect(0);
        assert!(table.saying("two is incomplete").stdout.contains("unreadable"));
    }

    [xfs] fn a_plan_does_not_call_unreadable_entries_removed(fs: &Filesystem) {
        let (source, repo) = snapshots_of_which_two_is_incomplete(fs);
        let paths = [source.as_os_str(), repo.as_os_str()];
        let args = ["snapshot", "--parent=one", "--dry-run"].map(OsStr::new).into_iter().chain(paths);
        let run = finish(&mut command_bound_by_permissions(args)).expect(3);
        let changes: Vec<_> = letters(&run, &source).into_iter().filter(|line| line.starts_with(['-', '!'])).collect();
        assert_eq!(changes.len(), 5, "{}", run.stdout);
        assert_eq!(changes.iter().filter(|line| line.starts_with("- ")).count(), 1, "{}", run.stdout);
    }

    [xfs, btrfs] fn restore_deletes_nothing_that_the_snapshot_could_not_read(fs: &Filesystem) {
        let (source, repo) = snapshots_of_which_two_is_incomplete(fs);
        let target = fs.dir("target");
        let restore = |id: &str, status: i32| {
            let words = ["restore".as_ref(), repo.as_os_str(), id.as_ref(), "--delete".as_ref(), "--target".as_ref()];
            pleach(words.into_iter().chain([target.as_os_str()])).expect(status)
        };
        restore("one", 0);
        let at = |name: &str| target.join(source.join(name).strip_prefix("/").unwrap());
        restore("two", 3).saying("two is incomplete").saying("it was kept");
        for name in ["secret", "closed %/in", "closed %/sub/deep"] {
            assert!(at(name).exists(), "{name}");
        }
        assert!(!at("gone").exists());
        write(at("gone"), b"again");
        fs::remove_file(repo.join(".pleach/problems/two")).unwrap();
        restore("two", 3).saying("nothing was deleted there");
        assert!(at("secret").exists() && at("gone").exists());
    }
}
