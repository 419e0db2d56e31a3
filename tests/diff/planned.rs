//! `snapshot --dry-run` shows what `diff` shows after the snapshot, except renames.

use super::*;
use std::fs::File;

/// The plan, sorted.
#[track_caller]
fn plan(source: &Path, repo: &Path, more: &[&str]) -> (Vec<String>, Run) {
    settle();
    let words = ["snapshot".as_ref(), "--dry-run".as_ref(), source.as_os_str(), repo.as_os_str()];
    let run = pleach(words.into_iter().chain(more.iter().map(OsStr::new))).expect(0);
    (sorted(unquoted(lines(&run, source))), run)
}

on_filesystems! {
    fn a_plan_is_what_diff_shows_afterwards(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        before(&source);
        take("one", &source, &repo);
        assert_eq!(plan(&source, &repo, &[]).0, [""; 0]);
        change(&source);
        // Linked and unlinked again: only its ctime differs, which no comparison shows.
        fs::hard_link(source.join("a/same"), source.join("a/link")).unwrap();
        fs::remove_file(source.join("a/link")).unwrap();
        let (planned, _) = plan(&source, &repo, &[]);
        let (_, json) = plan(&source, &repo, &["--json"]);
        take("two", &source, &repo);
        let run = compare(&repo, "one", "two", &[]).expect(0);
        // The plan shows renamed entries, with all that is in them, as removed and added.
        let moved = ["a/f1", "a/F1", "b/copyme", "a/moved", "old", "renamed", "b/type", "b/typed"];
        let is_moved = |line: &&String| moved.iter().any(|path| line[2..].starts_with(path));
        let rest = |lines: &[String]| lines.iter().filter(|line| !is_moved(line)).cloned().collect::<Vec<_>>();
        assert_eq!(rest(&planned), rest(&sorted(unquoted(lines(&run, &source)))));
        assert!(planned.iter().any(|line| line == "U b/touched") && !rest(&planned).is_empty(), "{planned:?}");
        let (files, only) = (number(&json.summary(), "changed_files"), number(&json.summary(), "metadata_files"));
        assert_eq!((files - only, only), (2, 3), "mod and its link; touched, chmod and xattr");
        assert_eq!(plan(&source, &repo, &[]).0, [""; 0], "nothing has changed since");
    }

    [xfs] fn a_touched_file_is_read_and_only_if_its_size_is_equal(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for name in ["touched", "longer", "same"] {
            write(source.join(name), &bytes(1, 50_000));
        }
        take("one", &source, &repo);
        tree::set_mtime(&source.join("touched"), 1_000_000_000, 0);
        File::options().write(true).open(source.join("longer")).unwrap().set_len(50_001).unwrap();
        let (lines, run) = plan(&source, &repo, &[]);
        assert_eq!(lines, ["M longer", "U touched"]);
        run.saying("1 changed, 1 with other metadata, 1 unchanged");
        assert_eq!(number(&plan(&source, &repo, &["--json"]).1.summary(), "read_bytes"), 50_000);
        // Without a hash, only the time shows whether it changed.
        assert_eq!(plan(&source, &repo, &["--hash", "none"]).0, ["M longer", "M touched"]);
    }
}
