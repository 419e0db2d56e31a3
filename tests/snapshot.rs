//! `pleach snapshot`: which data it keeps, shares and counts.

use crate::harness::*;
use crate::on_filesystems;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

on_filesystems! {
    fn owners_are_kept_below_a_directory_that_hands_its_group_down(fs: &Filesystem) {
        let (source, above) = (fs.dir("source"), fs.dir("above"));
        tree::every_kind(&source);
        std::os::unix::fs::chown(&above, Some(0), Some(4242)).expect("root may give groups away");
        fs::set_permissions(&above, PermissionsExt::from_mode(0o2777)).expect("a mode can be set");
        let repo = above.join("repo");
        snapshot(&source, &repo);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    fn a_snapshot_equals_its_source_in_every_kind_of_entry(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        let first = snapshot(&source, &repo);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        let second = snapshot(&source, &repo);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        assert_eq!(number(&first, "errors") + number(&second, "errors"), 0);
        assert_eq!(published(&repo).len(), 2);
        assert_no_leftovers(&repo);
    }

    fn attributes_acls_and_capabilities_are_those_of_the_source(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        snapshot(&source, &repo);
        let copy = inside(&repo, "latest", &source).join("attributes");
        let original = source.join("attributes");
        for name in ["user", "trusted", "capability", "acl", "dir", "link"] {
            assert_eq!(tools::xattrs(&copy.join(name)), tools::xattrs(&original.join(name)), "attributes of {name}");
        }
        for name in ["acl", "dir"] {
            assert_eq!(tools::acl(&copy.join(name)), tools::acl(&original.join(name)), "ACL of {name}");
        }
        assert!(tools::xattrs(&copy.join("capability")).contains("security.capability"));
    }

    fn holes_stay_holes(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        let summary = snapshot(&source, &repo);
        let copy = inside(&repo, "latest", &source);
        for name in ["sparse", "hole"] {
            let blocks = |dir: &Path| fs::metadata(dir.join(name)).expect("the file is there").blocks();
            assert!(blocks(&copy) <= blocks(&source) + 64, "{name}: {} from {}", blocks(&copy), blocks(&source));
        }
        assert!(number(&summary, "hole_bytes") >= 60 << 20, "{summary}");
    }

    fn a_tree_deeper_than_path_max_is_kept_to_its_bottom(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::deeper_than_path_max(&source);
        for _ in 0..2 {
            let summary = snapshot(&source, &repo);
            assert_eq!(number(&summary, "files"), 1);
            let copy = tree::content_at_the_bottom(&inside(&repo, "latest", &source));
            assert_eq!(copy, tree::content_at_the_bottom(&source));
        }
    }

    fn a_directory_of_twenty_thousand_entries_is_kept(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::crowded(&source, 20_000);
        let first = snapshot(&source, &repo);
        assert_eq!(number(&first, "files"), 20_000);
        let second = snapshot(&source, &repo);
        assert_eq!(number(&second, "unchanged_files"), 20_000);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs, btrfs] fn the_first_snapshot_shares_all_data_with_its_source(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let summary = snapshot(&source, &repo);
        assert_eq!(number(&summary, "copied_bytes"), 0, "{summary}");
        assert_eq!(summary["sharing_percent"].as_f64(), Some(100.0), "{summary}");
        let copy = inside(&repo, "latest", &source);
        for file in tools::files(&source) {
            let name = file.strip_prefix(&source).expect("it lies in the source");
            assert!(tools::assert_same_blocks(&file, &copy.join(name)), "{} is not inline", name.display());
        }
    }

    [xfs, btrfs] fn the_second_snapshot_of_an_unchanged_tree_reads_and_copies_nothing(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        tree::plain(&source.join("names"));
        let first = snapshot(&source, &repo);
        let second = snapshot(&source, &repo);
        assert_eq!(number(&second, "read_bytes"), 0, "{second}");
        assert_eq!(number(&second, "copied_bytes"), 0, "{second}");
        assert_eq!(second["sharing_percent"].as_f64(), Some(100.0), "{second}");
        assert_eq!(number(&second, "unchanged_files"), number(&second, "files"), "{second}");
        assert_eq!(number(&second, "files"), number(&first, "files"));

        let copy = inside(&repo, "latest", &source);
        let (mut shared, mut inline) = (0, BTreeSet::new());
        for file in tools::files(&source) {
            let name = file.strip_prefix(&source).expect("it lies in the source");
            if tools::assert_same_blocks(&file, &copy.join(name)) {
                shared += 1;
            } else {
                inline.insert(name.to_path_buf());
            }
        }
        assert!(shared > 30, "only {shared} files shared; inline: {inline:?}");
        match fs.kind {
            Kind::Btrfs => assert!(number(&second, "inline_bytes") > 0, "{second}"),
            _ => assert_eq!(inline.len(), 0, "XFS keeps no data inline: {inline:?}"),
        }
    }

    [xfs, btrfs] fn the_second_snapshot_of_an_unchanged_tree_makes_no_call_that_reads_it(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        snapshot(&source, &repo);
        let reads = "read,pread64,readv,preadv,preadv2,copy_file_range,sendfile,splice,mmap";
        let calls = tools::traced_calls(reads, &snapshot_named("second", &source, &repo), &fs.join("trace"));
        let of_data = |call: &&String| tools::files(&source).iter().any(|file| call.contains(&*file.to_string_lossy()));
        assert_eq!(calls.iter().filter(of_data).collect::<Vec<_>>(), [""; 0]);
    }

    fn changed_new_removed_and_renamed_files_are_counted(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::crowded(&source, 40);
        tree::plain(&source);
        let first = snapshot(&source, &repo);
        assert_eq!((number(&first, "files"), number(&first, "new_files")), (45, 45));

        write(source.join("b"), b"changed");
        write(source.join("c/new"), &bytes(7, 9000));
        write(source.join("c/newer"), &bytes(8, 9000));
        fs::remove_file(source.join("file-000003")).expect("a file can be removed");
        fs::rename(source.join("c/two"), source.join("c/d/moved")).expect("a file can be renamed");
        let second = snapshot(&source, &repo);
        let counts = ["changed_files", "new_files", "removed_files", "renamed_files", "unchanged_files", "files"];
        assert_eq!(counts.map(|field| number(&second, field)), [1, 2, 1, 1, 42, 46], "{second}");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs, btrfs] fn a_file_changed_in_one_place_is_still_shared_elsewhere(fs: &Filesystem) {
        use std::os::unix::fs::FileExt;
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let file = source.join("data");
        write(&file, &bytes(1, 4 << 20));
        let first = snapshot(&source, &repo);
        let before = inside(&repo, first["name"].as_str().expect("a name"), &source).join("data");
        let kept = fs::read(&before).expect("the first snapshot can be read");
        let open = fs::File::options().write(true).open(&file).expect("the file can be opened");
        open.write_all_at(&bytes(2, 4096), 1 << 20).expect("the file can be written");
        drop(open);
        let second = snapshot(&source, &repo);
        assert_eq!(number(&second, "changed_files"), 1);
        assert_eq!(number(&second, "copied_bytes"), 0, "{second}");
        assert!(tools::assert_same_blocks(&file, &inside(&repo, "latest", &source).join("data")));
        assert!(fs::read(&before).expect("the first snapshot can be read") == kept, "the first snapshot is as it was");
    }

    fn the_source_is_as_it_was(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        let (paths, content) = (tools::paths(&source), tools::checksums(&source));
        // Without O_NOATIME, reading would update an access time that is older than the modification time.
        tree::set_old_atimes(&paths);
        let before = tools::states(&paths);
        snapshot(&source, &repo);
        snapshot(&source, &repo);
        assert_same_lines(&tools::states(&paths), &before);
        assert_eq!(tools::checksums(&source), content);
    }

    fn latest_points_to_the_newest_snapshot(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        for name in ["one", "two"] {
            let summary = pleach(snapshot_named(name, &source, &repo)).expect(0).summary();
            assert_eq!(summary["name"], name);
            assert_eq!(fs::read_link(repo.join("latest")).expect("latest is a symlink"), Path::new(name));
        }
        assert_eq!(listed(&repo), ["one", "two"]);
    }

    [xfs] fn snapshots_in_the_same_second_are_both_kept(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let summaries = [snapshot(&source, &repo), snapshot(&source, &repo), snapshot(&source, &repo)];
        let names: BTreeSet<_> = summaries.iter().map(|summary| summary["name"].as_str().expect("a name")).collect();
        assert_eq!(names.len(), 3);
        assert_eq!(published(&repo).len(), 3);
        assert_eq!(listed(&repo).len(), 3);
    }

    [xfs] fn a_repository_is_closed_to_others(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        snapshot(&source, &repo);
        assert_eq!(fs::metadata(&repo).expect("the repository is there").permissions().mode() & 0o7777, 0o700);
    }

    fn several_sources_and_single_files_stand_at_their_paths(fs: &Filesystem) {
        let (one, two, repo) = (fs.dir("one"), fs.dir("deep/er/two"), fs.join("repo"));
        tree::plain(&one);
        tree::plain(&two);
        let file = fs.join("single");
        write(&file, &bytes(5, 12_345));
        settle();
        let args =
            ["snapshot".as_ref(), one.as_os_str(), two.as_ref(), file.as_ref(), repo.as_ref(), "--json".as_ref()];
        assert_eq!(number(&pleach(args).expect(0).summary(), "files"), 11);
        let second = pleach(args).expect(0).summary();
        assert_eq!(number(&second, "unchanged_files"), 11, "{second}");
        for source in [&one, &two] {
            tools::assert_equal_trees(source, &inside(&repo, "latest", source));
        }
        assert_eq!(fs::read(inside(&repo, "latest", &file)).expect("the file is there"), bytes(5, 12_345));
    }

    [xfs] fn a_dry_run_shows_the_plan_and_makes_nothing(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let args = ["snapshot".as_ref(), "--dry-run".as_ref(), source.as_os_str(), repo.as_ref()];
        let plan = pleach(args).expect(0).saying("-v");
        assert!(!plan.stdout.contains("three"), "the first plan has all files: {}", plan.stdout);
        let plan = finish(command(args).arg("-v")).expect(0);
        assert!(plan.stdout.contains("three"), "{}", plan.stdout);
        assert!(!repo.exists(), "a dry run makes no repository");
        snapshot(&source, &repo);
        write(source.join("c/new"), b"new");
        settle();
        let plan = pleach(["snapshot".as_ref(), "--dry-run".as_ref(), source.as_os_str(), repo.as_ref()]).expect(0);
        assert!(plan.stdout.contains("new") && !plan.stdout.contains("three"), "{}", plan.stdout);
        assert_eq!(published(&repo).len(), 1);
    }

    [xfs] fn relative_sources_and_repositories_are_understood(fs: &Filesystem) {
        let source = fs.dir("source");
        tree::plain(&source);
        finish(command(["snapshot", "source", "repo"]).current_dir(fs.path())).expect(0);
        tools::assert_equal_trees(&source, &inside(&fs.join("repo"), "latest", &source));
    }

    [xfs, btrfs] fn without_hashing_nothing_is_read_even_the_first_time(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let args = ["snapshot".as_ref(), "--hash=none".as_ref(), "--json".as_ref(), source.as_os_str(), repo.as_ref()];
        let summary = pleach(args).expect(0).summary();
        assert_eq!((number(&summary, "read_bytes"), number(&summary, "copied_bytes")), (0, 0), "{summary}");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }
}
