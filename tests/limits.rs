//! Entries that exceed a limit of the repository's filesystem, the kernel's calls, or time. Each is a problem of one
//! entry, and all other entries are kept.

use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;

/// Nearly the largest size of a file with 63-bit sizes.
const VAST: u64 = 7 << 60;

/// Runs pleach with little memory and a time limit.
fn bounded<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Run {
    let mut command = Command::new("timeout");
    command.args(["300", "prlimit", "--as=8589934592", env!("CARGO_BIN_EXE_pleach")]);
    finish(command.args(args).env_remove("PLEACH_REPO"))
}

fn taken(source: &Path, repo: &Path) -> Run {
    settle();
    bounded([OsStr::new("snapshot"), source.as_ref(), repo.as_ref(), "--json".as_ref()])
}

/// A file with only holes, one with data at two places between holes, and a small one.
fn vast_files(dir: &Path) {
    for (name, data) in [("empty", &[][..]), ("second", &[]), ("data", &[5 << 60, 6 << 60])] {
        let file = File::create(dir.join(name)).unwrap();
        file.set_len(VAST).unwrap();
        data.iter().for_each(|at| file.write_all_at(&bytes(*at, 9000), *at).unwrap());
    }
    write(dir.join("small"), b"small");
}

#[track_caller]
fn assert_same_vast_files(a: &Path, b: &Path) {
    for name in ["empty", "second", "data"] {
        let [one, other] = [a, b].map(|dir| File::open(dir.join(name)).unwrap());
        assert_eq!([&one, &other].map(|file| file.metadata().unwrap().len()), [VAST; 2], "{name}");
        for at in [0, 5_u64 << 60, 6 << 60, VAST - 100_000] {
            let [left, right] = [&one, &other].map(|file| {
                let mut bytes = vec![0; 20_000];
                file.read_exact_at(&mut bytes, at).unwrap();
                bytes
            });
            assert!(left == right, "{name} at {at}");
        }
        let [left, right] = [a, b].map(|dir| tools::extents(&dir.join(name)).len());
        assert!(left <= 4 && right <= 4, "{name} has {left} and {right} extents");
    }
}

/// Gives a file more attributes than the kernel lists.
fn crowd_with_attributes(path: &Path) {
    for number in 0..400 {
        let name = format!("user.{number:0>245}");
        rustix::fs::setxattr(path, name, b"v", rustix::fs::XattrFlags::empty()).unwrap();
    }
}

/// A chain of directories with a file and another directory at each level.
fn deep_chain(dir: &Path, levels: usize) {
    use rustix::fs::{Mode, OFlags, mkdirat, openat};
    fs::create_dir(dir).unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let open = |above: &std::os::fd::OwnedFd, name: &str| openat(above, name, flags, Mode::empty()).unwrap();
    let file = |above: &std::os::fd::OwnedFd| {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        rustix::io::write(openat(above, "file", flags, Mode::RUSR).unwrap(), b"content").unwrap();
    };
    let mut here: std::os::fd::OwnedFd = File::open(dir).unwrap().into();
    for _ in 0..levels {
        ["next", "side"].iter().for_each(|name| mkdirat(&here, *name, Mode::RWXU).unwrap());
        file(&here);
        file(&open(&here, "side"));
        here = open(&here, "next");
    }
}

/// Runs pleach with a low limit on open files.
fn with_few_descriptors<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Run {
    let mut command = Command::new("timeout");
    command.args(["600", "prlimit", "--nofile=200:200", "--as=4294967296", env!("CARGO_BIN_EXE_pleach")]);
    finish(command.args(args).env_remove("PLEACH_REPO"))
}

