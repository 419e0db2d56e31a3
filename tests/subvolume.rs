//! Repositories on Btrfs: a snapshot is a read-only subvolume that began as a snapshot of the last one.

mod changed_ranges;
mod in_place;

use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::Silent;
use pleach::snapshot::create::{self, Options, Subvolumes};
use pleach::testing::manifest::{Item, Reader};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

/// All records of a snapshot's manifest except those of the directories above the source, which others change
/// meanwhile.
fn records(repo: &Path, name: &str) -> Vec<Item> {
    let manifest = Reader::open(&repo.join(".pleach/manifests").join(name)).expect("the manifest is whole");
    let items = manifest.items().map(|item| item.expect("the manifest is whole"));
    items.filter(|item| !matches!(item, Item::Directory(directory) if directory.scaffold)).collect()
}

/// Takes a snapshot in this process, of trees that may be subvolumes or plain directories.
fn take(name: &str, source: &Path, repo: &Path, subvolumes: Subvolumes) -> create::Stats {
    let options = Options { name: Some(name.into()), subvolumes, ..Options::default() };
    create::create(&[source.to_path_buf()], repo, &options, &Silent).expect("a snapshot can be taken")
}

/// Takes a snapshot both ways, and asserts that trees, records and counts are the same.
#[track_caller]
fn take_both(name: &str, source: &Path, repo: &Path, plain: &Path) {
    settle();
    let with = take(name, source, repo, Subvolumes::Auto);
    let without = take(name, source, plain, Subvolumes::Never);
    assert!(tools::is_subvolume(&repo.join(name)) && !tools::is_subvolume(&plain.join(name)));
    assert!(tools::is_read_only(&repo.join(name)));
    tools::assert_equal_trees(source, &inside(repo, name, source));
    tools::assert_equal_trees(source, &inside(plain, name, source));
    let (one, other) = (records(repo, name), records(plain, name));
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(one, other, "records of {name}");
    }
    assert_eq!(one.len(), other.len(), "records of {name}");
    // The space that it took on the disk depends on the other tests.
    let comparable = |stats| create::Stats { seconds: 0.0, added: None, free_bytes: 0, ..stats };
    assert_eq!(comparable(with), comparable(without));
}

/// Changes of every kind to a tree of `every_kind` and `plain` files.
fn mutate(source: &Path) {
    write(source.join("b"), &bytes(11, 30_000));
    write(source.join("new"), &bytes(12, 9000));
    write(source.join("tiny"), b"another tiny\n");
    fs::remove_file(source.join("unaligned")).unwrap();
    fs::remove_dir_all(source.join("c")).unwrap();
    fs::rename(source.join("links/good"), source.join("moved link")).unwrap();
    fs::remove_file(source.join("nodes/fifo")).unwrap();
    fs::remove_file(source.join("nodes/null")).unwrap();
    write(source.join("nodes/null"), b"a file now");
    fs::remove_dir(source.join("empty dir")).unwrap();
    write(source.join("empty dir"), &bytes(13, 5000));
    fs::remove_file(source.join("hole")).unwrap();
    fs::create_dir_all(source.join("hole/deep/deeper")).unwrap();
    write(source.join("hole/deep/deeper/file"), &bytes(14, 5000));
    fs::hard_link(source.join("hole/deep/deeper/file"), source.join("hole/again")).unwrap();
    fs::set_permissions(source.join("nodes"), fs::Permissions::from_mode(0o2750)).unwrap();
    chown(source.join("nodes"), Some(3), Some(4)).unwrap();
    tools::tool("setfacl", &["-d", "-m", "u:1234:rwx"], &source.join("nodes"));
    symlink("anywhere", source.join("nodes/link")).unwrap();
}

