//! Changes that a file's times do not show, or not yet: coarse timestamps, stores through mappings, images with the
//! same inodes, unreadable attributes. The next snapshot must check again.

use crate::harness::mounted::Mounted;
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Takes a snapshot without waiting for the clock. On all filesystems, unchanged files are not read.
#[track_caller]
fn snapshot_at_once(fs: &Filesystem, name: &str, source: &Path, repo: &Path) -> Value {
    let unchanged = if fs.reflinks() { "--unchanged=clone" } else { "--unchanged=hardlink" };
    pleach(snapshot_named(name, source, repo).into_iter().chain([OsStr::new(unchanged)])).expect(0).summary()
}

#[track_caller]
fn assert_same_content(source: &Path, copy: &Path) {
    for path in tools::files(source) {
        let copy = copy.join(path.strip_prefix(source).unwrap());
        assert!(fs::read(&path).unwrap() == fs::read(&copy).unwrap(), "{} is what it was", copy.display());
    }
}

/// Waits until a second has just begun.
fn begin_of_a_second() {
    let part = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_millis();
    while part() > 100 {
        thread::sleep(Duration::from_millis(10));
    }
}

/// A program that has mapped a file and stores into it.
struct Mapping {
    program: Child,
    path: PathBuf,
}

impl Mapping {
    fn of(path: &Path) -> Mapping {
        let length = fs::metadata(path).unwrap().len();
        let mut xfs_io = Command::new("xfs_io");
        let program = xfs_io.arg(path).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("xfs_io runs");
        let mut mapping = Mapping { program, path: path.to_path_buf() };
        mapping.tell(&format!("mmap -rw 0 {length}"));
        mapping
    }

    fn tell(&mut self, command: &str) {
        let input = self.program.stdin.as_mut().expect("stdin is a pipe");
        writeln!(input, "{command}").and_then(|()| input.flush()).expect("xfs_io listens");
    }

