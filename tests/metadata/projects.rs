//! Project ids, which quotas use: those of files and directories, and those inherited from directories.

use super::{Scene, assert_alike, on};
use crate::harness::*;
use crate::on_filesystems;
use std::fs;
use std::path::Path;

/// The project id and whether new entries inherit it, by lsattr.
fn project(path: &Path) -> String {
    let shown = on(path, "lsattr", &["-dp"]);
    let mut words = shown.split_whitespace();
    let (id, flags) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    format!("{id} {}", if flags.contains('P') { "inherited" } else { "" })
}

/// Nested directories of projects, and a file of another project in each.
fn projects(dir: &Path) {
    fs::create_dir_all(dir.join("forty/two/deep")).expect("directories can be made");
    on(&dir.join("forty"), "chattr", &["-p", "40", "+P"]);
    on(&dir.join("forty/two"), "chattr", &["-p", "42"]);
    for (name, id) in [("none", "0"), ("file", "7"), ("forty/own", "40"), ("forty/two/other", "4000000000")] {
        write(dir.join(name), &bytes(1, 9000));
        on(&dir.join(name), "chattr", &["-p", id]);
    }
    write(dir.join("forty/two/deep/plain"), &bytes(2, 9000));
}

#[track_caller]
fn assert_same_projects(source: &Path, copy: &Path) {
    assert_alike(source, copy, project);
}

on_filesystems! {
    [xfs] fn project_ids_are_kept(fs: &Filesystem) {
        let scene = Scene::new(fs);
        projects(&scene.source);
        scene.check(|source, copy, _| {
            tools::assert_equal_trees(source, copy);
            assert_same_projects(source, copy);
        });
        assert_eq!(project(&scene.restored().join("forty")), "40 inherited");
        let before = tools::inventory(&scene.restored());
        scene.restore();
        assert_eq!(tools::inventory(&scene.restored()), before);
        on(&scene.repo.join("first"), "rm", &["-r"]);
    }

    [btrfs, ext4] fn project_ids_come_back_from_a_repository_that_has_none(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene { source: other.dir("source"), repo: fs.join("repo"), target: other.dir("target") };
        projects(&scene.source);
        scene.check(|source, copy, is_restored| {
            tools::assert_equal_trees(source, copy);
            if is_restored {
                assert_same_projects(source, copy);
            }
        });
    }

    [xfs] fn a_repository_with_a_project_of_its_own_counts_its_snapshots_there(fs: &Filesystem) {
        let scene = Scene { source: fs.dir("source"), repo: fs.dir("repo"), target: fs.dir("target") };
        projects(&scene.source);
        on(&scene.repo, "chattr", &["-p", "99", "+P"]);
        scene.check(|source, copy, is_restored| {
            tools::assert_equal_trees(source, copy);
            if is_restored {
                assert_same_projects(source, copy);
            } else {
                assert!(tools::files(copy).iter().all(|file| project(file).starts_with("99")));
            }
        });
        assert_no_leftovers(&scene.repo);
    }

    [xfs] fn a_target_that_hands_a_project_down_changes_none_that_is_restored(fs: &Filesystem) {
        let scene = Scene::new(fs);
        projects(&scene.source);
        fs::hard_link(scene.source.join("none"), scene.source.join("none too")).expect("a hard link can be made");
        on(&scene.target, "chattr", &["-p", "98", "+P"]);
        scene.check(|source, copy, _| {
            assert_same_projects(source, copy);
            tools::assert_equal_trees(source, copy);
        });
    }
}
