//! Trees to snapshot: a plain one, and one with every kind of entry that a filesystem can hold.

use super::{bytes, finish, write};
use rustix::fs::{self as rfs, AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small tree of plain files in a few directories; each file is large enough to be shared on every filesystem.
pub(crate) fn plain(dir: &Path) {
    for (number, name) in ["a", "b", "c/one", "c/two", "c/d/three"].iter().enumerate() {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("directories can be made");
        write(path, &bytes(number as u64, 10_000 + number * 50_000));
    }
}

/// A tree with every kind of entry, hostile names and all metadata that `rsync -aHAX` compares. As root only.
pub(crate) fn every_kind(dir: &Path) {
    contents(dir);
    links(dir);
    nodes(dir);
    names(dir);
    owners_and_modes(dir);
    attributes(dir);
    times(dir);
}

fn contents(dir: &Path) {
    write(dir.join("empty"), b"");
    write(dir.join("tiny"), b"tiny\n");
    write(dir.join("unaligned"), &bytes(1, 70_001));
    write(dir.join("large"), &bytes(2, 3 << 20));
    let sparse = File::create(dir.join("sparse")).expect("a file can be made");
    sparse.write_all_at(&bytes(3, 8192), 1 << 20).expect("a sparse file can be written");
    sparse.write_all_at(&bytes(4, 5000), 9 << 20).expect("a sparse file can be written");
    sparse.set_len(64 << 20).expect("a sparse file can end in a hole");
    File::create(dir.join("hole")).and_then(|file| file.set_len(5 << 20)).expect("a file can be all hole");
    let reserved = File::create(dir.join("reserved")).expect("a file can be made");
    rfs::fallocate(&reserved, rfs::FallocateFlags::empty(), 0, 1 << 20).expect("space can be reserved");
    fs::create_dir(dir.join("empty dir")).expect("a directory can be made");
}

fn links(dir: &Path) {
    fs::create_dir(dir.join("links")).expect("a directory can be made");
    fs::hard_link(dir.join("large"), dir.join("links/hard")).expect("a hard link can be made");
    fs::hard_link(dir.join("tiny"), dir.join("tiny too")).expect("a hard link can be made");
    for (target, name) in [("../large", "good"), ("nowhere", "dangling"), ("/etc/passwd", "outside"), (".", "loop")] {
        symlink(target, dir.join("links").join(name)).expect("a symlink can be made");
    }
    fs::hard_link(dir.join("links/dangling"), dir.join("links/dangling too")).expect("symlinks can be hard-linked");
}

fn nodes(dir: &Path) {
    let nodes = dir.join("nodes");
    fs::create_dir(&nodes).expect("a directory can be made");
    let mode = Mode::from_raw_mode(0o640);
    let make = |name: &str, kind, device| {
        rfs::mknodat(CWD, nodes.join(name), kind, mode, device).expect("a node can be made");
    };
    make("fifo", FileType::Fifo, 0);
    make("null", FileType::CharacterDevice, rfs::makedev(1, 3));
    make("disk", FileType::BlockDevice, rfs::makedev(240, 70_000));
    socket(&nodes.join("socket"));
}

/// A unix socket, bound through a short path, because a socket address has room for only 107 bytes.
fn socket(path: &Path) {
    let parent = File::open(path.parent().expect("a socket is in a directory")).expect("a directory can be opened");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&parent);
    let short = PathBuf::from(format!("/proc/self/fd/{fd}")).join(path.file_name().expect("a socket has a name"));
    UnixListener::bind(short).expect("a socket can be bound");
}

fn names(dir: &Path) {
    let dir = dir.join("names");
    fs::create_dir(&dir).expect("a directory can be made");
    let names: [&[u8]; 9] = [
        b"line\nbreak",
        b"escape \x1b[31mred",
        b"not utf-8 \xff\xfe",
        b"-rf",
        b" spaces ",
        b"quote'\"\\",
        "umlaut ä and 樹".as_bytes(),
        &[b'x'; 255],
        &[0x80; 255],
    ];
    for (number, name) in names.iter().enumerate() {
        write(dir.join(OsString::from_vec(name.to_vec())), &bytes(number as u64 + 20, 5000));
    }
    let inner = dir.join(OsString::from_vec(b"dir \x1b]0;title\x07 \xff".to_vec()));
    fs::create_dir(&inner).expect("a directory can be made");
    write(inner.join("file"), &bytes(40, 4096));
}

fn owners_and_modes(dir: &Path) {
    let inner = dir.join("modes");
    fs::create_dir(&inner).expect("a directory can be made");
    for (number, mode) in [0o4755, 0o2755, 0o6711, 0o1644, 0o000, 0o777].into_iter().enumerate() {
        let file = inner.join(format!("{mode:04o}"));
        write(&file, &bytes(number as u64 + 50, 6000));
        lchown(&file, Some(1000 + number as u32), Some(3_000_000_000)).expect("an owner can be set");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode can be set");
    }
    symlink("0777", inner.join("link")).expect("a symlink can be made");
    lchown(inner.join("link"), Some(1234), Some(4321)).expect("a symlink's owner can be set");
    for (name, mode) in [("sticky", 0o1777), ("setgid", 0o2755), ("read-only", 0o555), ("closed", 0o000)] {
        let inner = inner.join(name);
        fs::create_dir(&inner).expect("a directory can be made");
        write(inner.join("file"), &bytes(60, 5000));
        lchown(&inner, Some(65_534), Some(65_533)).expect("an owner can be set");
        fs::set_permissions(&inner, fs::Permissions::from_mode(mode)).expect("a mode can be set");
    }
}

