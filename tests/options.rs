//! Options of `pleach snapshot` except exclusion: `--unchanged`, `--require-sharing`, `--parent`, several sources.

use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A snapshot with these options.
fn with(options: &[&str], sources: &[&Path], repo: &Path) -> Run {
    settle();
    let options = options.iter().map(OsStr::new);
    let args = [OsStr::new("snapshot"), "--json".as_ref()].into_iter().chain(options);
    pleach(args.chain(sources.iter().map(|source| source.as_os_str())).chain([repo.as_os_str()]))
}

/// The same with `--unchanged hardlink`; it must succeed.
#[track_caller]
fn linking(source: &Path, repo: &Path) -> Value {
    with(&["--unchanged=hardlink"], &[source], repo).expect(0).summary()
}

/// The inode of a file in a snapshot.
fn inode(repo: &Path, summary: &Value, file: &Path) -> u64 {
    let name = summary["name"].as_str().expect("a name");
    fs::symlink_metadata(inside(repo, name, file)).expect("the file is there").ino()
}

on_filesystems! {
    fn unchanged_files_become_further_names_of_the_last_snapshots(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        tree::plain(&source);
        let first = linking(&source, &repo);
        write(source.join("b"), &bytes(9, 30_000));
        write(source.join("new"), &bytes(10, 30_000));
        let second = linking(&source, &repo);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        let shared = |name: &str| inode(&repo, &first, &source.join(name)) == inode(&repo, &second, &source.join(name));
        assert_eq!(["a", "c/one", "c/d/three", "b"].map(shared), [true, true, true, false]);
        let written = if fs.reflinks() { 0 } else { 60_000 };
        assert_eq!(number(&second, "copied_bytes"), written, "{second}");
        let third = linking(&source, &repo);
        assert_eq!((number(&third, "copied_bytes"), number(&third, "read_bytes")), (0, 0), "{third}");
        assert_eq!(third["sharing_percent"].as_f64(), Some(100.0));
        assert_eq!(number(&third, "unchanged_files"), number(&third, "files"));
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        tools::assert_equal_trees(&source, &inside(&repo, second["name"].as_str().expect("a name"), &source));
        let target = fs.dir("target");
        let restore = ["restore".as_ref(), repo.as_os_str(), "latest".as_ref(), "--target".as_ref(), target.as_ref()];
        pleach(restore).expect(0);
        tools::assert_equal_trees(&source, &target.join(source.strip_prefix("/").expect("absolute")));
    }

    fn files_of_another_filesystem_are_linked_without_being_opened(fs: &Filesystem) {
        let (elsewhere, repo) = (fs.elsewhere(), fs.join("repo"));
        let source = elsewhere.dir("source");
        tree::plain(&source);
        let first = linking(&source, &repo);
        settle();
        let args = ["snapshot", "--json", "--name=second", "--unchanged=hardlink"].map(OsStr::new);
        let args: Vec<_> = args.into_iter().chain([source.as_os_str(), repo.as_ref()]).collect();
        let calls = tools::traced_calls("open,openat,openat2,read,pread64", &args, &fs.join("trace"));
        let of_data = |call: &&String| call.contains("\"one\"") || call.contains("c/one>");
        assert_eq!(calls.iter().filter(of_data).collect::<Vec<_>>(), [""; 0]);
        let second = serde_json::json!({"name": "second"});
        let file = source.join("c/one");
        assert_eq!(inode(&repo, &first, &file), inode(&repo, &second, &file));
    }

    [ext4] fn a_file_that_can_have_no_more_names_is_copied(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 5000));
        let first = linking(&source, &repo);
        let kept = inside(&repo, first["name"].as_str().expect("a name"), &source).join("file");
        let names = fs.dir("names");
        let refused = (0..70_000).find(|number| fs::hard_link(&kept, names.join(number.to_string())).is_err());
        assert_eq!(refused, Some(64_999), "ext4 gives an inode 65,000 names");
        let second = linking(&source, &repo);
        assert_eq!((number(&second, "unchanged_files"), number(&second, "copied_bytes")), (1, 5000), "{second}");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs, ext4] fn a_file_that_was_changed_in_the_snapshot_is_not_linked(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for name in ["grown", "touched", "opened"] {
            write(source.join(name), &bytes(1, 5000));
        }
        linking(&source, &repo);
        let copy = inside(&repo, "latest", &source);
        write(copy.join("grown"), b"no longer what it was");
        tree::set_mtime(&copy.join("touched"), 1, 0);
        fs::set_permissions(copy.join("opened"), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("a mode can be set");
        linking(&source, &repo);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs, btrfs] fn what_several_snapshots_hold_by_links_is_no_snapshots_alone(fs: &Filesystem) {
        let (source, repo) = (fs.elsewhere(), fs.join("repo"));
        let source = source.dir("source");
        write(source.join("kept"), &bytes(1, 1 << 20));
        fs::create_dir(source.join("dir")).expect("a directory can be made");
        write(source.join("two"), &bytes(2, 2 << 20));
        fs::hard_link(source.join("two"), source.join("dir/names")).expect("a link can be made");
        linking(&source, &repo);
        let alone = || {
            let run = pleach([OsStr::new("list"), "--json".as_ref(), "--exclusive".as_ref(), repo.as_ref()]).expect(0);
            let snapshots = run.lines::<json_lines::Snapshot>().into_iter();
            snapshots.map(|snapshot| snapshot.exclusive_bytes.expect("it is measured")).collect::<Vec<_>>()
        };
        assert_eq!(alone(), [3 << 20]);
        write(source.join("new"), &bytes(3, 4 << 20));
        linking(&source, &repo);
        assert_eq!(alone(), [0, 4 << 20]);
    }

    fn less_sharing_than_required_is_an_exit_status(fs: &Filesystem) {
        let (elsewhere, repo) = (fs.elsewhere(), fs.join("repo"));
        let source = elsewhere.dir("source");
        tree::plain(&source);
        let run = with(&["--require-sharing=50"], &[&source], &repo)
            .expect(3)
            .saying("0.0 % of the data is shared, but 50 % is required");
        assert_eq!(number(&run.summary(), "errors"), 0);
        let codes = |codes: &[String]| codes.join(" ");
        let warnings: Vec<_> = run.lines::<json_lines::Warning>().into_iter().map(|line| line.code).collect();
        assert!(codes(&warnings).contains("little-shared"), "{warnings:?}");
        let errors: Vec<_> = run.lines::<json_lines::Problem>().into_iter().map(|line| line.code).collect();
        assert_eq!(codes(&errors), "sharing-required");
        assert_eq!(published(&repo).len(), 1, "it is kept all the same");
        with(&["--require-sharing=0"], &[&source], &repo).expect(0);
        with(&["--require-sharing=100%", "--unchanged=hardlink"], &[&source], &repo).expect(0);
        for wrong in ["101", "-1", "NaN", "half", ""] {
            with(&[&format!("--require-sharing={wrong}")], &[&source], &repo).expect(2).saying("from 0 to 100");
        }
        with(&["--require-sharing=1", "--dry-run"], &[&source], &repo).expect(2).saying("cannot be used with");
    }

    [xfs, btrfs] fn a_snapshot_is_compared_with_the_one_that_is_named(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        with(&["--name=monday"], &[&source], &repo).expect(0);
        write(source.join("b"), b"changed");
        with(&["--name=tuesday"], &[&source], &repo).expect(0);
        let counts = |run: &Run| ["changed_files", "unchanged_files"].map(|field| number(&run.summary(), field));
        assert_eq!(counts(&with(&[], &[&source], &repo).expect(0)), [0, 5]);
        for options in [&["--parent=mon", "--dry-run"][..], &["--parent=mon"]] {
            assert_eq!(counts(&with(options, &[&source], &repo).expect(0)), [1, 4]);
        }
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        with(&["--parent=friday"], &[&source], &repo).expect(1).saying("cannot find a snapshot 'friday'");
        assert_eq!(published(&repo).len(), 4);
        let none = fs.join("none");
        for options in [&["--parent=monday", "--dry-run"][..], &["--parent=monday"]] {
            with(options, &[&source], &none).expect(1);
        }
    }

    [xfs, btrfs] fn sources_within_each_other_are_kept_once(fs: &Filesystem) {
        let (source, other, repo) = (fs.dir("source"), fs.dir("other"), fs.join("repo"));
        tree::plain(&source);
        tree::plain(&other);
        let link = fs.join("link");
        std::os::unix::fs::symlink(&source, &link).expect("a link can be made");
        let file = source.join("c/one");
        let below = source.join("c");
        let sources = [&source, &link, &file, &other, &below].map(|path| path.as_path());
        let first = with(&[], &sources, &repo).expect(0).summary();
        assert_eq!(number(&first, "files"), 10, "{first}");
        let again = [&other, &below, &file, &source].map(|path| path.as_path());
        let second = with(&[], &again, &repo).expect(0).summary();
        assert_eq!((number(&second, "files"), number(&second, "unchanged_files")), (10, 10), "{second}");
        for source in [&source, &other] {
            tools::assert_equal_trees(source, &inside(&repo, "latest", source));
        }
    }
}
