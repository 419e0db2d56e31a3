//! Outside witnesses: the reports of rsync, xfs_io, getfattr and the kernel on a tree, independent of pleach's own
//! code.

use super::{Run, finish, write};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// An allocated range of a file, in units of 512 bytes, as xfs_io reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) logical: u64,
    pub(crate) physical: u64,
    pub(crate) length: u64,
    /// The flags of `include/uapi/linux/fiemap.h`.
    pub(crate) flags: u32,
}

impl Extent {
    /// `FIEMAP_EXTENT_DATA_INLINE`: the data is next to the metadata and has no address.
    pub(crate) fn is_inline(&self) -> bool {
        self.flags & 0x200 != 0
    }

    /// `FIEMAP_EXTENT_UNWRITTEN`: preallocated, and read as zeros.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.flags & 0x800 != 0
    }

    /// `FIEMAP_EXTENT_SHARED`.
    pub(crate) fn is_shared(&self) -> bool {
        self.flags & 0x2000 != 0
    }
}

/// Runs a system program with arguments successfully to its end.
#[track_caller]
pub(crate) fn tool(name: &str, args: &[&str], path: &Path) -> Run {
    finish(Command::new(name).args(args).arg(path)).expect(0)
}

/// The extents of a file, without holes.
#[track_caller]
pub(crate) fn extents(path: &Path) -> Vec<Extent> {
    let run = tool("xfs_io", &["-r", "-c", "fiemap -v"], path);
    // `0: [0..7]:  96..103   8  0x1`; a hole has the word "hole" for its blocks.
    let table = run.stdout.lines().filter(|line| line.contains(": [") && !line.contains("hole"));
    table.map(|line| parse_extent(line).unwrap_or_else(|| panic!("cannot read xfs_io's line {line:?}"))).collect()
}

/// Syncs a file, and makes the kernel drop its cached pages.
pub(crate) fn forget(path: &Path) {
    let file = fs::File::open(path).expect("a file can be opened");
    file.sync_all().expect("a file can be synced");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice can be given");
}