fn attributes(dir: &Path) {
    let inner = dir.join("attributes");
    fs::create_dir(&inner).expect("a directory can be made");
    let run = |program: &str, args: &[&str], name: &str| {
        finish(Command::new(program).args(args).arg(inner.join(name))).expect(0);
    };
    for name in ["user", "trusted", "capability", "acl"] {
        write(inner.join(name), &bytes(70, 5000));
    }
    fs::create_dir(inner.join("dir")).expect("a directory can be made");
    symlink("user", inner.join("link")).expect("a symlink can be made");
    run("setfattr", &["-n", "user.note", "-v", "two\nlines"], "user");
    run("setfattr", &["-n", "user.empty"], "user");
    run("setfattr", &["-n", "user.long", "-v", &"x".repeat(1000)], "user");
    run("setfattr", &["-n", "user.note", "-v", "of a directory"], "dir");
    run("setfattr", &["-n", "trusted.note", "-v", "for root"], "trusted");
    run("setfattr", &["-h", "-n", "trusted.note", "-v", "of a link"], "link");
    // The owner before the capability, because changing the owner drops it.
    lchown(inner.join("capability"), Some(1000), Some(1000)).expect("an owner can be set");
    run("setcap", &["cap_net_raw=ep"], "capability");
    run("setfacl", &["-m", "u:1001:r--,g:1002:rw-"], "acl");
    run("setfacl", &["-m", "u:1001:rwx", "-m", "d:u:1003:r-x"], "dir");
}

fn times(dir: &Path) {
    let inner = dir.join("times");
    fs::create_dir(&inner).expect("a directory can be made");
    fs::create_dir(inner.join("old dir")).expect("a directory can be made");
    symlink("anywhere", inner.join("old link")).expect("a symlink can be made");
    write(inner.join("old dir/file"), b"its making touches the directory");
    for (name, seconds, nanos) in [
        ("billionth", 1_000_000_000, 1),
        ("almost", 1_700_000_000, 999_999_999),
        ("before 1970", -86_400, 250_000_000),
        ("first second", -1, 999_999_999),
        ("after 2038", 4_000_000_000, 500),
        ("old dir", 1_111_111_111, 111_111_111),
        ("old link", 1_222_222_222, 222_222_222),
    ] {
        if !name.starts_with("old") {
            write(inner.join(name), &bytes(80, 4096));
        }
        set_mtime(&inner.join(name), seconds, nanos);
    }
    set_mtime(&inner, 1_333_333_333, 333_333_333);
}

/// Sets the modification time, also that of a symlink itself.
pub(crate) fn set_mtime(path: &Path, seconds: i64, nanos: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps { last_access: time, last_modification: time };
    rfs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("times can be set");
}

/// Makes the access times of these paths older than their other times. Symlinks are skipped.
pub(crate) fn set_old_atimes(paths: &[PathBuf]) {
    let time = |nanos| Timespec { tv_sec: -100_000_000, tv_nsec: nanos };
    for path in paths.iter().filter(|path| !path.is_symlink()) {
        let times = Timestamps { last_access: time(0), last_modification: time(rfs::UTIME_OMIT) };
        rfs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("times can be set");
    }
}

/// A chain of directories, with a path longer than the kernel accepts in one call, and a file at its end.
pub(crate) fn deeper_than_path_max(dir: &Path) {
    write_in(&descend(dir, true), "at the bottom", &bytes(90, 6000));
}

/// The content of the file that [`deeper_than_path_max`] made, read by descriptor.
pub(crate) fn content_at_the_bottom(dir: &Path) -> Vec<u8> {
    let bottom = descend(dir, false);
    let file = rfs::openat(&bottom, "at the bottom", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut File::from(file.expect("the file is there")), &mut content)
        .expect("it can be read");
    content
}

fn descend(dir: &Path, make: bool) -> OwnedFd {
    let name = "deep".repeat(50);
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut present = rfs::openat(CWD, dir, flags, Mode::empty()).expect("a directory can be opened");
    // 25 × 201 bytes; PATH_MAX is 4096.
    for _ in 0..25 {
        if make {
            rfs::mkdirat(&present, &name, Mode::from_raw_mode(0o755)).expect("a directory can be made");
        }
        present = rfs::openat(&present, OsStr::new(&name), flags, Mode::empty()).expect("a directory can be opened");
    }
    present
}

fn write_in(dir: &OwnedFd, name: &str, content: &[u8]) {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rfs::openat(dir, name, flags, Mode::from_raw_mode(0o644)).expect("a file can be made");
    std::io::Write::write_all(&mut File::from(file), content).expect("a file can be written");
}

/// Many small files in one directory.
pub(crate) fn crowded(dir: &Path, count: usize) {
    for number in 0..count {
        write(dir.join(format!("file-{number:06}")), &bytes(number as u64, 64 + number % 5000));
    }
}
