//! The flags of chattr: in the tree those that do not hinder pleach, after a restore all of them.

use super::{Scene, assert_alike, on};
use crate::harness::*;
use crate::on_filesystems;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// The letters that lsattr shows, without those that only describe a filesystem's layout.
fn letters(path: &Path) -> String {
    let shown = on(path, "lsattr", &["-d"]);
    shown.split(' ').next().unwrap_or_default().chars().filter(|letter| !"-eIN".contains(*letter)).collect()
}

/// The flags that may be set on this kind of filesystem, one string for each file.
fn settable(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Btrfs => &["C", "c", "m", "A", "d", "S", "i", "a", "CAd", "ci", "ia"],
        Kind::Ext4 => &["A", "d", "S", "i", "a", "Ad", "ia"],
        _ => &["A", "d", "S", "i", "a", "AdS", "ia"],
    }
}

/// Files with content and directories with entries, with each of the flags.
fn flagged(dir: &Path, kind: Kind) {
    for flags in settable(kind) {
        let (file, inner) = (dir.join(format!("file {flags}")), dir.join(format!("dir {flags}")));
        write(&file, b"");
        fs::create_dir(&inner).expect("a directory can be made");
        let late: String = flags.chars().filter(|flag| "ia".contains(*flag)).collect();
        let early: String = flags.chars().filter(|flag| !"ia".contains(*flag)).collect();
        let chattr = |path: &Path, flags: &str| {
            if !flags.is_empty() {
                on(path, "chattr", &[&format!("+{flags}")]);
            }
        };
        // Made before the directory has the flags, so that the file does not inherit them.
        write(inner.join("plain"), &bytes(2, 20_000));
        chattr(&file, &early);
        chattr(&inner, &early);
        write(&file, &bytes(1, 20_000));
        write(inner.join("with the directory's"), &bytes(3, 20_000));
        chattr(&file, &late);
        chattr(&inner, &late);
    }
}

#[track_caller]
fn assert_same_flags(source: &Path, copy: &Path, is_restored: bool) {
    assert_alike(source, copy, |path| {
        let sealed = |letter: &char| !is_restored && "ia".contains(*letter);
        letters(path).chars().filter(|letter| !sealed(letter)).collect()
    });
    if !is_restored {
        for path in tools::paths(copy) {
            assert!(!letters(&path).contains(['i', 'a']), "{} could not be deleted", path.display());
        }
    }
}

