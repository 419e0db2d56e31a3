//! The manifest keeps the metadata that an ordinary user may not set on files, and root restores it from there.

use super::{Scene, on};
use crate::harness::*;
use crate::on_filesystems;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

const NOBODY: u32 = 65_534;

/// Runs pleach as nobody.
fn as_nobody(args: &[&str], paths: &[&Path]) -> Run {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_pleach")]);
    finish(command.args(args).args(paths).env_remove("PLEACH_REPO"))
}

/// A tree with every kind of entry, readable by the user nobody. It has no trusted attributes: that user cannot even
/// see them.
fn readable(dir: &Path) {
    tree::every_kind(dir);
    for name in ["0000", "6711"] {
        fs::remove_file(dir.join("modes").join(name)).expect("a file can be removed");
    }
    fs::remove_dir_all(dir.join("modes/closed")).expect("a directory can be removed");
    fs::set_permissions(dir.join("nodes"), fs::Permissions::from_mode(0o755)).expect("a mode can be set");
    on(&dir.join("attributes/trusted"), "setfattr", &["-x", "trusted.note"]);
    on(&dir.join("attributes/link"), "setfattr", &["-h", "-x", "trusted.note"]);
}

on_filesystems! {
    fn what_an_ordinary_user_cannot_give_is_restored_by_root_from_the_manifest(fs: &Filesystem) {
        let scene = Scene { source: fs.dir("source"), repo: fs.dir("repo"), target: fs.dir("target") };
        readable(&scene.source);
        on(&scene.source.join("large"), "chattr", &["+dA"]);
        if fs.kind == Kind::Xfs {
            on(&scene.source.join("large"), "chattr", &["-p", "77"]);
        }
        on(&scene.source.join("tiny"), "chattr", &["+i"]);
        std::os::unix::fs::chown(&scene.repo, Some(NOBODY), Some(NOBODY)).expect("root may give files away");
        for name in ["first", "second"] {
            settle();
            as_nobody(&["snapshot", "-q", "--name", name], &[&scene.source, &scene.repo]).expect(0);
            let tree = inside(&scene.repo, name, &scene.source);
            assert!(
                tools::paths(&tree)
                    .iter()
                    .all(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == NOBODY))
            );
            let given = fs::metadata(tree.join("modes/4755")).expect("it is there");
            assert_eq!(given.mode() & 0o7777, 0o755, "another's set-id bit is no gift");
            assert!(!tree.join("nodes/null").exists(), "a device is root's to make");
            assert!(!tools::xattrs(&tree.join("attributes/capability")).contains("capability"));
        }
        scene.restore();
        let restored = scene.restored();
        tools::assert_equal_trees(&scene.source, &restored);
        assert!(fs::metadata(restored.join("nodes/null")).expect("it is there").file_type().is_char_device());
        assert!(on(&restored.join("attributes/capability"), "getcap", &[]).contains("cap_net_raw=ep"));
        for name in ["large", "tiny"] {
            let shown =
                |dir: &Path| on(&dir.join(name), "lsattr", &["-d"]).split(' ').next().unwrap_or_default().to_string();
            assert_eq!(shown(&restored), shown(&scene.source), "{name}");
        }
        assert!(on(&restored.join("tiny"), "lsattr", &["-d"]).contains('i'));
        if fs.kind == Kind::Xfs {
            assert!(on(&restored.join("large"), "lsattr", &["-dp"]).trim_start().starts_with("77"));
        }
    }

    fn an_ordinary_user_is_told_what_could_not_be_restored(fs: &Filesystem) {
        let scene = Scene { source: fs.dir("source"), repo: fs.dir("repo"), target: fs.dir("target") };
        write(scene.source.join("fixed"), &bytes(1, 5000));
        on(&scene.source.join("fixed"), "chattr", &["+i"]);
        for dir in [&scene.source, &scene.repo, &scene.target] {
            std::os::unix::fs::chown(dir, Some(NOBODY), Some(NOBODY)).expect("root may give files away");
        }
        as_nobody(&["snapshot", "-q"], &[&scene.source, &scene.repo]).expect(0);
        let (repo, target) = (scene.repo.to_string_lossy(), scene.target.to_string_lossy());
        let run = as_nobody(&["restore", &repo, "latest", "--target", &target], &[]).expect(3);
        run.saying("chattr flags i").saying("root may");
        assert_eq!(fs::read(scene.restored().join("fixed")).expect("its content is there"), bytes(1, 5000));
    }
}

#[test]
fn how_new_files_come_into_being_is_learnt_without_a_change_to_other_threads() {
    let mask = || {
        let status = fs::read_to_string("/proc/self/status").expect("procfs is mounted");
        status.lines().find(|line| line.starts_with("Umask:")).expect("the kernel reports it").to_string()
    };
    let before = mask();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..500 {
                    pleach::testing::metadata::Creator::current();
                    assert_eq!(mask(), before);
                }
            });
        }
    });
}