on_filesystems! {
    fn a_chain_of_directories_deeper_than_there_are_descriptors_is_kept_whole(fs: &Filesystem) {
        let (source, repo, target, copied) = (fs.join("source"), fs.join("repo"), fs.dir("target"), fs.join("copied"));
        let levels = 1000;
        deep_chain(&source, levels);
        let count = |dir: &Path| {
            let find = finish(Command::new("find").arg(dir).args(["-type", "f", "-name", "file", "-size", "7c"]));
            find.expect(0).stdout.lines().count()
        };
        for _ in 0..2 {
            settle();
            let args = [OsStr::new("snapshot"), "--json".as_ref(), source.as_ref(), repo.as_ref()];
            let summary = with_few_descriptors(args).expect(0).summary();
            let counts = ["files", "dirs", "errors"].map(|field| number(&summary, field));
            assert_eq!(counts, [2 * levels as u64, 2 * levels as u64 + 1, 0], "{summary}");
            assert_eq!(count(&inside(&repo, "latest", &source)), 2 * levels);
        }
        let restore = ["restore", "--target"].map(OsStr::new).into_iter();
        with_few_descriptors(restore.chain([target.as_ref(), repo.as_ref(), "latest".as_ref()])).expect(0);
        assert_eq!(count(&target), 2 * levels);
        let copy = ["copy", "--verify", "-T"].map(OsStr::new).into_iter();
        with_few_descriptors(copy.chain([source.as_ref(), copied.as_ref()])).expect(0);
        assert_eq!(count(&copied), 2 * levels);
        with_few_descriptors([OsStr::new("du"), source.as_ref()]).expect(0);
        if fs.reflinks() {
            with_few_descriptors([OsStr::new("dedupe"), "--no-cache".as_ref(), source.as_ref()]).expect(0);
        }
    }

    fn link_targets_and_devices_that_the_repository_cannot_hold_are_one_entrys_problem(fs: &Filesystem) {
        let elsewhere = Filesystem::open(Kind::Ext4, "limits::links").unwrap();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        let target = "x".repeat(1500);
        symlink(&target, source.join("long")).unwrap();
        fs::hard_link(source.join("long"), source.join("long too")).unwrap();
        finish(Command::new("mknod").arg(source.join("device")).args(["c", "4000", "900000"])).expect(0);
        fs::create_dir(source.join("dir")).unwrap();
        write(source.join("dir/file"), b"kept");
        for _ in 0..2 {
            let run = taken(&source, &repo);
            let summary = run.expect(if fs.kind == Kind::Xfs { 3 } else { 0 }).summary();
            let errors = if fs.kind == Kind::Xfs { 3 } else { 0 };
            assert_eq!((number(&summary, "errors"), number(&summary, "symlinks")), (errors, 2), "{summary}");
        }
        assert_eq!(fs::read(inside(&repo, "latest", &source).join("dir/file")).unwrap(), b"kept");
        // The manifest has the parts that the tree lacks.
        let back = elsewhere.dir("back");
        pleach([OsStr::new("restore"), "--target".as_ref(), back.as_ref(), repo.as_ref(), "latest".as_ref()]).expect(0);
        let back = back.join(source.strip_prefix("/").unwrap());
        tools::assert_equal_trees(&source, &back);
        // A restore and a copy to a filesystem that does not support it report it, and transfer the rest.
        let expected = if fs.kind == Kind::Xfs { 3 } else { 0 };
        let (there, copied) = (fs.dir("there"), fs.join("copied"));
        pleach([OsStr::new("restore"), "--target".as_ref(), there.as_ref(), repo.as_ref(), "latest".as_ref()])
            .expect(expected);
        pleach([OsStr::new("copy"), "-T".as_ref(), source.as_ref(), copied.as_ref()]).expect(expected);
        assert_eq!(fs::read(copied.join("dir/file")).unwrap(), b"kept");
        assert_eq!(fs::read(there.join(source.strip_prefix("/").unwrap()).join("dir/file")).unwrap(), b"kept");
    }

    [xfs, btrfs] fn files_of_any_size_cost_what_their_data_costs(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, target) = (fs.dir("source"), fs.dir("target"));
        vast_files(&source);
        for (place, name) in [(fs, "here"), (&other, "there")] {
            let repo = place.join(name);
            for _ in 0..2 {
                let summary = taken(&source, &repo).expect(0).summary();
                assert!(number(&summary, "read_bytes") < 1 << 20, "{summary}");
                assert!(number(&summary, "copied_bytes") < 1 << 20, "{summary}");
                assert_same_vast_files(&source, &inside(&repo, "latest", &source));
            }
        }
        // A change is found and copied block by block.
        overwrite(&source.join("data"), 6 << 60, b"changed");
        for (place, name) in [(fs, "here"), (&other, "there")] {
            let repo = place.join(name);
            let summary = taken(&source, &repo).expect(0).summary();
            assert_eq!(number(&summary, "changed_files"), 1, "{summary}");
            assert!(number(&summary, "copied_bytes") < 100_000, "{summary}");
            assert_same_vast_files(&source, &inside(&repo, "latest", &source));
        }
        for name in [fs.join("here"), other.join("there")] {
            for _ in 0..2 {
                let restore = [OsStr::new("restore"), "--target".as_ref(), target.as_ref(), name.as_ref()];
                bounded(restore.into_iter().chain(["latest".as_ref()])).expect(0);
            }
            assert_same_vast_files(&source, &target.join(source.strip_prefix("/").unwrap()));
            fs::remove_dir_all(&target).unwrap();
            fs::create_dir(&target).unwrap();
        }
    }

    [xfs, btrfs] fn copies_of_files_of_any_size_are_made_and_verified_by_their_data(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = fs.dir("source");
        vast_files(&source);
        for (number, engine) in engine_names().enumerate() {
            for place in [fs, &other] {
                let copied = place.join(format!("copied {number}"));
                let copy = ["copy", "--verify", "--engine", engine, "-T"].map(OsStr::new);
                let copy = copy.into_iter().chain([source.as_ref(), copied.as_ref()]).collect::<Vec<_>>();
                bounded(&copy).expect(0);
                assert_same_vast_files(&source, &copied);
                if number == 0 {
                    overwrite(&copied.join("data"), 5 << 60, b"damaged");
                    tree::set_mtime(&copied.join("data"), 1, 0);
                    bounded(&copy).expect(0);
                    assert_same_vast_files(&source, &copied);
                }
            }
        }
        for args in [&["dedupe", "--no-cache"][..], &["dedupe", "--no-cache", "--ranges", "always"], &["du"]] {
            bounded(args.iter().map(OsStr::new).chain([source.as_ref()])).expect(0);
        }
        bounded([OsStr::new("fiemap"), source.join("data").as_ref()]).expect(0);
        for _ in 0..2 {
            let put = format!("timeout 300 {} put {1}/out < {1}/data", env!("CARGO_BIN_EXE_pleach"), source.display());
            finish(Command::new("sh").args(["-c", &put])).expect(0);
        }
        assert_eq!(fs::metadata(source.join("out")).unwrap().len(), VAST);
    }

    [ext4] fn files_larger_than_the_repository_allows_are_one_entrys_problem(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        vast_files(&source);
        let summary = taken(&source, &fs.join("repo")).expect(3).summary();
        assert_eq!((number(&summary, "errors"), number(&summary, "files")), (3, 1), "{summary}");
        let copied = fs.join("copied");
        bounded([OsStr::new("copy"), "-T".as_ref(), source.as_ref(), copied.as_ref()]).expect(3);
        assert_eq!(names(&copied), ["small"]);
    }

    [xfs, btrfs] fn a_vast_file_of_many_extents_costs_what_its_extents_cost(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = fs.dir("source");
        let file = File::create(source.join("scattered")).unwrap();
        file.set_len(VAST).unwrap();
        for number in 0..5000_u64 {
            file.write_all_at(&number.to_le_bytes(), number << 50).unwrap();
        }
        for (place, name) in [(fs, "here"), (&other, "there")] {
            for round in 0..2 {
                let summary = taken(&source, &place.join(name)).expect(0).summary();
                assert!(number(&summary, "read_bytes") < 50 << 20, "{summary}");
                overwrite(&source.join("scattered"), 77 << 50, &[round as u8]);
            }
        }
        let copied = other.join("copied");
        bounded([OsStr::new("copy"), "--verify".as_ref(), "-T".as_ref(), source.as_ref(), copied.as_ref()]).expect(0);
        let mut read = [0; 8];
        File::open(copied.join("scattered")).unwrap().read_exact_at(&mut read, 4999 << 50).unwrap();
        assert_eq!(u64::from_le_bytes(read), 4999);
    }

    [btrfs] fn a_file_with_more_attributes_than_the_kernel_lists_keeps_its_data(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = fs.dir("source");
        fs::create_dir(source.join("dir")).unwrap();
        for name in ["file", "large", "dir/inside"] {
            write(source.join(name), &bytes(1, if name == "large" { 9 << 20 } else { 5000 }));
        }
        ["file", "large", "dir"].iter().for_each(|name| crowd_with_attributes(&source.join(name)));
        for (place, name) in [(fs, "here"), (&other, "there")] {
            let repo = place.join(name);
            // Nothing about it counts as complete, so each run reports it.
            for _ in 0..3 {
                let run = taken(&source, &repo).expect(3).saying("extended attributes");
                assert_eq!(number(&run.summary(), "errors"), 3, "{run:?}");
                for file in ["file", "large", "dir/inside"] {
                    let kept = fs::read(inside(&repo, "latest", &source).join(file)).unwrap();
                    assert!(kept == fs::read(source.join(file)).unwrap(), "{file}");
                }
            }
            let copied = place.join("copied");
            for _ in 0..2 {
                let copy = pleach([OsStr::new("copy"), "-T".as_ref(), source.as_ref(), copied.as_ref()]);
                copy.expect(3).saying("extended attributes");
                assert!(fs::read(copied.join("large")).unwrap() == fs::read(source.join("large")).unwrap());
            }
        }
        let put = format!("echo new | {} put {}/file", env!("CARGO_BIN_EXE_pleach"), source.display());
        finish(Command::new("sh").args(["-c", &put])).expect(3).saying("extended attributes");
        assert_eq!(fs::read(source.join("file")).unwrap(), b"new\n");
    }
}

