//! The problems of earlier runs: recorded by `snapshot` and `verify`, shown by `report`, and gone with their snapshot.

use super::{assert_harmless, page, report};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

on_filesystems! {
    [xfs, btrfs] fn the_problems_of_a_run_are_kept_until_its_snapshot_is_removed(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for number in 0..130 {
            let path = source.join(format!("secret {number:03}\n"));
            write(&path, b"secret");
            fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
        }
        write(source.join("file"), b"plain");
        settle();
        let args = ["snapshot", "--quiet", "--name", "one"].map(OsStr::new);
        let args = args.into_iter().chain([source.as_os_str(), repo.as_os_str()]);
        finish(&mut command_bound_by_permissions(args)).expect(3);
        let found = report(&repo, &[]).expect(0);
        let problems = found.lines_of_type("problem");
        assert_eq!(problems.len(), 100, "the first ones");
        assert!(problems.iter().all(|problem| problem["code"] == "permission-denied" && problem["snapshot"] == "one"));
        let message = problems[0]["message"].as_str().unwrap();
        assert!(message.contains("Permission denied") && message.contains("\\n'"), "{message}");
        assert_eq!(number(&found.lines_of_type("snapshot")[0], "errors"), 130);
        let page = page(&repo, &fs.join("page.html"), 0);
        assert!(page.contains("30 more, not recorded") && page.contains("permission-denied"), "{page}");
        let record = repo.join(".pleach/problems/one");
        assert!(fs::metadata(&record).unwrap().len() < 200 << 10);
        settle();
        snapshot(&source, &repo);
        assert!(names(&repo.join(".pleach/problems")) == ["one"], "a run without a problem has no record");
        pleach(["remove".as_ref(), repo.as_os_str(), "one".as_ref()]).expect(0);
        assert!(!record.exists());
    }

    [xfs] fn a_malformed_record_is_as_good_as_none(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        settle();
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        fs::create_dir(repo.join(".pleach/problems")).unwrap();
        for content in [&b""[..], b"problems 2 all 1\n", b"\xff\xfe", b"problems 1 all 99999999999999999999\n"] {
            write(repo.join(".pleach/problems/one"), content);
            write(repo.join(".pleach/verification"), content);
            let found = report(&repo, &[]).expect(0);
            assert_eq!((found.lines_of_type("problem").len(), found.lines_of_type("verification").len()), (0, 0));
        }
        write(repo.join(".pleach/problems/one"), b"problems 1 all 1\nfailed </li><script>alert(1)</script>\x1b\n");
        let page = page(&repo, &fs.join("page.html"), 0);
        assert_harmless(&page);
        assert!(page.contains("&lt;/<wbr>li&gt;"), "it is shown as text");
    }

    [xfs, btrfs] fn the_last_verification_is_shown(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("letter"), &bytes(1, 70_000));
        settle();
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        assert_eq!(report(&repo, &[]).expect(0).lines_of_type("verification").len(), 0);
        assert!(page(&repo, &fs.join("page.html"), 0).contains("No verification is recorded"));
        pleach(["verify".as_ref(), repo.as_os_str()]).expect(0);
        let verified = report(&repo, &[]).expect(0).lines_of_type("verification");
        assert_eq!((number(&verified[0], "damaged"), number(&verified[0], "checked_bytes")), (0, 70_000));
        assert_eq!((&verified[0]["percent"], &verified[0]["all"]), (&100.0.into(), &true.into()));
        let letter = inside(&repo, "one", &source).join("letter");
        tools::let_be_removed(&repo.join("one"));
        overwrite(&letter, 9000, b"damage");
        pleach(["verify".as_ref(), repo.as_os_str()]).expect(4);
        let found = report(&repo, &[]).expect(0);
        assert!(number(&found.lines_of_type("verification")[0], "damaged") >= 1);
        let damage = found.lines_of_type("problem");
        assert!(damage.iter().any(|problem| problem["run"] == "damage"
            && problem["message"].as_str().unwrap().contains("letter")), "{damage:?}");
        let page = page(&repo, &fs.join("page.html"), 0);
        assert!(page.contains("Damage was found in") && page.contains("letter"));
    }
}
