//! Tags and pins: changed after the snapshot was made, listed, kept with their snapshot and removed with it.

use super::{Dated, YEAR_END, kept, past, prune, sums};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

fn run(verb: &str, repo: &Path, words: &[&str]) -> Run {
    pleach([OsStr::new(verb), repo.as_ref()].into_iter().chain(words.iter().map(OsStr::new)))
}

/// The tags of each snapshot in the list, and whether it is pinned.
fn listed_marks(repo: &Path, status: i32) -> Vec<(Vec<String>, bool)> {
    let lines = pleach([OsStr::new("list"), "--json".as_ref(), repo.as_ref()]).expect(status).lines_of_type("snapshot");
    let tags = |value: &serde_json::Value| serde_json::from_value(value.clone()).unwrap();
    lines.iter().map(|line| (tags(&line["tags"]), line["pinned"].as_bool().unwrap())).collect()
}

on_filesystems! {
    fn tags_and_pins_are_changed_and_listed(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END[..3]));
        let repo = &dated.repo;
        let manifests = tools::checksums(&repo.join(".pleach/manifests"));
        run("tag", repo, &["0", "+one", "+two words", "+-odd"]).expect(0);
        run("tag", repo, &["0", "-one", "+v"]).expect(0);
        run("pin", repo, &["1"]).expect(0);
        let tags: Vec<String> = ["two words", "-odd", "v"].map(String::from).to_vec();
        assert_eq!(listed_marks(repo, 0), [(tags.clone(), false), (vec![], true), (vec![], false)]);
        assert_eq!(run("tag", repo, &["0"]).expect(0).stdout, "two words\n-odd\nv\n");
        let summary = run("tag", repo, &["0", "--json", "-odd", "+v"]).expect(0).summary();
        assert_eq!((summary["changed"].as_bool(), summary["command"].as_str()), (Some(false), Some("tag")));
        run("tag", repo, &["0", "--", "-v", "+x"]).expect(0);
        assert_eq!(run("tag", repo, &["0"]).expect(0).stdout, "two words\n-odd\nx\n");
        run("tag", repo, &["0", "-nothere"]).expect(0).saying("does not have the tag nothere");
        let json = run("tag", repo, &["0", "-nothere", "--json"]).expect(0);
        assert_eq!(json.lines::<json_lines::Warning>()[0].code, "no-such-tag");
        run("tag", repo, &["0", "--odd"]).expect(2);
        run("tag", repo, &["0", "--", "--odd"]).expect(0);
        assert_eq!(run("tag", repo, &["0"]).expect(0).stdout, "two words\nx\n");
        assert_eq!(tools::checksums(&repo.join(".pleach/manifests")), manifests);
        for bad in ["+", "+a,b", "+a\nb", "plain", "--unknown"] {
            run("tag", repo, &["0", bad]).expect(2);
        }
        let table = pleach([OsStr::new("list"), repo.as_ref()]).expect(0).stdout;
        assert!(table.contains("pinned") && table.contains("two words"), "{table}");
        run("unpin", repo, &["1"]).expect(0);
        let mut from_environment = command(["tag", "0"].map(OsStr::new));
        assert_eq!(finish(from_environment.env("PLEACH_REPO", repo)).expect(0).stdout, "two words\nx\n");
        dated.expect(&["0", "1", "2"]);
    }

    [xfs] fn the_tags_of_the_manifest_are_the_first_ones(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let args = ["snapshot", "--name", "a", "--tag", "old"].map(OsStr::new).into_iter();
        pleach(args.chain([source.as_os_str(), repo.as_os_str()])).expect(0);
        run("tag", &repo, &["a", "+new"]).expect(0);
        assert_eq!(listed_marks(&repo, 0), [(vec!["old".into(), "new".into()], false)]);
        run("tag", &repo, &["a", "-old"]).expect(0);
        assert_eq!(listed_marks(&repo, 0), [(vec!["new".into()], false)]);
        // A new snapshot of the same name has no marks of the one before.
        run("remove", &repo, &["a"]).expect(0);
        settle();
        pleach(snapshot_named("a", &source, &repo)).expect(0);
        assert_eq!(listed_marks(&repo, 0), [(vec![], false)]);
    }

    [xfs] fn malformed_marks_count_as_a_pin_and_are_reported(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END[..3]));
        let repo = &dated.repo;
        run("tag", repo, &["0", "+x"]).expect(0);
        let marks = repo.join(".pleach/marks/0");
        assert_eq!(fs::read_to_string(&marks).unwrap(), "marks 1\npinned false\ntag x\n");
        for content in ["", "marks 2\npinned false\n", "marks 1\npinned maybe\n", "marks 1\npinned false\ntag x"] {
            fs::write(&marks, content).unwrap();
            let run = prune(&["--keep-last", "1", "--dry-run"], repo).expect(3);
            assert_eq!(kept(&run)[0], ("0".to_string(), vec!["pinned".to_string()]), "{content:?}");
            assert!(listed_marks(repo, 3)[0].1);
        }
        fs::remove_file(&marks).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &marks).unwrap();
        assert!(listed_marks(repo, 3)[0].1, "no link is followed");
        let run = prune(&["--keep-last", "1"], repo).expect(3);
        assert_eq!(sums(&run).removed, 1);
        assert_eq!(published(repo), ["0", "2"]);
    }
}
