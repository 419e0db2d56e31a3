//! The common parts of all tests: a filesystem with a scratch directory, the pleach binary, and test data.
//!
//! [`on_filesystems!`](crate::on_filesystems) makes one `#[test]` per filesystem out of a function; `cargo xtask test`
//! passes the filesystems in environment variables. A test that counts free space makes a filesystem of its own
//! (`own`). Trees with every kind of entry are in `tree`, random changes of a tree in `edits`, the state of a whole
//! tree in `tree_state`, files of every shape in `shapes`, outside witnesses (rsync, xfs_io, …) in `tools`, the lines
//! of `--json` by type in `json_lines`. `meddler` interferes with a run. `running` handles runs in progress; `stop`
//! stops runs. `power` and `disk` cut the power, `recorder` records the requests to a disk, `failing_disk` refuses
//! writes. `sshd` is another host, `server` a server, `swap` a swap file in use.

#![allow(dead_code, reason = "a tool box: not every topic uses every tool")]

pub(crate) mod disk;
pub(crate) mod disk_space;
pub(crate) mod edits;
pub(crate) mod failing_disk;
pub(crate) mod images;
pub(crate) mod json_lines;
pub(crate) mod manifests;
pub(crate) mod meddler;
pub(crate) mod mounted;
pub(crate) mod own;
pub(crate) mod power;
pub(crate) mod random;
pub(crate) mod recorder;
pub(crate) mod rest_server;
pub(crate) mod run;
pub(crate) mod running;
pub(crate) mod server;
pub(crate) mod shapes;
pub(crate) mod sshd;
pub(crate) mod stop;
pub(crate) mod swap;
pub(crate) mod tools;
pub(crate) mod tree;
pub(crate) mod tree_state;

use pleach::testing::copy::Engine;
pub(crate) use run::{Run, command, command_bound_by_permissions, finish, number, pleach};
use serde_json::Value;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The filesystems that tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Xfs,
    Btrfs,
    Ext4,
    /// A second XFS, for sources that cannot share with the repository.
    XfsOther,
    /// The smallest possible XFS, to be filled. One test at a time uses it.
    XfsSmall,
}

impl Kind {
    fn variable(self) -> &'static str {
        match self {
            Kind::Xfs => "PLEACH_TEST_XFS",
            Kind::Btrfs => "PLEACH_TEST_BTRFS",
            Kind::Ext4 => "PLEACH_TEST_EXT4",
            Kind::XfsOther => "PLEACH_TEST_XFS_OTHER",
            Kind::XfsSmall => "PLEACH_TEST_XFS_SMALL",
        }
    }
}

/// A scratch directory on a filesystem of a known kind. It is removed when the test ends, even if the test fails.
pub(crate) struct Filesystem {
    /// The kind of the filesystem.
    pub(crate) kind: Kind,
    scratch: PathBuf,
    /// The lock of the only test that may fill the filesystem.
    _alone: Option<MutexGuard<'static, ()>>,
    /// The filesystem, if it belongs to this test.
    _own: Option<own::Own>,
}

impl Filesystem {
    /// The scratch directory of `test` on the filesystem of this kind, or the reason why there is none.
    pub(crate) fn open(kind: Kind, test: &str) -> Result<Filesystem, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        static ALONE: Mutex<()> = Mutex::new(());
        let Some(root) = env::var_os(kind.variable()) else {
            let reason = env::var("PLEACH_TEST_NONE").unwrap_or_else(|_| "run `cargo xtask test`".into());
            return Err(format!("no {kind:?} filesystem ({reason})"));
        };
        // Short, because some limits apply to the length of a path.
        let topic = test.rsplit("::").nth(1).unwrap_or(test);
        let name = format!("{topic:.40}.{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let scratch = Path::new(&root).join(name);
        if scratch.exists() {
            tools::let_be_removed(&scratch);
            fs::remove_dir_all(&scratch).expect("an earlier run's scratch directory can be removed");
        }
        fs::create_dir(&scratch).expect("a scratch directory can be made");
        let alone = (kind == Kind::XfsSmall).then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Filesystem { kind, scratch, _alone: alone, _own: None })
    }

    /// The scratch directory.
    pub(crate) fn path(&self) -> &Path {
        &self.scratch
    }

    /// A path in the scratch directory, where nothing may exist yet.
    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.scratch.join(name)
    }

    /// A new directory in the scratch directory.
    pub(crate) fn dir(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(&path).expect("a directory can be made");
        path
    }

    /// A scratch directory on another filesystem, which cannot share extents with any of the tested ones.
    pub(crate) fn elsewhere(&self) -> Filesystem {
        Filesystem::open(Kind::XfsOther, "elsewhere::source").expect("`cargo xtask test` mounts it with any other")
    }

    /// A directory on a filesystem of the same kind that no other test uses: for commands that search all of it, and
    /// open files of others.
    pub(crate) fn alone(&self) -> Filesystem {
        let own = own::Own::new(self.kind, "alone", 400, &[], "").expect("this test has a filesystem");
        let scratch = own.join("scratch");
        fs::create_dir(&scratch).expect("a scratch directory can be made");
        Filesystem { kind: self.kind, scratch, _alone: None, _own: Some(own) }
    }

    /// Whether files can share extents here.
    pub(crate) fn reflinks(&self) -> bool {
        self.kind != Kind::Ext4
    }
}