on_filesystems! {
    [btrfs] fn trees_and_manifests_are_those_of_files_cloned_one_by_one(fs: &Filesystem) {
        let (source, repo, plain) = (fs.dir("source"), fs.join("repo"), fs.join("plain"));
        tree::every_kind(&source);
        tree::plain(&source);
        take_both("one", &source, &repo, &plain);
        take_both("two", &source, &repo, &plain);
        mutate(&source);
        take_both("three", &source, &repo, &plain);
        take_both("four", &source, &repo, &plain);
        let parent = |name: &str| tools::subvolume_property(&repo.join(name), "Parent UUID");
        let own = |name: &str| tools::subvolume_property(&repo.join(name), "UUID");
        assert_eq!([parent("two"), parent("three"), parent("four")], [own("one"), own("two"), own("three")]);
        assert_no_leftovers(&repo);
    }

    [btrfs] fn so_they_are_from_another_filesystem(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo, plain) = (other.dir("source"), fs.join("repo"), fs.join("plain"));
        tree::every_kind(&source);
        tree::plain(&source);
        for name in ["one", "two", "three"] {
            take_both(name, &source, &repo, &plain);
        }
        mutate(&source);
        take_both("four", &source, &repo, &plain);
    }

    [btrfs] fn an_unchanged_file_is_neither_opened_nor_made(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        snapshot(&source, &repo);
        settle();
        let changing = "open,openat,openat2,linkat,unlinkat,mkdirat,fchmod,fchown,fsetxattr,ioctl";
        let calls = tools::traced_calls(changing, &snapshot_named("second", &source, &repo), &fs.join("trace"));
        // A directory on the way to the filesystem may have such a name too, and is opened.
        let is_above = |name: &&str| source.iter().any(|above| above == *name);
        let names: Vec<_> = ["a", "b", "one", "three"].into_iter().filter(|name| !is_above(name)).collect();
        let of_entries = |call: &&String| names.iter().any(|name| call.contains(&format!("\"{name}\"")));
        assert_eq!(calls.iter().filter(of_entries).collect::<Vec<_>>(), [""; 0]);
        assert!(calls.iter().any(|call| call.contains("openat")), "the trace is one of a run");
        tools::assert_equal_trees(&source, &inside(&repo, "second", &source));
    }

    [btrfs] fn a_new_name_of_an_unchanged_inode_is_linked_to_it(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        // Both orders of names: the second source sorts before or after the first one.
        for (first, second) in [("m", "a"), ("m", "z")] {
            let (first, second) = (fs.dir(source.join(first)), fs.dir(source.join(second)));
            let _ = fs::remove_file(first.join("file"));
            write(first.join("file"), &bytes(1, 9000));
            fs::hard_link(first.join("file"), second.join("too")).unwrap();
            settle();
            let take = |paths: &[&Path]| {
                pleach(
                    ["snapshot".as_ref(), "--json".as_ref()]
                        .into_iter()
                        .chain(paths.iter().map(|path| path.as_os_str())),
                )
                .expect(0)
            };
            take(&[&first, &repo]);
            let summary = take(&[&first, &second, &repo]).summary();
            assert_eq!((number(&summary, "files"), number(&summary, "bytes")), (2, 9000), "{summary}");
            tools::assert_equal_trees(&first, &inside(&repo, "latest", &first));
            let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
            let (one, two) =
                (inside(&repo, "latest", &first).join("file"), inside(&repo, "latest", &second).join("too"));
            assert_eq!(inode(&one), inode(&two));
        }
    }

    [btrfs] fn what_was_taken_out_of_a_snapshot_by_hand_is_in_the_next_one(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        settle();
        take("one", &source, &repo, Subvolumes::Auto);
        settle();
        let one = repo.join("one");
        tools::set_read_only(&one, false);
        fs::remove_file(inside(&repo, "one", &source).join("c/two")).unwrap();
        tools::set_read_only(&one, true);
        let run = pleach(snapshot_named("two", &source, &repo)).expect(0).saying("was changed after it was published");
        assert_eq!(number(&run.summary(), "unchanged_files"), 5);
        tools::assert_equal_trees(&source, &inside(&repo, "two", &source));
        // A writable snapshot is not used as a base either.
        tools::set_read_only(&repo.join("two"), false);
        pleach(snapshot_named("three", &source, &repo)).expect(0).saying("was changed after it was published");
        let four = pleach(snapshot_named("four", &source, &repo)).expect(0);
        assert_eq!(four.stderr, "");
        let parent = tools::subvolume_property(&repo.join("four"), "Parent UUID");
        assert_eq!(parent, tools::subvolume_property(&repo.join("three"), "UUID"));
        assert!(!tools::is_read_only(&repo.join("two")), "it was somebody's wish");
    }

    [btrfs] fn a_run_killed_before_its_tree_was_read_only_is_completed_by_the_next(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take("one", &source, &repo, Subvolumes::Auto);
        // The state of the repository at that moment.
        tools::set_read_only(&repo.join("one"), false);
        fs::create_dir_all(repo.join(".pleach/partial/one/links")).unwrap();
        snapshot(&source, &repo);
        assert!(tools::is_read_only(&repo.join("one")));
        assert_no_leftovers(&repo);
        assert_eq!(listed(&repo).len(), 2);
    }

    [btrfs] fn without_the_right_files_are_cloned_one_by_one_and_that_is_said(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        settle();
        // Anyone may create subvolumes, but not delete them.
        let without = |name| {
            let mut command = Command::new("setpriv");
            command.args(["--inh-caps=-sys_admin", "--bounding-set=-sys_admin"]).arg(env!("CARGO_BIN_EXE_pleach"));
            finish(command.args(snapshot_named(name, &source, &repo)))
        };
        without("one").expect(0).saying("cloning each file");
        assert!(!tools::is_subvolume(&repo.join("one")));
        assert_no_leftovers(&repo);
        // With the right, without it, with it: any snapshot can follow any other.
        for (name, right) in [("two", true), ("three", true), ("four", false), ("five", true)] {
            let run = if right { pleach(snapshot_named(name, &source, &repo)) } else { without(name) }.expect(0);
            assert_eq!(number(&run.summary(), "unchanged_files"), 5, "{name}");
            assert_eq!(number(&run.summary(), "copied_bytes"), 0, "{name}");
            assert_eq!(tools::is_subvolume(&repo.join(name)), right, "{name}");
            tools::assert_equal_trees(&source, &inside(&repo, name, &source));
        }
        assert_eq!(listed(&repo).len(), 5);
        assert_no_leftovers(&repo);
    }

    [btrfs] fn they_are_listed_measured_deduped_restored_and_deleted_as_any_other(fs: &Filesystem) {
        let (source, repo, target) = (fs.dir("source"), fs.join("repo"), fs.dir("target"));
        tree::every_kind(&source);
        tree::plain(&source);
        snapshot(&source, &repo);
        mutate(&source);
        snapshot(&source, &repo);
        let names = published(&repo);
        pleach(["list".as_ref(), "--exclusive".as_ref(), repo.as_os_str()]).expect(0);
        pleach(["du".as_ref(), repo.join(&names[0]).as_os_str(), repo.join(&names[1]).as_os_str()]).expect(0);
        pleach(["dedupe".as_ref(), "--no-cache".as_ref(), repo.as_os_str()]).expect(0);
        tools::assert_equal_trees(&source, &inside(&repo, &names[1], &source));
        pleach(["restore".as_ref(), "--target".as_ref(), target.as_os_str(), repo.as_os_str(), names[1].as_ref()])
            .expect(0);
        let restored = target.join(source.strip_prefix("/").unwrap());
        tools::assert_equal_trees(&source, &restored);
        for name in &names {
            tools::delete_snapshot(&repo.join(name));
        }
        assert_eq!(listed(&repo).len(), 0);
        snapshot(&source, &repo);
        assert_eq!(listed(&repo).len(), 1);
    }
}