on_filesystems! {
    fn chattr_flags_are_kept(fs: &Filesystem) {
        let scene = Scene::new(fs);
        flagged(&scene.source, fs.kind);
        scene.check(|source, copy, is_restored| {
            tools::assert_equal_trees(source, copy);
            assert_same_flags(source, copy, is_restored);
        });
        // When restored over existing files, nothing is left to do.
        let before = tools::inventory(&scene.restored());
        scene.restore();
        assert_eq!(tools::inventory(&scene.restored()), before);
    }

    fn a_snapshot_of_immutable_files_can_be_deleted(fs: &Filesystem) {
        let scene = Scene::new(fs);
        flagged(&scene.source, fs.kind);
        settle();
        pleach(snapshot_named("first", &scene.source, &scene.repo)).expect(0);
        if fs.kind == Kind::Btrfs {
            let tree = scene.repo.join("first");
            finish(Command::new("btrfs").args(["property", "set", "-f"]).arg(tree).args(["ro", "false"])).expect(0);
        }
        on(&scene.repo.join("first"), "rm", &["-r"]);
        assert!(!scene.repo.join("first").exists());
    }

    fn an_immutable_file_with_several_names_gets_them_all_and_then_the_flag(fs: &Filesystem) {
        let scene = Scene::new(fs);
        let name = |number: usize| scene.source.join(format!("dir {number}/name"));
        for number in 0..3 {
            fs::create_dir(scene.source.join(format!("dir {number}"))).expect("a directory can be made");
        }
        write(name(0), &bytes(1, 8000));
        fs::hard_link(name(0), name(1)).expect("a hard link can be made");
        fs::hard_link(name(0), name(2)).expect("a hard link can be made");
        on(&name(0), "chattr", &["+i"]);
        // A directory that accepts no more entries becomes immutable only after its entries are in it.
        on(&scene.source.join("dir 2"), "chattr", &["+i"]);
        scene.check(|source, copy, is_restored| {
            assert_same_flags(source, copy, is_restored);
            assert_eq!(fs::metadata(copy.join("dir 2/name")).expect("it is there").nlink(), 3);
        });
        // Only some of its names.
        let part = fs.dir("part");
        let restore = |path: &Path| {
            pleach(["restore".as_ref(), "--target".as_ref(), &*part, &*scene.repo, Path::new("latest"), path])
                .expect(0);
        };
        restore(&name(1));
        assert!(letters(&part.join(name(1).strip_prefix("/").expect("it is absolute"))).contains('i'));
    }

    fn an_immutable_file_gets_the_flag_even_if_its_last_name_cannot_be_restored(fs: &Filesystem) {
        let scene = Scene::new(fs);
        write(scene.source.join("a"), &bytes(1, 8000));
        fs::hard_link(scene.source.join("a"), scene.source.join("b")).expect("a hard link can be made");
        on(&scene.source.join("a"), "chattr", &["+i"]);
        settle();
        pleach(snapshot_named("one", &scene.source, &scene.repo)).expect(0);
        let target = fs.dir("target");
        let restored = |name: &str| target.join(scene.source.join(name).strip_prefix("/").expect("it is absolute"));
        fs::create_dir_all(restored("b")).expect("a directory can be made");
        write(restored("b").join("file"), b"in the way");
        pleach(["restore".as_ref(), "--target".as_ref(), &*target, &*scene.repo, Path::new("latest")])
            .expect(3)
            .saying("--delete");
        assert!(letters(&restored("a")).contains('i'));
    }

    fn a_change_of_flags_alone_is_seen(fs: &Filesystem) {
        let scene = Scene::new(fs);
        write(scene.source.join("file"), &bytes(1, 8000));
        write(scene.source.join("other"), &bytes(2, 8000));
        settle();
        pleach(snapshot_named("first", &scene.source, &scene.repo)).expect(0);
        on(&scene.source.join("file"), "chattr", &["+dA"]);
        scene.check_named(&["second", "third"], |source, copy, _| assert_same_flags(source, copy, true));
        assert_eq!(letters(&inside(&scene.repo, "first", &scene.source).join("file")), "");
        on(&scene.source.join("file"), "chattr", &["-dA"]);
        settle();
        pleach(snapshot_named("fourth", &scene.source, &scene.repo)).expect(0);
        assert_eq!(letters(&inside(&scene.repo, "fourth", &scene.source).join("file")), "");
    }

    [xfs, btrfs] fn unchanged_files_are_not_asked_for_their_flags(fs: &Filesystem) {
        let scene = Scene::new(fs);
        tree::plain(&scene.source);
        settle();
        pleach(snapshot_named("first", &scene.source, &scene.repo)).expect(0);
        settle();
        let calls =
            tools::traced_calls("ioctl", &snapshot_named("second", &scene.source, &scene.repo), &fs.join("trace"));
        let files = tools::files(&scene.source);
        let asked = |call: &&String| {
            (call.contains("FS_IOC_GETFLAGS") || call.contains("FS_IOC_FSGETXATTR"))
                && files.iter().any(|file| call.contains(&format!("<{}>", file.display())))
        };
        assert_eq!(calls.iter().filter(asked).collect::<Vec<_>>(), [""; 0]);
        // No flags are set on the copy either.
        let given = |call: &&String| call.contains("FS_IOC_SETFLAGS") || call.contains("FS_IOC_FSSETXATTR");
        assert_eq!(calls.iter().filter(given).collect::<Vec<_>>(), [""; 0]);
    }

    [btrfs] fn files_written_in_place_are_cloned_into_such_files(fs: &Filesystem) {
        let scene = Scene::new(fs);
        for name in ["empty", "small", "large"] {
            write(scene.source.join(name), b"");
            on(&scene.source.join(name), "chattr", &["+C"]);
        }
        write(scene.source.join("small"), &bytes(1, 20_000));
        write(scene.source.join("large"), &bytes(2, 3 << 20));
        write(scene.source.join("plain"), &bytes(3, 20_000));
        for name in ["first", "second"] {
            settle();
            let summary = pleach(snapshot_named(name, &scene.source, &scene.repo)).expect(0).summary();
            assert_eq!(number(&summary, "copied_bytes"), 0, "{summary}");
        }
        scene.restore();
        for copy in [
            inside(&scene.repo, "first", &scene.source),
            inside(&scene.repo, "second", &scene.source),
            scene.restored(),
        ] {
            assert_same_flags(&scene.source, &copy, true);
            for name in ["small", "large", "plain"] {
                assert!(tools::assert_same_blocks(&scene.source.join(name), &copy.join(name)), "{name}");
            }
        }
        // An existing file with the same content, but without the no-copy-on-write flag, is made again.
        let other = scene.restored().join("small");
        fs::remove_file(&other).expect("a file can be removed");
        write(&other, &bytes(1, 20_000));
        let original = fs::metadata(scene.source.join("small")).expect("it is there");
        tree::set_mtime(&other, original.mtime(), original.mtime_nsec());
        assert_eq!(letters(&other), "");
        scene.restore();
        assert_same_flags(&scene.source, &scene.restored(), true);
    }

    [btrfs] fn a_repository_with_flags_of_its_own_hands_none_down(fs: &Filesystem) {
        for flag in ["C", "c"] {
            let scene = Scene {
                source: fs.dir(format!("source {flag}")),
                repo: fs.dir(format!("repo {flag}")),
                target: fs.dir(format!("target {flag}")),
            };
            tree::plain(&scene.source);
            on(&scene.repo, "chattr", &[&format!("+{flag}")]);
            on(&scene.target, "chattr", &[&format!("+{flag}")]);
            scene.check(|source, copy, _| {
                assert_same_flags(source, copy, true);
                tools::assert_equal_trees(source, copy);
                for file in tools::files(source) {
                    let name = file.strip_prefix(source).expect("it lies in the source");
                    assert!(tools::assert_same_blocks(&file, &copy.join(name)), "{}", name.display());
                }
            });
        }
    }

    [btrfs] fn the_way_of_compression_is_kept(fs: &Filesystem) {
        let scene = Scene::new(fs);
        let property = |path: &Path, value: &str| {
            finish(Command::new("btrfs").args(["property", "set"]).arg(path).args(["compression", value])).expect(0);
        };
        fs::create_dir(scene.source.join("dir")).expect("a directory can be made");
        write(scene.source.join("dir/before"), &bytes(1, 20_000));
        property(&scene.source.join("dir"), "zstd");
        write(scene.source.join("dir/behind"), &vec![7; 200_000]);
        for (name, value) in [("lzo", "lzo"), ("zlib", "zlib"), ("none", "none"), ("zstd", "zstd")] {
            write(scene.source.join(name), b"");
            property(&scene.source.join(name), value);
            on(&scene.source.join(name), "chattr", &["+d"]);
            property(&scene.source.join(name), value);
            write(scene.source.join(name), &vec![8; 200_000]);
        }
        scene.check(|source, copy, _| {
            assert_alike(source, copy, tools::xattrs);
            assert_same_flags(source, copy, true);
        });
        assert!(tools::xattrs(&scene.restored().join("dir")).contains("btrfs.compression"));
        assert!(!tools::xattrs(&scene.restored().join("dir/before")).contains("btrfs.compression"));
    }

    [xfs] fn flags_that_a_filesystem_does_not_have_are_told_and_kept_in_the_manifest(fs: &Filesystem) {
        // A snapshot of Btrfs on XFS, restored there and on Btrfs.
        let Ok(other) = Filesystem::open(Kind::Btrfs, "flags::on_btrfs") else { return };
        let scene = Scene { source: other.dir("source"), repo: fs.join("repo"), target: other.dir("target") };
        write(scene.source.join("file"), b"");
        on(&scene.source.join("file"), "chattr", &["+C"]);
        write(scene.source.join("file"), &bytes(1, 20_000));
        scene.check_named(&["first", "second"], |source, copy, is_restored| {
            assert!(!is_restored || letters(&copy.join("file")) == letters(&source.join("file")));
        });
        let here = fs.dir("target");
        pleach(["restore".as_ref(), "--target".as_ref(), &*here, &*scene.repo, Path::new("latest")])
            .expect(3)
            .saying("chattr flags C");
    }
}