impl Drop for Filesystem {
    fn drop(&mut self) {
        // By rm: it descends by descriptor, so it removes trees deeper than PATH_MAX, also on a full disk.
        let remove = || Command::new("rm").arg("-rf").arg(&self.scratch).stderr(Stdio::null()).status();
        let mut removed = remove();
        if !removed.as_ref().is_ok_and(|status| status.success()) {
            tools::let_be_removed(&self.scratch);
            let mut unlock = Command::new("chattr");
            let _ = unlock.args(["-R", "-f", "-i", "-a"]).arg(&self.scratch).stderr(Stdio::null()).status();
            removed = remove();
        }
        if !thread::panicking() {
            assert!(removed.is_ok_and(|status| status.success()), "the scratch directory can be removed");
        }
    }
}

/// Makes a test of each function for each filesystem: `name::xfs`, `name::btrfs`, `name::ext4`, or those in the list.
///
/// ```ignore
/// on_filesystems! {
///     fn a_sentence(fs: &Filesystem) { … }
///     [xfs, btrfs] fn another_sentence(fs: &Filesystem) { … }
/// }
/// ```
#[macro_export]
macro_rules! on_filesystems {
    () => {};
    ([$($kind:ident),+] fn $name:ident($fs:ident: &Filesystem) $body:block $($rest:tt)*) => {
        mod $name {
            #[allow(unused_imports, reason = "a body may need nothing from outside")]
            use super::*;
            fn body($fs: &$crate::harness::Filesystem) $body
            $($crate::on_filesystems! { @test $kind })+
        }
        $crate::on_filesystems! { $($rest)* }
    };
    (fn $name:ident($fs:ident: &Filesystem) $body:block $($rest:tt)*) => {
        $crate::on_filesystems! { [xfs, btrfs, ext4] fn $name($fs: &Filesystem) $body $($rest)* }
    };
    (@test xfs) => { $crate::on_filesystems! { @test xfs Xfs } };
    (@test btrfs) => { $crate::on_filesystems! { @test btrfs Btrfs } };
    (@test ext4) => { $crate::on_filesystems! { @test ext4 Ext4 } };
    (@test xfs_small) => { $crate::on_filesystems! { @test xfs_small XfsSmall } };
    (@test $test:ident $kind:ident) => {
        #[test]
        fn $test() {
            let name = concat!(module_path!(), "::", stringify!($test));
            $crate::harness::run_on($crate::harness::Kind::$kind, name, body);
        }
    };
}

/// Runs the body of a test on a filesystem of this kind, or records that there is none.
pub(crate) fn run_on(kind: Kind, test: &str, body: fn(&Filesystem)) {
    match Filesystem::open(kind, test) {
        Ok(filesystem) => {
            let begun = Instant::now();
            body(&filesystem);
            drop(filesystem);
            append("PLEACH_TEST_TIMES", &format!("{:.1} {}", begun.elapsed().as_secs_f64(), without_binary(test)));
        }
        Err(reason) => skip(test, &reason),
    }
}

/// Prints a figure that a test found; `--nocapture` shows it.
#[allow(clippy::print_stdout, reason = "the test's own report")]
pub(crate) fn report(figure: &str) {
    println!("{figure}");
}

/// Prints how many of something a test with random choices tried; `cargo xtask torture` adds these numbers up.
pub(crate) fn counted(number: usize, what: &str) {
    report(&format!("counted: {number} {what}"));
}

/// Records that a test cannot run here. In CI this is a failure: of `cargo xtask test` if it collects the list, else of
/// the test itself.
#[allow(clippy::print_stdout, reason = "the test's own report")]
pub(crate) fn skip(test: &str, reason: &str) {
    let name = without_binary(test);
    println!("skipped: {name}: {reason}");
    let is_collected = append("PLEACH_TEST_SKIPS", &format!("{name}: {reason}"));
    let is_ci = env::var("CI").as_deref() == Ok("true");
    assert!(is_collected || !is_ci, "in CI nothing may be skipped: {name}: {reason}");
}

fn without_binary(test: &str) -> &str {
    test.split_once("::").map_or(test, |(_binary, name)| name)
}