/// The number of bytes that pleach read from disks, by itself and by the kernel on its behalf.
#[track_caller]
pub(crate) fn bytes_from_disk(args: &[&OsStr]) -> u64 {
    let mut shell = Command::new("sh");
    // The reads of a process count for the parent that waited for its end.
    shell.args(["-c", r#""$@" >&2 && cat /proc/$$/io"#, "sh", env!("CARGO_BIN_EXE_pleach")]);
    let run = finish(shell.args(args).env_remove("PLEACH_REPO")).expect(0);
    let read = run.stdout.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    read.and_then(|bytes| bytes.parse().ok()).unwrap_or_else(|| panic!("no read_bytes in {:?}", run.stdout))
}

/// The number of bytes of a file that are in memory, in whole pages.
#[track_caller]
pub(crate) fn bytes_in_memory(path: &Path) -> u64 {
    let map = format!("mmap -r 0 {}", path.metadata().unwrap().len());
    let run = tool("xfs_io", &["-r", "-c", &map, "-c", "mincore"], path);
    // A line such as `0x7f2d97600000 - 0x7f2d97e00000  2048 pages (0 : 8388608)` for each cached range, else nothing.
    let pages = run.stdout.lines().map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
    pages.map(|pages| pages.unwrap_or_else(|| panic!("cannot read mincore's {:?}", run.stdout))).sum::<u64>() * 4096
}

/// Writes a file that consists of one extent, for tests that count extents or depend on their bounds. With [`write`], a
/// sync by another test in the middle of the write begins a second extent. Then this writes the file again.
#[track_caller]
pub(crate) fn write_in_one_extent(path: &Path, content: &[u8]) {
    for _ in 0..50 {
        write(path, content);
        fs::File::open(path).and_then(|file| file.sync_all()).expect("a file can be synced");
        if extents(path).len() == 1 {
            return;
        }
        fs::remove_file(path).expect("a file can be removed");
    }
    panic!("{} never lies in one extent", path.display());
}

fn parse_extent(line: &str) -> Option<Extent> {
    let (_, rest) = line.split_once(": [")?;
    let (logical, rest) = rest.split_once("]:")?;
    let mut words = rest.split_whitespace();
    let first = |range: &str| range.split("..").next()?.parse().ok();
    Some(Extent {
        logical: first(logical)?,
        physical: first(words.next()?)?,
        length: words.next()?.parse().ok()?,
        flags: u32::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?,
    })
}

/// Asserts that two files occupy the same blocks; returns false for inline files. Preallocated ranges count as holes:
/// no clone shares them, because they contain nothing.
#[track_caller]
pub(crate) fn assert_same_blocks(a: &Path, b: &Path) -> bool {
    let written = |path| extents(path).into_iter().filter(|extent| !extent.is_unwritten()).collect::<Vec<_>>();
    let (of_a, of_b) = (written(a), written(b));
    if of_a.iter().any(Extent::is_inline) {
        return false;
    }
    let blocks = |extents: &[Extent]| blocks(extents);
    assert_eq!(blocks(&of_a), blocks(&of_b), "blocks of {} and {}", a.display(), b.display());
    assert!(of_b.iter().all(Extent::is_shared), "{} is shared: {of_b:?}", b.display());
    true
}

/// Logical and physical positions, with adjacent extents joined, because each file may be reported in other pieces.
fn blocks(extents: &[Extent]) -> Vec<(u64, u64, u64)> {
    let mut joined: Vec<(u64, u64, u64)> = Vec::new();
    for extent in extents {
        match joined.last_mut() {
            Some((logical, physical, length))
                if *logical + *length == extent.logical && *physical + *length == extent.physical =>
            {
                *length += extent.length;
            }
            _ => joined.push((extent.logical, extent.physical, extent.length)),
        }
    }
    joined
}

/// The changes that rsync would make in `copy`: empty if it equals `original` in content and metadata.
#[track_caller]
pub(crate) fn differences(original: &Path, copy: &Path) -> String {
    let with_slash = |path: &Path| {
        let mut path = path.as_os_str().to_owned();
        path.push("/");
        path
    };
    let mut rsync = Command::new("rsync");
    rsync.args(["-naHAXi", "--delete", "--checksum", "--numeric-ids"]);
    // XFS also shows its ACLs as separate attributes, which mean nothing elsewhere. The first rule is rsync's default,
    // which any other rule replaces.
    rsync.args(["--filter=-x system.*", "--filter=-x trusted.SGI_ACL_*"]);
    // rsync compares whole seconds by default.
    rsync.arg("--modify-window=-1");
    finish(rsync.arg(with_slash(original)).arg(with_slash(copy))).expect(0).stdout
}

/// Asserts that `copy` equals `original` in everything that rsync can see: content, types, links, owners, modes, times
/// to the nanosecond, extended attributes, ACLs.
#[track_caller]
pub(crate) fn assert_equal_trees(original: &Path, copy: &Path) {
    let differences = differences(original, copy);
    assert!(differences.is_empty(), "{} differs from {}:\n{differences}", copy.display(), original.display());
}

/// Every extended attribute of one entry, as getfattr dumps them.
#[track_caller]
pub(crate) fn xattrs(path: &Path) -> String {
    let run = tool("getfattr", &["-h", "-d", "-m", "-", "-e", "hex", "--absolute-names"], path);
    // The first line is the path.
    run.stdout.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

/// The ACL of one entry, as getfacl shows it.
#[track_caller]
pub(crate) fn acl(path: &Path) -> String {
    tool("getfacl", &["--omit-header", "--numeric", "--absolute-names"], path).stdout
}

/// All paths below `dir` with their `lstat` data, except access times.
pub(crate) fn inventory(dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    walk(dir, &mut |path, meta| lines.push(state(path, meta)));
    lines
}

/// All paths below `dir`, and `dir` itself.
pub(crate) fn paths(dir: &Path) -> Vec<PathBuf> {
    let mut paths = vec![dir.to_path_buf()];
    walk(dir, &mut |path, _| paths.push(path.to_path_buf()));
    paths
}

/// The `lstat` data of each path, for files including access times. Reading a symlink changes its access time, which no
/// flag can prevent, and listing a directory commonly changes the directory's.
pub(crate) fn states(paths: &[PathBuf]) -> Vec<String> {
    let state = |path: &PathBuf| {
        let meta = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let read = if meta.is_file() { meta.atime() } else { 0 };
        format!("{} atime {read}", state(path, &meta))
    };
    paths.iter().map(state).collect()
}

fn state(path: &Path, meta: &fs::Metadata) -> String {
    format!(
        "{path:?} ino {} mode {:o} links {} owner {}:{} size {} blocks {} mtime {}.{:09} ctime {}.{:09}",
        meta.ino(),
        meta.mode(),
        meta.nlink(),
        meta.uid(),
        meta.gid(),
        meta.size(),
        meta.blocks(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    )
}

/// The checksums of all files below `dir`, by an independent program.
#[track_caller]
pub(crate) fn checksums(dir: &Path) -> String {
    let mut find = Command::new("find");
    find.arg(dir).args(["-type", "f", "-exec", "cksum", "{}", "+"]);
    finish(&mut find).expect(0).stdout
}

/// The named system calls of a successful run of pleach, as strace shows them, with the path of each descriptor. Omits
/// failed calls.
#[track_caller]
pub(crate) fn traced_calls(calls: &str, args: &[&OsStr], log: &Path) -> Vec<String> {
    let mut strace = Command::new("strace");
    strace.args(TRACE).args(["-z", "-s", "4096", "-e", &format!("trace={calls}"), "-o"]).arg(log);
    finish(strace.arg(env!("CARGO_BIN_EXE_pleach")).args(args).env_remove("PLEACH_REPO")).expect(0);
    take_trace(log)
}

/// Runs pleach, which is killed when it makes its `nth` of these calls.
pub(crate) fn killed_at(call: &str, nth: u32, args: &[&OsStr]) -> Run {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    strace.args(["-e", &format!("inject={call}:signal=KILL:when={nth}")]);
    finish(strace.arg(env!("CARGO_BIN_EXE_pleach")).args(args).env_remove("PLEACH_REPO").stdin(Stdio::null()))
}

/// The arguments of strace for a log that [`take_trace`] reads. Each thread has its own log; otherwise calls of other
/// threads would split the line of a call in progress.
pub(crate) const TRACE: [&str; 3] = ["-ff", "-y", "-ttt"];

/// The lines of strace's logs, in the order of time. Removes the logs.
#[track_caller]
pub(crate) fn take_trace(log: &Path) -> Vec<String> {
    let name = format!("{}.", log.file_name().and_then(OsStr::to_str).expect("a plain name"));
    let mut lines = Vec::new();
    for entry in fs::read_dir(log.parent().expect("a file is in a directory")).expect("a directory can be listed") {
        let path = entry.expect("a directory can be listed").path();
        if path.file_name().and_then(OsStr::to_str).is_some_and(|found| found.starts_with(&name)) {
            let thread = fs::read(&path).expect("strace wrote its log");
            lines.extend(String::from_utf8_lossy(&thread).lines().map(String::from));
            fs::remove_file(path).expect("a file can be removed");
        }
    }
    assert!(!lines.is_empty(), "strace wrote its log");
    lines.sort();
    let without_time = |line: &String| line.split_once(' ').expect("a line begins with a time").1.to_string();
    lines.iter().map(without_time).collect()
}

/// How long each call that opens a name waits.
pub(crate) const SLOW_OPEN: Duration = Duration::from_micros(700);

/// The command pleach with a delay before each call that opens a name.
pub(crate) fn with_slow_opens<'a>(args: impl IntoIterator<Item = &'a OsStr>) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=openat,openat2"]);
    strace.args(["-e", &format!("inject=openat,openat2:delay_enter={}", SLOW_OPEN.as_micros())]);
    strace.arg(env!("CARGO_BIN_EXE_pleach")).args(args).env_remove("PLEACH_REPO").stdin(Stdio::null());
    strace
}

/// Runs pleach, which gets SIGINT when one of its threads makes its `nth` of these calls. Only one thread may make that
/// many calls: a second signal ends the process at once.
pub(crate) fn interrupted_at<'a>(calls: &str, nth: u32, args: impl IntoIterator<Item = &'a OsStr>) -> Run {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    strace.args(["-e", &format!("inject={calls}:signal=INT:when={nth}")]);
    finish(strace.arg(env!("CARGO_BIN_EXE_pleach")).args(args).env_remove("PLEACH_REPO").stdin(Stdio::null()))
}

/// Runs pleach; the fsync calls of the file or directory `at` fail: all of them, or those that `when` names for
/// strace(1).
pub(crate) fn without_sync<'a>(at: &Path, when: &str, args: impl IntoIterator<Item = &'a OsStr>) -> Run {
    let when = if when.is_empty() { String::new() } else { format!(":when={when}") };
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject=fsync:error=EIO{when}"), "-P"]).arg(at);
    strace.arg(env!("CARGO_BIN_EXE_pleach")).args(args).env_remove("PLEACH_REPO").env("TZ", "UTC");
    finish(strace.stdin(Stdio::null()))
}