/// Preallocated space is optional: if the destination lacks the space, all data is copied nevertheless.
#[test]
fn space_that_is_reserved_and_cannot_be_had_stays_a_hole() {
    let test = concat!(module_path!(), "::space_that_is_reserved_and_cannot_be_had_stays_a_hole");
    let (Ok(fs), Some(small)) = (Filesystem::open(Kind::Ext4, test), Own::new(Kind::Ext4, test, 96, &[], "")) else {
        return;
    };
    let source = fs.dir("source");
    finish(Command::new("fallocate").args(["-l", "200M"]).arg(source.join("a-reserved"))).expect(0);
    let half = File::create(source.join("b-half")).unwrap();
    half.write_all_at(&bytes(1, 100_000), 0).unwrap();
    finish(Command::new("fallocate").args(["-o", "1M", "-l", "200M"]).arg(source.join("b-half"))).expect(0);
    write(source.join("z"), &bytes(2, 1 << 20));
    let (repo, copy) = (small.join("repo"), small.join("copy"));
    bounded([OsStr::new("copy"), source.as_ref(), copy.as_ref()]).expect(0);
    tools::assert_equal_trees(&source, &copy);
    fs::remove_dir_all(&copy).unwrap();
    // Cached pages of zeros count as data.
    ["a-reserved", "b-half"].into_iter().for_each(|name| tools::forget(&source.join(name)));
    taken(&source, &repo).expect(0);
    tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    small.assert_clean();
}