/// Adds a line to the list at the path in this variable. Returns whether there is one.
fn append(variable: &str, line: &str) -> bool {
    let Some(list) = env::var_os(variable) else { return false };
    let mut list = File::options().append(true).create(true).open(list).expect("a list opens");
    // One write, because other tests append at the same time.
    list.write_all(format!("{line}\n").as_bytes()).expect("a list can be written");
    true
}

/// Takes a snapshot successfully, and returns its summary.
#[track_caller]
pub(crate) fn snapshot(source: &Path, repo: &Path) -> Value {
    settle();
    pleach([OsStr::new("snapshot"), source.as_ref(), repo.as_ref(), "--json".as_ref()]).expect(0).summary()
}

/// The arguments that take a snapshot with this name.
pub(crate) fn snapshot_named<'a>(name: &'a str, source: &'a Path, repo: &'a Path) -> [&'a OsStr; 6] {
    ["snapshot".as_ref(), "--json".as_ref(), "--name".as_ref(), name.as_ref(), source.as_ref(), repo.as_ref()]
}

/// Waits for the next tick of the timestamp clock, so that recent writes are older than a scan that begins now. A file
/// as recent as its scan counts as changed next time.
pub(crate) fn settle() {
    thread::sleep(Duration::from_millis(20));
}

/// The path of `source` in a snapshot.
pub(crate) fn inside(repo: &Path, snapshot: &str, source: &Path) -> PathBuf {
    repo.join(snapshot).join(source.strip_prefix("/").expect("sources are absolute"))
}

/// The names in a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("entries can be read").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The published snapshots: the entries that a user sees in the repository, without `latest`.
pub(crate) fn published(repo: &Path) -> Vec<String> {
    names(repo).into_iter().filter(|name| name != ".pleach" && name != "latest").collect()
}

/// The names that `pleach list` gives.
#[track_caller]
pub(crate) fn listed(repo: &Path) -> Vec<String> {
    let run = pleach([OsStr::new("list"), repo.as_ref(), "--json".as_ref()]).expect(0);
    run.lines::<json_lines::Snapshot>().into_iter().map(|snapshot| snapshot.name).collect()
}

/// Asserts that no unfinished run or deletion left anything.
#[track_caller]
pub(crate) fn assert_no_leftovers(repo: &Path) {
    for dir in ["partial", "trash"] {
        let path = repo.join(".pleach").join(dir);
        if path.exists() {
            assert_eq!(names(&path), [""; 0], "left in {dir}");
        }
    }
}

/// Asserts that two listings are the same, and shows only the differences.
#[track_caller]
pub(crate) fn assert_same_lines(now: &[String], before: &[String]) {
    let lost: Vec<_> = before.iter().filter(|line| !now.contains(line)).collect();
    let new: Vec<_> = now.iter().filter(|line| !before.contains(line)).collect();
    assert!(lost.is_empty() && new.is_empty(), "lines that are gone: {lost:#?}\nnew lines: {new:#?}");
}

/// Reproducible bytes that neither compress nor repeat.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Reproducible bytes that compress to about half: each block is random bytes and zeros.
pub(crate) fn half_zeros(seed: u64, length: usize) -> Vec<u8> {
    // Joined from slices: an iterator over bytes is slow in a debug build.
    bytes(seed, length / 2).chunks(2048).flat_map(|part| [part, &[0; 2048]]).collect::<Vec<_>>().concat()
}

/// Asserts a file's content, without printing it.
#[track_caller]
pub(crate) fn assert_content(path: &Path, content: &[u8]) {
    let found = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // Called only after a failure: a loop over bytes is slow in a debug build.
    let first = || found.iter().zip(content).position(|(a, b)| a != b);
    assert!(found == content, "{}: {} bytes for {}, {:?} differs", path.display(), found.len(), content.len(), first());
}

/// Overwrites a file at an offset with these bytes.
#[track_caller]
pub(crate) fn overwrite(path: &Path, at: u64, content: &[u8]) {
    let file = File::options().write(true).open(path).expect("a file can be opened");
    file.write_all_at(content, at).expect("a file can be written");
}

/// Clones a file with `cp`, which fails if cloning is impossible.
#[track_caller]
pub(crate) fn clone(from: &Path, to: &Path) {
    finish(Command::new("cp").arg("--reflink=always").arg(from).arg(to)).expect(0);
}

/// The values of `--engine` that copy from any filesystem to any other.
pub(crate) fn engine_names() -> impl Iterator<Item = &'static str> {
    let engines = Engine::ALL.into_iter().filter(|engine| *engine != Engine::Clone);
    std::iter::once("auto").chain(engines.map(|engine| engine.name()))
}

/// Writes a file by plain writes: `cp` and `cat` may clone.
#[track_caller]
pub(crate) fn write(path: impl AsRef<Path>, content: &[u8]) {
    let path = path.as_ref();
    fs::write(path, content).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