/// The bytes of metadata in use according to `btrfs filesystem usage`, counting every copy.
fn metadata_used(fs: &Own) -> u64 {
    let run = tools::tool("btrfs", &["filesystem", "usage", "-b"], fs.path());
    let copies = if run.stdout.contains("Metadata,DUP") { 2 } else { 1 };
    let line = run.stdout.lines().find(|line| line.starts_with("Metadata,")).expect("metadata has a line");
    let used = line.split("Used:").nth(1).expect("and reports the used space");
    let digits: String = used.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<u64>().expect("in bytes") * copies
}

#[test]
fn an_unchanged_tree_takes_next_to_no_metadata() {
    let test = concat!(module_path!(), "::an_unchanged_tree_takes_next_to_no_metadata");
    let Some(mut fs) = Own::new(Kind::Btrfs, test, 1024, &[], "") else { return };
    let (source, repo) = (fs.join("source"), fs.join("repo"));
    for dir in 0..20 {
        let dir = source.join(format!("dir-{dir}"));
        fs::create_dir_all(&dir).unwrap();
        tree::crowded(&dir, 1000);
    }
    snapshot(&source, &repo);
    fs.remount();
    let before = metadata_used(&fs);
    let summary = snapshot(&source, &repo);
    fs.remount();
    assert_eq!(number(&summary, "unchanged_files"), 20_000);
    let added = metadata_used(&fs).saturating_sub(before);
    assert!(added < 1 << 20, "{added} bytes");
    fs.assert_clean();
}