/// The regular files below `dir`.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(dir, &mut |path, meta| {
        if meta.is_file() {
            files.push(path.to_path_buf());
        }
    });
    files
}

/// Visits everything below `dir` in the order of names; not for trees deeper than PATH_MAX. An entry that vanishes
/// meanwhile is ignored: a running command removes its temporary files.
fn walk(dir: &Path, visit: &mut dyn FnMut(&Path, &fs::Metadata)) {
    for name in sorted(dir) {
        let path = dir.join(name);
        let meta = match fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => panic!("{}: {error}", path.display()),
        };
        visit(&path, &meta);
        if meta.is_dir() {
            walk(&path, visit);
        }
    }
}

fn sorted(dir: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        fs::read_dir(dir).expect("a directory can be read").map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    names
}

/// Whether a directory is the root of a Btrfs subvolume.
pub(crate) fn is_subvolume(dir: &Path) -> bool {
    // Elsewhere, any directory may have this number.
    let is_btrfs = rustix::fs::statfs(dir).is_ok_and(|status| status.f_type == libc::BTRFS_SUPER_MAGIC);
    is_btrfs && fs::metadata(dir).is_ok_and(|meta| meta.ino() == 256)
}

/// Whether a Btrfs subvolume is read-only, according to `btrfs`.
#[track_caller]
pub(crate) fn is_read_only(subvolume: &Path) -> bool {
    let run = tool("btrfs", &["property", "get", "-ts"], subvolume);
    run.stdout.trim() == "ro=true"
}

