//! `--repair-from`: damaged files are replaced by sound copies, and by nothing else.

use super::*;
use rustix::fs::{FlockOperation, flock};
use std::os::unix::fs::MetadataExt as _;

/// A run that repairs.
pub(super) fn repair(repo: &Path, from: impl AsRef<OsStr>) -> Run {
    pleach([OsStr::new("verify"), "--json".as_ref(), "--repair-from".as_ref(), from.as_ref(), repo.as_os_str()])
}

/// Asserts that no repair left anything.
#[track_caller]
pub(super) fn assert_closed(repo: &Path) {
    let list = repo.join(".pleach/repairing");
    assert!(!list.exists() || names(&list).is_empty());
    for name in published(repo) {
        assert!(!tools::is_subvolume(&repo.join(&name)) || tools::is_read_only(&repo.join(&name)));
    }
}

on_filesystems! {
    fn damage_in_all_snapshots_is_repaired_from_the_sources(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        fs::create_dir(source.join("dir")).unwrap();
        for name in ["content", "dir/gone", "longer"] {
            write(source.join(name), &bytes(name.len() as u64, 90_000));
        }
        fs::hard_link(source.join("content"), source.join("dir/linked")).unwrap();
        fs::set_permissions(source.join("content"), fs::Permissions::from_mode(0o640)).unwrap();
        take("one", &source, &repo);
        take("two", &source, &repo);
        for name in ["one", "two"] {
            let tree = inside(&repo, name, &source);
            change(&repo, name, || {
                overwrite_quietly(&tree.join("content"), 5000, b"rotten");
                fs::remove_file(tree.join("dir/gone")).unwrap();
                write(tree.join("longer"), &bytes(6, 90_001));
            });
        }
        let summary = repair(&repo, "/").expect(0).summary();
        // Four files and the time of a directory, in each snapshot.
        assert_eq!((number(&summary, "damaged"), number(&summary, "repaired")), (10, 10));
        assert_closed(&repo);
        assert_sound(&repo, &source);
        for name in ["one", "two"] {
            tools::assert_equal_trees(&source, &inside(&repo, name, &source));
        }
        let file = |name: &str| inside(&repo, name, &source).join("content");
        assert!(!fs.reflinks() || tools::assert_same_blocks(&file("one"), &file("two")));
        take("three", &source, &repo);
        assert_sound(&repo, &source);
    }

    fn a_copy_with_another_hash_replaces_nothing(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 90_000));
        take("one", &source, &repo);
        let tree = inside(&repo, "one", &source);
        change(&repo, "one", || overwrite_quietly(&tree.join("file"), 5000, b"rotten"));
        overwrite_quietly(&source.join("file"), 5000, b"other!");
        let before = (fs::read(tree.join("file")).unwrap(), fs::metadata(tree.join("file")).unwrap().ino());
        let summary = repair(&repo, "/").expect(4).summary();
        assert_eq!((number(&summary, "damaged"), number(&summary, "repaired")), (1, 0));
        let after = (fs::read(tree.join("file")).unwrap(), fs::metadata(tree.join("file")).unwrap().ino());
        assert!(before == after);
        assert_eq!(names(&tree), ["file"]);
        assert_closed(&repo);
    }

    fn another_snapshot_repairs_links_between_snapshots(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 90_000));
        take("sound", &source, &repo);
        for name in ["one", "two"] {
            settle();
            let mut args = snapshot_named(name, &source, &repo).to_vec();
            args.extend(["--unchanged", "hardlink"].map(OsStr::new));
            pleach(args).expect(0);
        }
        let file = |name: &str| inside(&repo, name, &source).join("file");
        // `sound` gets data of its own.
        change(&repo, "sound", || {
            in_directory(&inside(&repo, "sound", &source), || {
                let modified = fs::metadata(file("sound")).unwrap().modified().unwrap();
                fs::remove_file(file("sound")).unwrap();
                write(file("sound"), &bytes(1, 90_000));
                File::open(file("sound")).unwrap().set_modified(modified).unwrap();
            });
        });
        let were_links = fs::metadata(file("one")).unwrap().ino() == fs::metadata(file("two")).unwrap().ino();
        change(&repo, "one", || overwrite_quietly(&file("one"), 5000, b"rotten"));
        repair(&repo, "sound").expect(0);
        let are_links = fs::metadata(file("one")).unwrap().ino() == fs::metadata(file("two")).unwrap().ino();
        assert_eq!(were_links, are_links);
        assert_closed(&repo);
        assert_sound(&repo, &source);
    }

    fn killed_at_any_call_it_leaves_each_file_as_it_was_or_sound_and_a_later_run_finishes(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let steps = [("renameat", 1), ("renameat", 2), ("renameat2", 1), ("renameat2", 2), ("fsync", 1), ("fsync", 3),
            ("fsync", 5), ("fdatasync", 1), ("fdatasync", 2), ("linkat", 1), ("unlinkat", 1),
            ("utimensat", 2), ("ioctl", 9)];
        let mut killed = 0;
        for (number, (call, nth)) in steps.into_iter().enumerate() {
            let (source, repo) = (elsewhere.dir(format!("{number}")), fs.join(format!("{number}")));
            fs::create_dir(source.join("dir")).unwrap();
            for name in ["file", "dir/other", "dir/third"] {
                write(source.join(name), &bytes(name.len() as u64, 90_000));
            }
            fs::hard_link(source.join("file"), source.join("dir/linked")).unwrap();
            let snapshots = ["one", "two"];
            for name in snapshots {
                take(name, &source, &repo);
            }
            let tree = |name: &str| inside(&repo, name, &source);
            for name in snapshots {
                change(&repo, name, || {
                    overwrite_quietly(&tree(name).join("file"), 5000, b"rotten");
                    overwrite_quietly(&tree(name).join("dir/other"), 7000, b"rotten");
                });
            }
            let args = ["verify", "--repair-from", "/"].map(OsStr::new);
            let run = tools::killed_at(call, nth, &args.into_iter().chain([repo.as_os_str()]).collect::<Vec<_>>());
            killed += u32::from(run.status == 128 + 9);
            assert_eq!(listed(&repo), snapshots);
            let paths = ["file", "dir/other", "dir/third"];
            for (path, name) in snapshots.iter().flat_map(|name| paths.map(|path| (path, name))) {
                let (content, sound) = (fs::read(tree(name).join(path)).unwrap(), fs::read(source.join(path)).unwrap());
                let differs = content.iter().zip(&sound).filter(|(now, then)| now != then).count();
                assert!(content.len() == sound.len() && differs <= 6, "{call} {nth}: {name}: {path}");
            }
            repair(&repo, "/").expect(0);
            assert_closed(&repo);
            assert_sound(&repo, &source);
            for name in snapshots {
                tools::assert_equal_trees(&source, &tree(name));
            }
            take("three", &source, &repo);
            assert_sound(&repo, &source);
        }
        assert!(killed >= 6, "{killed} runs were killed");
    }

    fn a_list_that_a_repair_left_hinders_no_other_one(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        fs::create_dir_all(source.join("dir")).unwrap();
        write(source.join("dir/file"), &bytes(1, 90_000));
        take("one", &source, &repo);
        let tree = inside(&repo, "one", &source);
        // A temporary name of a killed repair, which the next run removes by its list. It cannot remove the list.
        let list = repo.join(".pleach/repairing/one");
        let meta = fs::metadata(tree.join("dir")).unwrap();
        let modified = format!("{} {}", meta.mtime(), meta.mtime_nsec());
        change(&repo, "one", || {
            overwrite_quietly(&tree.join("dir/file"), 5000, b"rotten");
            write(tree.join("dir/.pleach-repair.1.0"), b"");
        });
        fs::create_dir(list.parent().unwrap()).unwrap();
        let path = source.join("dir");
        let path = path.to_str().unwrap().trim_start_matches('/');
        write(&list, format!("repairing 1\0{modified} {path}\05 0 {}", &path[..path.len() - 4]).as_bytes());
        tools::tool("chattr", &["+a"], &list);
        let run = repair(&repo, "/").saying("the repaired files of the snapshot one are in place");
        // On Btrfs, the temporary name is damage, and gone afterwards.
        assert!([3, 4].contains(&run.status), "{run:?}");
        assert_eq!(number(&run.summary(), "errors"), 2, "{run:?}");
        assert_eq!(fs::read(tree.join("dir/file")).unwrap(), bytes(1, 90_000), "{}", run.stderr);
        assert!(!tools::is_subvolume(&repo.join("one")) || tools::is_read_only(&repo.join("one")));
        tools::tool("chattr", &["-a"], &list);
        repair(&repo, "/").expect(0);
        assert_eq!(names(&tree.join("dir")), ["file"]);
        assert_closed(&repo);
        assert_sound(&repo, &source);
        tools::assert_equal_trees(&source, &tree);
    }

    [btrfs] fn a_subvolume_that_was_writable_before_is_read_only_afterwards(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 90_000));
        take("one", &source, &repo);
        tools::set_read_only(&repo.join("one"), false);
        overwrite_quietly(&inside(&repo, "one", &source).join("file"), 5000, b"rotten");
        let summary = repair(&repo, "/").expect(0).summary();
        assert_eq!((number(&summary, "damaged"), number(&summary, "repaired")), (1, 1));
        assert_closed(&repo);
        assert_sound(&repo, &source);
    }

    fn without_damage_nothing_is_touched(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        take("one", &source, &repo);
        let before = tools::inventory(&repo.join("one"));
        let summary = repair(&repo, "/").expect(0).summary();
        assert_eq!((number(&summary, "damaged"), number(&summary, "repaired")), (0, 0));
        assert_eq!(tools::inventory(&repo.join("one")), before);
        assert_closed(&repo);
    }

    [xfs] fn a_repair_beside_another_run_is_turned_away(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 90_000));
        take("one", &source, &repo);
        let lock = File::options().write(true).open(repo.join(".pleach/lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        repair(&repo, "/").expect(11);
        run(&repo, &[]).expect(0);
    }
}

#[test]
fn a_repair_reads_content() {
    pleach(["verify", "/nowhere", "--quick", "--repair-from", "/"]).expect(2);
}
