//! Sound snapshots have no damage, however they were made.

use super::*;
use crate::harness::tools::set_read_only;

/// Changes some of the tree.
fn evolve(source: &Path) {
    overwrite(&source.join("large"), 1 << 20, &bytes(90, 70_000));
    fs::remove_file(source.join("unaligned")).unwrap();
    fs::rename(source.join("sparse"), source.join("moved")).unwrap();
    fs::create_dir(source.join("new dir")).unwrap();
    write(source.join("new dir/file"), &bytes(91, 20_000));
}

on_filesystems! {
    fn snapshots_of_every_kind_of_entry_are_sound(fs: &Filesystem) {
        let other = fs.elsewhere();
        for (number, source) in [fs.dir("source"), other.dir("source")].into_iter().enumerate() {
            tree::every_kind(&source);
            let repo = fs.join(format!("repo {number}"));
            take("one", &source, &repo);
            take("two", &source, &repo);
            evolve(&source);
            take("three", &source, &repo);
            let stats = assert_sound(&repo, &source);
            assert_eq!((stats.rows.len(), stats.unshared_bytes), (3, 0), "{stats:?}");
            // Two files are too much of a hole to have a hash.
            assert_eq!(stats.unhashed_files, 3 * 2);
        }
    }

    fn snapshots_with_unchanged_files_as_hard_links_are_sound(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        for name in ["one", "two", "three"] {
            settle();
            let args = ["snapshot", "--unchanged", "hardlink", "--name", name].map(OsStr::new);
            pleach(args.into_iter().chain([source.as_os_str(), repo.as_os_str()])).expect(0);
            if name == "two" {
                evolve(&source);
            }
        }
        let stats = assert_sound(&repo, &source);
        assert_eq!(stats.unshared_bytes, 0);
        assert!(stats.read_bytes < stats.checked_bytes / 2, "{stats:?}");
    }

    fn snapshots_of_an_ordinary_user_are_sound(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.dir("repo"));
        tree::every_kind(&source);
        for name in ["modes/0000", "modes/6711"] {
            fs::remove_file(source.join(name)).unwrap();
        }
        fs::remove_dir_all(source.join("modes/closed")).unwrap();
        fs::set_permissions(source.join("nodes"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(&repo, Some(65_534), Some(65_534)).unwrap();
        let as_nobody = |args: &[&OsStr]| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_pleach")]);
            finish(command.args(args).env_remove("PLEACH_REPO"))
        };
        for name in ["one", "two"] {
            settle();
            let args = ["snapshot", "-q", "--name", name].map(OsStr::new);
            as_nobody(&[&args[..], &[source.as_ref(), repo.as_ref()]].concat()).expect(0);
        }
        assert_sound(&repo, &source);
        as_nobody(&["verify".as_ref(), repo.as_ref()]).expect(0);
    }

    fn files_without_a_hash_are_compared_by_status_and_counted(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        settle();
        let args = ["snapshot", "--hash", "none", "--name", "one"].map(OsStr::new);
        pleach(args.into_iter().chain([source.as_os_str(), repo.as_os_str()])).expect(0);
        let (stats, found) = damage(&repo, &source, &Options::default());
        assert_eq!((found, stats.files), (vec![], 5));
        // A copy is hashed on its way, whatever was asked for.
        assert_eq!(stats.unhashed_files + stats.checked_files, 5);
        assert!(stats.unhashed_files == 5 || fs.kind == Kind::Ext4);
        let tree = inside(&repo, "one", &source);
        change(&repo, "one", || fs::write(tree.join("a"), b"short").unwrap());
        assert_eq!(damage(&repo, &source, &Options::default()).1, [("one".into(), "a".into(), Fault::Size)]);
    }

    fn a_repository_below_its_source_is_sound(fs: &Filesystem) {
        let source = fs.dir("source");
        tree::plain(&source);
        let repo = source.join("repo");
        take("one", &source, &repo);
        take("two", &source, &repo);
        assert_sound(&repo, &source);
    }

    [btrfs] fn trees_that_are_subvolumes_and_trees_that_are_not_are_verified_together(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        take("one", &source, &repo);
        take("two", &source, &repo);
        assert!(tools::is_subvolume(&repo.join("two")));
        // A writable tree is no longer the base of the next one.
        set_read_only(&repo.join("two"), false);
        take("three", &source, &repo);
        evolve(&source);
        take("four", &source, &repo);
        let stats = assert_sound(&repo, &source);
        assert_eq!(stats.unshared_bytes, 0);
        let data = stats.rows[0].checked_bytes;
        assert!(stats.read_bytes < data + (8 << 20), "shared data was read once: {stats:?}");
    }

    [xfs, ext4] fn a_tree_deeper_than_a_path_can_be_is_verified(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::deeper_than_path_max(&source);
        take("one", &source, &repo);
        take("two", &source, &repo);
        let stats = assert_sound(&repo, &source);
        assert_eq!((stats.files, stats.checked_files), (2, 2));
    }
}
