//! Directories in a repository that are not snapshots: the trees that somebody renamed, and others.

use crate::harness::json_lines::Warning;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

fn run(command: &str, repo: &Path, more: &[&str]) -> Run {
    let more = more.iter().map(OsStr::new);
    pleach([OsStr::new(command), repo.as_os_str()].into_iter().chain(more)).expect(0)
}

on_filesystems! {
    [xfs, ext4] fn a_renamed_snapshot_comes_back_with_its_old_name(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        for name in ["one", "two", "three"] {
            pleach(snapshot_named(name, &source, &repo)).expect(0);
        }
        run("pin", &repo, &["two"]);
        run("tag", &repo, &["two", "+kept"]);
        fs::rename(repo.join("two"), repo.join("zwei")).unwrap();
        for command in ["list", "prune"] {
            let more: &[&str] = if command == "prune" { &["--keep-last=9"] } else { &[] };
            run(command, &repo, more).saying("zwei has no manifest").saying("the snapshot two has no tree");
        }
        let warned = run("list", &repo, &["--json"]).lines::<Warning>();
        assert_eq!(warned[0].code, "no-manifest");
        pleach(snapshot_named("four", &source, &repo)).expect(0).saying("zwei");
        assert_eq!(listed(&repo), ["one", "three", "four"]);
        fs::rename(repo.join("zwei"), repo.join("two")).unwrap();
        let list = run("list", &repo, &["--json"]).json();
        let two = list.iter().find(|line| line["name"] == "two").expect("it is back");
        assert_eq!((&two["pinned"], &two["tags"][0]), (&true.into(), &"kept".into()));
        run("verify", &repo, &[]);
        run("verify", &repo, &["one"]);
        // A tree that is gone leaves nothing.
        tools::let_be_removed(&repo);
        fs::remove_dir_all(repo.join("one")).unwrap();
        pleach(snapshot_named("five", &source, &repo)).expect(0);
        assert!(!repo.join(".pleach/manifests/one").exists());
        assert_no_leftovers(&repo);
    }

    [xfs, ext4] fn the_manifest_of_a_tree_that_is_elsewhere_stays(fs: &Filesystem) {
        let (source, repo, away) = (fs.dir("source"), fs.join("repo"), fs.dir("away"));
        tree::plain(&source);
        for name in ["one", "two", "three"] {
            pleach(snapshot_named(name, &source, &repo)).expect(0);
        }
        run("pin", &repo, &["two"]);
        fs::rename(repo.join("two"), away.join("two")).unwrap();
        let place = repo.join("two");
        for is_link in [true, false] {
            if is_link {
                std::os::unix::fs::symlink(away.join("two"), &place).unwrap();
            } else {
                write(&place, b"see elsewhere");
            }
            run("list", &repo, &[]).saying("repo/two is not the tree of its snapshot");
            run("prune", &repo, &["--keep-last=9"]).saying("is not the tree of its snapshot");
            let name = if is_link { "four" } else { "five" };
            pleach(snapshot_named(name, &source, &repo)).expect(0).saying("is not the tree of its snapshot");
            pleach(snapshot_named("two", &source, &repo)).expect(1).saying("choose another name");
            for more in [&[][..], &["two"]] {
                let args = [OsStr::new("verify"), "--json".as_ref(), repo.as_os_str()];
                let found = pleach(args.into_iter().chain(more.iter().map(OsStr::new))).expect(4);
                assert_eq!(found.lines::<Warning>()[0].code, "no-tree");
                let damage = found.json().into_iter().find(|line| line["type"] == "damage").unwrap();
                assert_eq!((&damage["snapshot"], &damage["why"]), (&"two".into(), &"type".into()));
            }
            run("verify", &repo, &["one"]);
            fs::remove_file(&place).unwrap();
        }
        fs::rename(away.join("two"), &place).unwrap();
        let list = run("list", &repo, &["--json"]).json();
        assert_eq!(list.iter().find(|line| line["name"] == "two").expect("it is back")["pinned"], true);
        run("verify", &repo, &[]);
    }

    [btrfs] fn in_a_snapshot_of_its_subvolume_a_repository_has_no_trees(fs: &Filesystem) {
        let (source, subvolume, copy) = (fs.dir("source"), fs.join("subvolume"), fs.join("copy"));
        tree::plain(&source);
        finish(Command::new("btrfs").args(["-q", "subvolume", "create"]).arg(&subvolume)).expect(0);
        let repo = subvolume.join("repo");
        for name in ["one", "two"] {
            pleach(snapshot_named(name, &source, &repo)).expect(0);
        }
        pleach([OsStr::new("replicate"), repo.as_ref(), copy.as_ref()]).expect(0);
        let back = fs.join("back");
        finish(Command::new("btrfs").args(["-q", "subvolume", "snapshot"]).args([&subvolume, &back])).expect(0);
        let repo = back.join("repo");
        run("list", &repo, &[]).saying("repo/one and 1 more are not the trees").saying("no snapshots");
        pleach([OsStr::new("replicate"), copy.as_ref(), repo.as_ref()]).expect(1).saying("is elsewhere; remove this");
        pleach([OsStr::new("verify"), repo.as_ref()]).expect(4);
        pleach(snapshot_named("three", &source, &repo)).expect(0).saying("are not the trees of their snapshots");
        assert_eq!(listed(&repo), ["three"]);
        for name in ["one", "two"] {
            fs::remove_dir(repo.join(name)).unwrap();
        }
        pleach([OsStr::new("replicate"), copy.as_ref(), repo.as_ref()]).expect(0);
        assert_eq!(listed(&repo), ["one", "two", "three"]);
        run("verify", &repo, &[]);
        tools::assert_equal_trees(&source, &inside(&repo, "one", &source));
    }
}