/// Makes a Btrfs subvolume read-only or writable.
#[track_caller]
pub(crate) fn set_read_only(subvolume: &Path, read_only: bool) {
    let value = if read_only { "true" } else { "false" };
    finish(Command::new("btrfs").args(["property", "set", "-ts"]).arg(subvolume).args(["ro", value])).expect(0);
}

/// The value that `btrfs subvolume show` prints for a subvolume under this heading.
#[track_caller]
pub(crate) fn subvolume_property(subvolume: &Path, heading: &str) -> String {
    let run = tool("btrfs", &["subvolume", "show"], subvolume);
    let line = run.stdout.lines().find_map(|line| line.trim().strip_prefix(heading));
    line.unwrap_or_else(|| panic!("no {heading:?} in {}", run.stdout)).trim_start_matches(':').trim().to_string()
}

/// Deletes a snapshot by hand, as docs/format.md describes.
#[track_caller]
pub(crate) fn delete_snapshot(snapshot: &Path) {
    if is_subvolume(snapshot) {
        tool("btrfs", &["subvolume", "delete", "--commit-after"], snapshot);
    } else {
        fs::remove_dir_all(snapshot).expect("a snapshot can be deleted");
    }
}

/// Makes the Btrfs subvolumes below a directory writable, so that `rm` can remove them: they are trees of snapshots.
pub(crate) fn let_be_removed(dir: &Path) {
    let mut find = Command::new("find");
    find.arg(dir).args(["-type", "d", "-inum", "256"]);
    find.args(["-exec", "btrfs", "property", "set", "-f", "-ts", "{}", "ro", "false", ";"]);
    let _ = find.stdout(Stdio::null()).stderr(Stdio::null()).status();
}