    /// Stores a byte at an offset, and waits until it is visible.
    fn store(&mut self, at: u64, byte: u8) {
        self.tell(&format!("mwrite -S {byte} {at} 1"));
        let file = File::open(&self.path).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut found = [0];
        while file.read_exact_at(&mut found, at).is_err() || found != [byte] {
            assert!(Instant::now() < deadline, "xfs_io never stores");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// A source on a filesystem with timestamps in whole seconds is changed in the second in which a snapshot of it was
/// taken.
fn in_one_second(fs: &Filesystem, source: &Path) {
    let repo = &fs.join("repo");
    assert!(fs::metadata(source).unwrap().ctime_nsec() == 0, "stamps are in whole seconds");
    for round in 0..10_u64 {
        begin_of_a_second();
        let names = ["small", "large"].map(|name| source.join(name));
        write(&names[0], &bytes(round, 5000));
        write(&names[1], &bytes(round, 600_000));
        let stamp = |path: &PathBuf| fs::metadata(path).map(|meta| (meta.mtime(), meta.ctime())).unwrap();
        let before = names.each_ref().map(stamp);
        snapshot_at_once(fs, &format!("first-{round}"), source, repo);
        overwrite(&names[0], 0, b"changed");
        overwrite(&names[1], 300_000, b"changed");
        let is_unnoticed = names.each_ref().map(stamp) == before;
        let name = format!("second-{round}");
        snapshot_at_once(fs, &name, source, repo);
        assert_same_content(source, &inside(repo, &name, source));
        // On a busy machine the second may be over; then the round proves nothing.
        if is_unnoticed {
            break;
        }
    }
    // Two seconds later nothing is in doubt, and files read then need not be read again.
    thread::sleep(Duration::from_millis(2100));
    snapshot_at_once(fs, "settled", source, repo);
    let last = snapshot_at_once(fs, "unchanged", source, repo);
    assert_eq!((number(&last, "unchanged_files"), number(&last, "read_bytes")), (2, 0), "{last}");
}

/// Files of several sizes, synced and mapped.
fn mapped_files(dir: &Path) -> ([PathBuf; 3], [Mapping; 3]) {
    let sizes = [5000, 600_000, 20 << 20];
    let paths = sizes.map(|size| dir.join(format!("file-{size}")));
    for (path, size) in paths.iter().zip(sizes) {
        write(path, &bytes(size as u64, size));
        File::open(path).unwrap().sync_all().unwrap();
    }
    let mappings = paths.each_ref().map(|path| Mapping::of(path));
    (paths, mappings)
}

/// Copies a tree with one file, which changes as soon as its copy has its name, in the second of its last change.
/// `None`: it took longer than that second.
fn copied_in_its_second(source: &Path, copy: &Path) -> Option<Run> {
    let file = source.join("file");
    begin_of_a_second();
    write(&file, &[b'A'; 5000]);
    let changed = fs::metadata(&file).unwrap().mtime();
    // A delay that is long enough for the second to end before the copy gets its times.
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=syncfs", "-e", "inject=syncfs:delay_enter=3000000"]);
    strace.arg(env!("CARGO_BIN_EXE_pleach")).arg("copy").args([source, copy]).env_remove("PLEACH_REPO");
    let run = thread::spawn(move || finish(&mut strace));
    while !copy.join("file").exists() && !run.is_finished() {
        thread::sleep(Duration::from_millis(5));
    }
    write(&file, &[b'B'; 5000]);
    let run = run.join().unwrap();
    (fs::metadata(&file).unwrap().mtime() == changed).then_some(run)
}

/// With a clock beyond the times that a filesystem can store, each change has the nearest of these.
#[test]
fn a_change_at_the_first_time_that_a_filesystem_can_store_is_noticed() {
    let test = concat!(module_path!(), "::a_change_at_the_first_time_that_a_filesystem_can_store_is_noticed");
    let Some(mut other) = Own::new(Kind::Ext4, test, 128, &["-I", "128"], "") else { return };
    let Ok(fs) = Filesystem::open(Kind::Xfs, test) else { return };
    let (source, repo, copy) = (other.join("source"), fs.join("repo"), fs.join("copy"));
    fs::create_dir(&source).unwrap();
    for (round, byte) in [b'A', b'B', b'C'].into_iter().enumerate() {
        write(source.join("file"), &[byte; 5000]);
        other.edit_image(|image| {
            for field in ["mtime", "ctime"] {
                let set = format!("set_inode_field /source/file {field} 0x80000000");
                finish(Command::new("debugfs").args(["-w", "-R", &set]).arg(image)).expect(0);
            }
        });
        assert_eq!(fs::metadata(source.join("file")).unwrap().ctime(), i64::from(i32::MIN));
        settle();
        let name = format!("round-{round}");
        pleach(snapshot_named(&name, &source, &repo)).expect(0);
        assert_same_content(&source, &inside(&repo, &name, &source));
        pleach(["copy".as_ref(), "-T".as_ref(), source.as_os_str(), copy.as_os_str()]).expect(0);
        assert_same_content(&source, &copy);
    }
}

on_filesystems! {
    [xfs, ext4] fn a_change_in_the_second_of_a_copy_is_noticed(fs: &Filesystem) {
        let test = concat!(module_path!(), "::a_change_in_the_second_of_a_copy_is_noticed");
        let Some(other) = Own::new(Kind::Ext4, test, 128, &["-I", "128"], "") else { return };
        let source = other.join("source");
        fs::create_dir(&source).unwrap();
        let tries = (0..20).map(|number| fs.join(format!("copy-{number}")));
        let found = tries.into_iter().find_map(|copy| copied_in_its_second(&source, &copy).map(|run| (run, copy)));
        let (run, copy) = found.expect("a copy takes less than a second");
        assert!(run.status == 3 || run.status == 0, "{run:?}");
        pleach(["copy".as_ref(), "-T".as_ref(), source.as_os_str(), copy.as_os_str()]).expect(0);
        assert_same_content(&source, &copy);
    }

    fn a_change_in_the_second_of_the_last_snapshot_is_noticed(fs: &Filesystem) {
        let test = concat!(module_path!(), "::a_change_in_the_second_of_the_last_snapshot_is_noticed");
        let Some(source) = Own::new(Kind::Ext4, test, 128, &["-I", "128"], "") else { return };
        fs::create_dir(source.join("source")).unwrap();
        in_one_second(fs, &source.join("source"));
    }

    fn a_store_through_a_mapping_after_the_last_snapshot_is_noticed(fs: &Filesystem) {
        for other in [fs.elsewhere(), Filesystem::open(fs.kind, "here").unwrap()] {
            let source = other.dir("source");
            let repo = fs.join(format!("repo of {}", other.path().display()).replace('/', "-"));
            let (paths, mut mappings) = mapped_files(&source);
            for (round, byte) in [(0, b'a'), (1, b'b'), (2, b'c'), (3, b'd')] {
                mappings.iter_mut().for_each(|mapping| mapping.store(4100, byte));
                if round > 1 {
                    paths.iter().for_each(|path| tools::forget(path));
                    mappings.iter_mut().for_each(|mapping| mapping.store(4100, byte.to_ascii_uppercase()));
                }
                settle();
                let name = format!("round-{round}");
                snapshot_at_once(fs, &name, &source, &repo);
                assert_same_content(&source, &inside(&repo, &name, &source));
            }
            drop(mappings);
            settle();
            snapshot_at_once(fs, "settled", &source, &repo);
            let last = snapshot_at_once(fs, "unchanged", &source, &repo);
            assert_eq!((number(&last, "unchanged_files"), number(&last, "changed_files")), (3, 0), "{last}");
        }
    }

    fn a_store_through_a_mapping_after_the_last_copy_is_noticed(fs: &Filesystem) {
        for other in [fs.elsewhere(), Filesystem::open(fs.kind, "here").unwrap()] {
            let (source, target) = (other.dir("source"), fs.dir(other.path().display().to_string().replace('/', "-")));
            let (_, mut mappings) = mapped_files(&source);
            for byte in [b'a', b'b', b'c'] {
                mappings.iter_mut().for_each(|mapping| mapping.store(4100, byte));
                settle();
                pleach(["copy".as_ref(), source.as_os_str(), target.as_os_str()]).expect(0);
                assert_same_content(&source, &target.join("source"));
            }
        }
    }

    fn a_store_through_a_mapping_of_a_file_in_memory_is_noticed(fs: &Filesystem) {
        // tmpfs never updates timestamps for such stores, not even after msync(2).
        let (source, repo, target) = (fs.dir("source"), fs.join("repo"), fs.dir("target"));
        let _tmpfs = Mounted::tmpfs(&source);
        let (_, mut mappings) = mapped_files(&source);
        for byte in [b'a', b'b', b'c'] {
            mappings.iter_mut().for_each(|mapping| mapping.store(4100, byte));
            settle();
            let name = char::from(byte).to_string();
            snapshot_at_once(fs, &name, &source, &repo);
            assert_same_content(&source, &inside(&repo, &name, &source));
            pleach(["copy".as_ref(), source.as_os_str(), target.as_os_str()]).expect(0);
            assert_same_content(&source, &target.join("source"));
        }
    }

    fn another_image_at_the_same_place_is_read_again(fs: &Filesystem) {
        let test = concat!(module_path!(), "::another_image_at_the_same_place_is_read_again");
        for kind in [Kind::Ext4, Kind::Xfs] {
            let options = if kind == Kind::Xfs { "ro,nouuid" } else { "ro" };
            let Some(mut image) = Own::new(kind, test, 512, &[], "") else { return };
            let (source, repo) = (image.join("source"), fs.join(format!("repo-{kind:?}")));
            fs::create_dir(&source).unwrap();
            for number in 0..5 {
                write(source.join(format!("file-{number}")), &bytes(number, 100_000));
            }
            image.remount_with(options);
            settle();
            snapshot_at_once(fs, "first", &source, &repo);
            image.remount();
            let again = snapshot_at_once(fs, "again", &source, &repo);
            assert_eq!((number(&again, "unchanged_files"), number(&again, "read_bytes")), (5, 0), "{again}");
            // All inodes and times stay the same.
            image.edit_image(|image| {
                let other = image.with_extension("other");
                finish(Command::new("cp").arg("--sparse=always").arg(image).arg(&other)).expect(0);
                replace(&other, &bytes(3, 100_000), &bytes(33, 100_000));
                fs::rename(&other, image).unwrap();
            });
            let other = snapshot_at_once(fs, "other", &source, &repo);
            assert_eq!(number(&other, "unchanged_files"), 0, "{other}");
            assert!(fs::read(source.join("file-3")).unwrap() == bytes(33, 100_000));
            assert_same_content(&source, &inside(&repo, "latest", &source));
            image.edit_image(|image| replace(image, &bytes(1, 100_000), &bytes(11, 100_000)));
            snapshot_at_once(fs, "overwritten", &source, &repo);
            assert!(fs::read(source.join("file-1")).unwrap() == bytes(11, 100_000));
            assert_same_content(&source, &inside(&repo, "latest", &source));
        }
    }

    [ext4] fn an_image_at_another_place_in_the_same_file_is_read_again(fs: &Filesystem) {
        let test = concat!(module_path!(), "::an_image_at_another_place_in_the_same_file_is_read_again");
        let Some(mut image) = Own::new(Kind::Ext4, test, 64, &[], "") else { return };
        let (source, repo) = (image.join("source"), fs.join("repo"));
        fs::create_dir(&source).unwrap();
        write(source.join("file"), &bytes(1, 100_000));
        settle();
        image.remount_with("ro,sizelimit=67108864");
        image.edit_image(|image| {
            let half = fs::read(image).unwrap();
            let other = image.with_extension("other");
            fs::write(&other, &half).unwrap();
            replace(&other, &bytes(1, 100_000), &bytes(2, 100_000));
            let both = [half, fs::read(&other).unwrap()].concat();
            fs::write(image, both).unwrap();
            fs::remove_file(other).unwrap();
        });
        snapshot_at_once(fs, "first", &source, &repo);
        let again = snapshot_at_once(fs, "again", &source, &repo);
        assert_eq!(number(&again, "unchanged_files"), 1, "{again}");
        image.remount_with("ro,offset=67108864,sizelimit=67108864");
        assert!(fs::read(source.join("file")).unwrap() == bytes(2, 100_000));
        let other = snapshot_at_once(fs, "other", &source, &repo);
        assert_eq!(number(&other, "unchanged_files"), 0, "{other}");
        assert_same_content(&source, &inside(&repo, "latest", &source));
    }

    fn attributes_of_a_link_that_could_not_be_read_are_asked_for_again(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), b"content");
        let link = source.join("link");
        symlink("file", &link).unwrap();
        finish(Command::new("setfattr").args(["-h", "-n", "trusted.note", "-v", "kept"]).arg(&link)).expect(0);
        settle();
        let failing = |name| {
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=llistxattr,lgetxattr:error=EIO"]);
            strace
                .arg(env!("CARGO_BIN_EXE_pleach"))
                .args(snapshot_named(name, &source, &repo))
                .env_remove("PLEACH_REPO");
            finish(&mut strace)
        };
        failing("first").expect(3).saying("extended attributes");
        // Nothing has changed since, and the link in the snapshot is still incomplete.
        failing("second").expect(3).saying("extended attributes");
        let third = snapshot(&source, &repo);
        assert_eq!(number(&third, "errors"), 0, "{third}");
        assert_eq!(tools::xattrs(&inside(&repo, "latest", &source).join("link")), tools::xattrs(&link));
    }

    [xfs] fn attributes_that_the_last_snapshot_does_not_give_back_come_from_the_source(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let file = source.join("file");
        write(&file, b"content");
        finish(Command::new("setfattr").args(["-n", "user.note", "-v", "kept"]).arg(&file)).expect(0);
        settle();
        snapshot_at_once(fs, "first", &source, &repo);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=flistxattr,fgetxattr:error=EIO", "-P"]);
        strace.arg(inside(&repo, "first", &source).join("file"));
        strace.arg(env!("CARGO_BIN_EXE_pleach")).args(snapshot_named("second", &source, &repo));
        strace.env_remove("PLEACH_REPO");
        let summary = finish(&mut strace).expect(0).summary();
        assert_eq!(number(&summary, "unchanged_files"), 1, "{summary}");
        assert_eq!(tools::xattrs(&inside(&repo, "second", &source).join("file")), tools::xattrs(&file));
    }
}

/// Replaces these bytes in an image, in place, with other bytes of the same length.
#[track_caller]
fn replace(image: &Path, old: &[u8], new: &[u8]) {
    let content = fs::read(image).unwrap();
    let found =
        content.chunks_exact(512).position(|sector| sector == &old[..512]).expect("the content is in the image");
    assert!(content[found * 512..].starts_with(old), "the content lies in one piece");
    File::options().write(true).open(image).unwrap().write_all_at(new, found as u64 * 512).unwrap();
}
