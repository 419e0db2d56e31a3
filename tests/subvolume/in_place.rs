//! A changed file keeps its inode in the next snapshot, and nothing else shows that it was not made anew.

use super::{metadata_used, take, take_both};
use crate::harness::meddler::{Meddler, When};
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use pleach::snapshot::create::{self, Options, Stats, Subvolumes};
use rustix::fs::{FileType, Mode};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// Files that keep their inodes when [`edit`] changes them.
const KEPT: [&str; 12] = [
    "appended", "cut", "emptied", "filled", "inline", "large", "larger", "mode", "owner", "punched", "tiny", "touched",
];

fn make(dir: &Path) {
    write(dir.join("a first one"), b"content");
    let sizes =
        [("emptied", 50_000), ("filled", 0), ("inline", 900), ("large", 3 << 20), ("larger", 2 << 20), ("tiny", 60)];
    for (name, size) in sizes {
        write(dir.join(name), &bytes(1, size));
    }
    let others =
        ["acl", "appended", "cut", "flag", "linked", "mode", "owner", "punched", "replaced", "touched", "xattr"];
    for (seed, name) in (2..).zip(others) {
        write(dir.join(name), &bytes(seed, 70_000));
    }
}

fn edit(dir: &Path) {
    let at = |name: &str| dir.join(name);
    // The first file of another filesystem is made anew: the kernel has to refuse a clone once.
    write(at("a first one"), b"other content");
    write(at("appended"), &[bytes(3, 70_000), bytes(30, 50_000)].concat());
    File::options().write(true).open(at("cut")).unwrap().set_len(10_001).unwrap();
    write(at("emptied"), b"");
    write(at("filled"), &bytes(31, 9_000));
    write(at("inline"), &bytes(32, 300));
    overwrite(&at("large"), 1 << 20, &bytes(33, 5_000));
    write(at("larger"), &bytes(34, 2_500_000));
    fs::set_permissions(at("mode"), fs::Permissions::from_mode(0o4711)).unwrap();
    chown(at("owner"), Some(1234), Some(5678)).unwrap();
    tools::tool("fallocate", &["--punch-hole", "-o", "8192", "-l", "32768"], &at("punched"));
    write(at("tiny"), &bytes(35, 80_000));
    File::options().write(true).open(at("touched")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    tools::tool("setfacl", &["-m", "u:1234:rwx"], &at("acl"));
    tools::tool("chattr", &["+A"], &at("flag"));
    fs::hard_link(at("linked"), at("another name")).unwrap();
    write(at("new"), &bytes(36, 20_000));
    fs::rename(at("new"), at("replaced")).unwrap();
    tools::tool("setfattr", &["-n", "user.some", "-v", "thing"], &at("xattr"));
}

/// Changes all files again; those with metadata of their own lose it.
fn edit_again(dir: &Path) {
    tools::tool("setfacl", &["-b"], &dir.join("acl"));
    tools::tool("chattr", &["-A"], &dir.join("flag"));
    tools::tool("setfattr", &["-x", "user.some"], &dir.join("xattr"));
    fs::remove_file(dir.join("another name")).unwrap();
    fs::set_permissions(dir.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    chown(dir.join("owner"), Some(0), Some(0)).unwrap();
    write(dir.join("a first one"), b"again");
    for (seed, name) in (40..).zip(KEPT) {
        overwrite(&dir.join(name), 0, &bytes(seed, 100));
    }
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

#[track_caller]
fn assert_kept(source: &Path, repo: &Path, before: &str, after: &str) {
    for name in KEPT {
        let of = |snapshot| inode(&inside(repo, snapshot, source).join(name));
        assert_eq!(of(before), of(after), "the inode of {name}");
    }
}

/// Snapshots of all edits, in this way and file by file, which must be equal.
fn compare_both_ways(source: &Path, fs: &Filesystem) {
    let (repo, plain) = (fs.join("repo"), fs.join("plain"));
    make(source);
    take_both("one", source, &repo, &plain);
    edit(source);
    take_both("two", source, &repo, &plain);
    assert_kept(source, &repo, "one", "two");
    edit_again(source);
    take_both("three", source, &repo, &plain);
    assert_kept(source, &repo, "two", "three");
    let replaced = |snapshot| inode(&inside(&repo, snapshot, source).join("xattr"));
    assert_ne!(replaced("two"), replaced("three"), "an inode with attributes of its own is not kept");
}

/// Takes two snapshots of a directory. After the second run has looked at the changed file, and before it opens the
/// file, `meddle` interferes.
fn meanwhile(fs: &Filesystem, size: usize, meddle: impl Fn(&Path) + Sync) -> (Stats, Vec<String>, std::path::PathBuf) {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    let file = source.join("file");
    write(&file, &bytes(1, size));
    write(source.join("another"), &bytes(2, 10_000));
    settle();
    take("one", &source, &repo, Subvolumes::Auto);
    write(&file, &bytes(3, size));
    settle();
    let meddler = Meddler::new(When::Copying, || meddle(&file));
    let options = Options { name: Some("two".into()), narrow_walks: Some(0), threads: Some(1), ..Options::default() };
    let stats = create::create(std::slice::from_ref(&source), &repo, &options, &meddler).unwrap();
    let parent = tools::subvolume_property(&repo.join("two"), "Parent UUID");
    assert_eq!(parent, tools::subvolume_property(&repo.join("one"), "UUID"), "the second tree began with the first");
    (stats, meddler.problems(), inside(&repo, "two", &source).join("file"))
}

/// A snapshot of `source` in which no read of `file` succeeds.
fn with_unreadable(file: &Path, name: &str, source: &Path, repo: &Path) -> Run {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e"]);
    strace.arg("inject=read,pread64,preadv,preadv2,sendfile,splice,copy_file_range:error=EIO");
    strace.arg("-P").arg(file).arg(env!("CARGO_BIN_EXE_pleach"));
    finish(strace.args(snapshot_named(name, source, repo)))
}

on_filesystems! {
    [btrfs] fn the_tree_and_the_records_are_those_of_files_made_anew(fs: &Filesystem) {
        compare_both_ways(&fs.dir("source"), fs);
    }

    [btrfs] fn so_they_are_of_a_source_on_another_filesystem(fs: &Filesystem) {
        let other = fs.elsewhere();
        compare_both_ways(&other.dir("source"), fs);
    }

    [btrfs] fn a_changed_file_that_is_deleted_meanwhile_does_not_stay_with_its_last_version(fs: &Filesystem) {
        let (stats, problems, kept) = meanwhile(fs, 9_000, |file| fs::remove_file(file).unwrap());
        assert_eq!((stats.files, stats.errors), (1, 0), "{problems:?}");
        assert!(fs::symlink_metadata(kept).is_err());
    }

    [btrfs] fn one_that_becomes_a_pipe_meanwhile_does_not_stay_either(fs: &Filesystem) {
        let (stats, problems, kept) = meanwhile(fs, 9_000, |file| {
            fs::remove_file(file).unwrap();
            rustix::fs::mknodat(rustix::fs::CWD, file, FileType::Fifo, Mode::RUSR, 0).unwrap();
        });
        assert_eq!((stats.files, stats.errors), (1, 1), "{problems:?}");
        assert!(fs::symlink_metadata(kept).is_err());
    }

    [btrfs] fn one_that_gets_a_second_name_meanwhile_is_taken_as_it_is_now(fs: &Filesystem) {
        let (stats, problems, kept) = meanwhile(fs, 2 << 20, |file| {
            write(file, &bytes(4, 20_000));
            fs::hard_link(file, file.with_file_name("zzz")).unwrap();
        });
        assert_eq!((stats.files, stats.errors), (2, 0), "{problems:?}");
        assert_eq!(fs::read(kept).unwrap(), bytes(4, 20_000));
    }

    [btrfs] fn one_that_cannot_be_read_is_not_in_the_snapshot(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        // A large file on the same filesystem is cloned, and then only the clone is read.
        let cases: [(_, _, &[usize]); 2] =
            [("repo", fs.dir("source"), &[9_000]), ("other repo", elsewhere.dir("source"), &[9_000, 2 << 20])];
        for (repo, source, sizes) in cases {
            let (repo, file) = (fs.join(repo), source.join("file"));
            for &size in sizes {
                write(&file, &bytes(1, size));
                write(source.join("another"), &bytes(2, size));
                settle();
                let name = |number: u32| format!("{number}-of-{size}");
                take(&name(1), &source, &repo, Subvolumes::Auto);
                overwrite(&file, 0, &bytes(3, 5_000));
                settle();
                with_unreadable(&file, &name(2), &source, &repo).expect(3).saying("file");
                assert_eq!(names(&inside(&repo, &name(2), &source)), ["another"], "{size} bytes");
                take(&name(3), &source, &repo, Subvolumes::Auto);
                tools::assert_equal_trees(&source, &inside(&repo, &name(3), &source));
            }
        }
    }
}

#[test]
fn a_file_made_under_other_mount_options_is_made_anew() {
    let test = concat!(module_path!(), "::a_file_made_under_other_mount_options_is_made_anew");
    let Some(mut fs) = Own::new(Kind::Btrfs, test, 512, &[], "nodatasum") else { return };
    let Ok(elsewhere) = Filesystem::open(Kind::Xfs, test) else { return };
    let (here, there) = (fs.join("source"), elsewhere.dir("source"));
    fs::create_dir(&here).unwrap();
    for options in ["nodatasum", "nodatacow"] {
        fs.remount_with(options);
        let repo = |source: &Path| fs.join(format!("{options}-{}", if source == here { "here" } else { "there" }));
        for source in [&here, &there] {
            ["first", "second"].iter().for_each(|name| write(source.join(name), &bytes(1, 9_000)));
            settle();
            take("one", source, &repo(source), Subvolumes::Auto);
        }
        let repos = [&here, &there].map(|source| (source, repo(source)));
        fs.remount_with("datasum,datacow");
        for (source, repo) in repos {
            for name in ["first", "second"] {
                fs::remove_file(source.join(name)).unwrap();
                write(source.join(name), &bytes(2, 9_500));
            }
            settle();
            let stats = take("two", source, &repo, Subvolumes::Auto);
            if *source == here {
                assert_eq!((stats.cloned_bytes, stats.copied_bytes), (19_000, 0), "{options}");
            }
            let copies = inside(&repo, "two", source);
            tools::assert_equal_trees(source, &copies);
            let flags = tools::tool("lsattr", &["-l"], &copies).stdout;
            assert!(!flags.contains("No_COW"), "{options}: {flags}");
        }
    }
    fs.assert_clean();
}

#[test]
fn scattered_changes_take_hardly_more_metadata_than_writing_into_the_files() {
    let test = concat!(module_path!(), "::scattered_changes_take_hardly_more_metadata_than_writing_into_the_files");
    let Some(mut fs) = Own::new(Kind::Btrfs, test, 1024, &[], "") else { return };
    let (source, repo, bare) = (fs.join("source"), fs.join("repo"), fs.join("bare"));
    for dir in 0..20 {
        let dir = source.join(format!("dir-{dir}"));
        fs::create_dir_all(&dir).unwrap();
        tree::crowded(&dir, 1000);
    }
    snapshot(&source, &repo);
    let changed: Vec<_> = tools::files(&source).into_iter().step_by(100).collect();
    changed.iter().for_each(|file| write(file, &bytes(1, 5_000)));
    let latest = fs::canonicalize(repo.join("latest")).unwrap();
    let made = Command::new("btrfs").args(["-q", "subvolume", "snapshot"]).args([&latest, &bare]).status();
    assert!(made.is_ok_and(|status| status.success()));
    fs.remount();
    let at_first = metadata_used(&fs);
    for file in &changed {
        clone(file, &bare.join(file.strip_prefix("/").unwrap()));
    }
    fs.remount();
    let after_bare = metadata_used(&fs);
    assert_eq!(number(&snapshot(&source, &repo), "changed_files"), changed.len() as u64);
    fs.remount();
    let (ours, bare) = (metadata_used(&fs) - after_bare, after_bare - at_first);
    report(&format!("{ours} bytes of metadata, bare clones {bare}"));
    assert!(ours <= bare + bare / 5, "{ours} bytes, bare clones {bare}");
    fs.assert_clean();
}
