//! One inode with very many names.

use crate::harness::*;
use crate::on_filesystems;
use pleach::copy_tree;
use pleach::monitor::Monitor;
use pleach::snapshot::create;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The number of names of one inode: few in the suite, any number through the environment (docs/security.md).
fn many() -> usize {
    std::env::var("PLEACH_TEST_HARD_LINKS").ok().and_then(|number| number.parse().ok()).unwrap_or(2000)
}

/// Creates a file with this many names, a thousand per directory.
fn linked(dir: &Path, names: usize) {
    write(dir.join("first"), &bytes(1, 5000));
    for number in 1..names {
        let inner = dir.join(format!("{:04}", number / 1000));
        if number == 1 || number % 1000 == 0 {
            fs::create_dir(&inner).unwrap();
        }
        fs::hard_link(dir.join("first"), inner.join(format!("{number:07}"))).unwrap();
    }
}

/// The inodes below a directory: the number of names of each one there.
fn inodes(dir: &Path) -> Vec<usize> {
    let mut names = BTreeMap::<u64, usize>::new();
    for file in tools::files(dir) {
        *names.entry(file.symlink_metadata().unwrap().ino()).or_default() += 1;
    }
    names.into_values().collect()
}

/// Runs pleach, and returns its summary and its peak memory in bytes.
fn measured(args: &[&OsStr]) -> (serde_json::Value, u64) {
    let mut child = command(args).stdout(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB")?.trim().parse().ok());
        most = most.max(peak.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    let run = Run::new(child.wait_with_output().unwrap(), format!("{args:?}")).expect(0);
    (run.summary(), most << 10)
}

/// Calls `act` each time that the run asks whether it should stop.
struct Meddler<F>(F);

impl<F: Fn() + Sync> Monitor for Meddler<F> {
    fn problem(&self, error: &pleach::error::Error) {
        panic!("{error}");
    }

    fn is_cancelled(&self) -> bool {
        (self.0)();
        false
    }
}

/// A source with a file of two names, `1/a` and `3/b`. The returned meddler deletes both and creates other files, when
/// `1` is done and `3` has not begun yet; the kernel often gives one of them the old inode number.
fn reused(source: &Path, is_done: impl Fn(&Path) -> bool + Sync) -> Meddler<impl Fn() + Sync> {
    for name in ["1", "2", "3"] {
        fs::create_dir(source.join(name)).unwrap();
        write(source.join(name).join("plain"), b"plain");
    }
    write(source.join("1/a"), b"the first file");
    fs::hard_link(source.join("1/a"), source.join("3/b")).unwrap();
    let (source, once) = (source.to_path_buf(), std::sync::Once::new());
    Meddler(move || {
        if !is_done(Path::new("1/a")) {
            return;
        }
        once.call_once(|| {
            fs::remove_file(source.join("3/b")).unwrap();
            fs::remove_file(source.join("1/a")).unwrap();
            for number in 0..50 {
                write(source.join(format!("1/new-{number}")), b"another file");
                fs::hard_link(source.join(format!("1/new-{number}")), source.join(format!("3/b{number}"))).unwrap();
            }
        });
    })
}

on_filesystems! {
    fn the_names_of_one_inode_stay_names_of_one_inode(fs: &Filesystem) {
        let (source, repo, target) = (fs.dir("source"), fs.join("repo"), fs.join("target"));
        let names = many().min(match fs.kind {
            Kind::Ext4 => 65_000,
            Kind::Btrfs => 65_535,
            _ => usize::MAX,
        });
        linked(&source, names);
        let mut peaks = Vec::new();
        for name in ["one", "two"] {
            settle();
            let (summary, peak) = measured(&snapshot_named(name, &source, &repo));
            assert_eq!(number(&summary, "files"), names as u64);
            assert_eq!(number(&summary, "bytes"), 5000, "{summary}");
            assert_eq!(inodes(&repo.join(name)), [names]);
            peaks.push(peak);
        }
        let args = ["restore", "--json", "--target"].map(OsStr::new);
        let args: Vec<_> = args.into_iter().chain([target.as_ref(), repo.as_ref(), OsStr::new("two")]).collect();
        peaks.push(measured(&args).1);
        assert_eq!(inodes(&target), [names]);
        let mebibytes: Vec<_> = peaks.iter().map(|peak| peak >> 20).collect();
        assert!(peaks.iter().all(|peak| *peak < 100 << 20), "{names} names took {mebibytes:?} MiB");
    }

    fn in_a_later_night_a_further_name_costs_a_look_and_a_link_however_many_there_are(fs: &Filesystem) {
        let calls = |names: usize| {
            let (source, repo) = (fs.dir(format!("source {names}")), fs.join(format!("repo {names}")));
            linked(&source, names);
            snapshot(&source, &repo);
            settle();
            let log = fs.join(format!("log {names}"));
            let named =
                "openat,openat2,statx,newfstatat,linkat,unlinkat,ioctl,fsetxattr,fgetxattr,fstat,pread64,pwrite64";
            tools::traced_calls(named, &snapshot_named("again", &source, &repo), &log).len()
        };
        // Both in one directory.
        let (few, many) = (calls(300), calls(900));
        assert!(many.saturating_sub(few) <= 600 * 2 + 50, "{few} calls for 300 names, {many} for 900");
    }

    fn a_file_that_got_the_number_of_a_deleted_one_is_not_taken_for_it(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        let options = create::Options { threads: Some(1), ..create::Options::default() };
        let (partial, below) = (fs.join("repo/.pleach/partial"), source.strip_prefix("/").unwrap().to_path_buf());
        let is_done = move |name: &Path| {
            let trees = fs::read_dir(&partial).into_iter().flatten().flatten();
            trees.map(|entry| entry.path().join("tree").join(&below).join(name)).any(|path| path.exists())
        };
        create::create(std::slice::from_ref(&source), &fs.join("repo"), &options, &reused(&source, is_done)).unwrap();
        for path in tools::files(&inside(&fs.join("repo"), "latest", &source).join("3")) {
            let expected = if path.ends_with("plain") { &b"plain"[..] } else { b"another file" };
            assert_eq!(fs::read(&path).unwrap(), expected, "{}", path.display());
        }
        fs::remove_dir_all(&source).unwrap();
        fs::create_dir(&source).unwrap();
        let there = copied.clone();
        let monitor = reused(&source, move |name| there.join(name).exists());
        let options =
            copy_tree::Options { threads: Some(1), into: copy_tree::Placement::Name, ..copy_tree::Options::default() };
        copy_tree::copy(std::slice::from_ref(&source), &copied, &options, &monitor).unwrap();
        for path in tools::files(&copied.join("3")) {
            let expected = if path.ends_with("plain") { &b"plain"[..] } else { b"another file" };
            assert_eq!(fs::read(&path).unwrap(), expected, "{}", path.display());
        }
    }

    [xfs, ext4] fn inodes_whose_other_names_are_outside_cost_few_bytes_each(fs: &Filesystem) {
        let (many, few, outside) = (fs.dir("many"), fs.dir("few"), fs.dir("outside"));
        let count = 10_000;
        // With these, a path is ten times as long as what may be in memory for each inode.
        let long = "n".repeat(200);
        let deep = [&long[..]; 8].join("/");
        for number in 0..count {
            let dir = format!("{deep}/{:03}", number / 200);
            for top in [&many, &few] {
                if number % 200 == 0 {
                    fs::create_dir_all(top.join(&dir)).unwrap();
                }
                write(top.join(&dir).join(format!("{number}-{long}")), b"x");
            }
            fs::hard_link(many.join(&dir).join(format!("{number}-{long}")), outside.join(number.to_string())).unwrap();
        }
        let peaks = |round: u32| [("few", &few), ("many", &many)].map(|(name, source)| {
            let at = |what: &str| fs.join(format!("{name} {what} {round}"));
            let (repo, target, copied) = (at("repo"), at("target"), at("copied"));
            let snapshot = measured(&["snapshot".as_ref(), "--json".as_ref(), source.as_ref(), repo.as_ref()]);
            let restore = ["restore", "--json", "--target"].map(OsStr::new);
            let restore = restore.into_iter().chain([target.as_ref(), repo.as_ref(), OsStr::new("latest")]);
            let restore = measured(&restore.collect::<Vec<_>>());
            let copy = measured(&["copy".as_ref(), "--json".as_ref(), source.as_ref(), copied.as_ref()]);
            // The filesystem does not have enough inodes for all rounds at once.
            [repo, target, copied].iter().for_each(|made| fs::remove_dir_all(made).unwrap());
            [snapshot, restore, copy].map(|(summary, peak)| {
                assert_eq!((number(&summary, "files"), number(&summary, "errors")), (count, 0), "{summary}");
                peak
            })
        });
        // 100 bytes each, plus what the allocator and a table that has just grown keep. On a busy machine the walk may
        // get further ahead of the rest in either run, which only adds memory, so the minimum of several runs counts.
        let mut least = [[u64::MAX; 3]; 2];
        let is_small =
            |[few, many]: &[[u64; 3]; 2]| few.iter().zip(many).all(|(few, many)| *many < few + 100 * count + (8 << 20));
        for round in 0..5 {
            for (least, peak) in least.iter_mut().flatten().zip(peaks(round).as_flattened()) {
                *least = (*least).min(*peak);
            }
            if is_small(&least) {
                return;
            }
        }
        panic!("least peaks without and with such inodes: {least:?}");
    }

    fn no_name_joins_a_file_that_has_only_the_size_and_the_time_of_the_right_one(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo, target, copies) = (fs.dir("source"), fs.join("repo"), fs.dir("target"), other.dir("copies"));
        for name in ["a", "b", "lone"] {
            write(source.join(name), if name == "lone" { b"other" } else { b"right" });
            tree::set_mtime(&source.join(name), 1_600_000_000, 0);
        }
        fs::remove_file(source.join("b")).unwrap();
        fs::hard_link(source.join("a"), source.join("b")).unwrap();
        snapshot(&source, &repo);
        restored(&repo, &target).expect(0);
        let restored_to = target.join(source.strip_prefix("/").unwrap());
        let copy = || pleach(["copy".as_ref(), "-T".as_ref(), source.as_os_str(), copies.as_os_str()]);
        copy().expect(0);
        let content = |dir: &Path| ["a", "b"].map(|name| fs::read(dir.join(name)).unwrap());
        for wrong in ["a", "b"] {
            for way in ["moved", "linked"] {
                for dir in [&restored_to, &copies] {
                    let spoiled = dir.join(wrong);
                    match way {
                        "moved" => {
                            write(dir.join("new"), b"wrong");
                            tree::set_mtime(&dir.join("new"), 1_600_000_000, 0);
                            fs::rename(dir.join("new"), &spoiled).unwrap();
                        }
                        _ => {
                            fs::remove_file(&spoiled).unwrap();
                            fs::hard_link(dir.join("lone"), &spoiled).unwrap();
                        }
                    }
                }
                settle();
                for (dir, run) in [(&restored_to, restored(&repo, &target)), (&copies, copy())] {
                    let is_repaired = content(dir) == [b"right"; 2];
                    assert_eq!(run.status, if is_repaired { 0 } else { 3 }, "{way} {wrong}: {run:?}");
                    let kept = if wrong == "a" { "b" } else { "a" };
                    assert_eq!(fs::read(dir.join(kept)).unwrap(), b"right", "{way} {wrong}: replaced");
                    if !is_repaired {
                        run.saying("but other content").saying(&format!("{wrong} "));
                        fs::remove_file(dir.join(wrong)).unwrap();
                    }
                }
                restored(&repo, &target).expect(0);
                copy().expect(0);
                for dir in [&restored_to, &copies] {
                    assert_eq!(content(dir), [b"right"; 2]);
                    let mut names = inodes(dir);
                    names.sort_unstable();
                    assert_eq!(names, [1, 2]);
                    assert_eq!(fs::read(dir.join("lone")).unwrap(), b"other");
                }
            }
        }
    }

    fn a_copy_compares_a_file_once_before_many_names_join_it(fs: &Filesystem) {
        let log = fs.join("log");
        let other = fs.elsewhere();
        let (source, copy) = (fs.dir("source"), other.dir("copy"));
        linked(&source, 60);
        settle();
        let args = ["copy", "-j", "2", "-q", "-T"].map(OsStr::new).into_iter();
        let args: Vec<_> = args.chain([source.as_os_str(), copy.as_os_str()]).collect();
        pleach(&args).expect(0);
        fs::remove_dir_all(copy.join("0000")).unwrap();
        settle();
        let mut strace = Command::new("strace");
        // The cached pages of a file are dropped before it is compared.
        strace.args(["-f", "-qq", "-e", "trace=fadvise64", "-o"]).arg(&log);
        finish(strace.arg(env!("CARGO_BIN_EXE_pleach")).args(&args)).expect(0);
        assert_eq!(inodes(&copy), [60]);
        let dropped = fs::read_to_string(&log).unwrap().lines().filter(|line| line.contains("FADV_DONTNEED")).count();
        // Both threads may compare it at the same time.
        assert!(dropped <= 2, "{dropped}");
    }

    fn a_new_name_does_not_join_an_entry_that_restore_must_keep(fs: &Filesystem) {
        let (source, repo, target) = (fs.dir("source"), fs.join("repo"), fs.dir("target"));
        let to = target.join(source.strip_prefix("/").unwrap());
        type Made = (&'static str, fn(&Path));
        let kinds: [Made; 3] = [
            ("file", |path| write(path, b"right")),
            ("empty", |path| write(path, b"")),
            ("link", |path| std::os::unix::fs::symlink("right", path).unwrap()),
        ];
        for (kind, make) in kinds {
            make(&source.join(format!("{kind}-a")));
            fs::hard_link(source.join(format!("{kind}-a")), source.join(format!("{kind}-b"))).unwrap();
        }
        snapshot(&source, &repo);
        let restore = || {
            let args = ["restore", "--overwrite", "never", "--target"].map(OsStr::new);
            pleach(args.into_iter().chain([target.as_os_str(), repo.as_os_str(), "latest".as_ref()])).expect(0)
        };
        let others: [Made; 4] = [
            ("other content", |path| write(path, b"mine!")),
            ("more content", |path| write(path, b"that of somebody else")),
            ("another link", |path| std::os::unix::fs::symlink("mine", path).unwrap()),
            ("another mode", |path| {
                write(path, b"right");
                fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
            }),
        ];
        let state = |path: &Path| {
            let status = path.symlink_metadata().unwrap();
            let content = if status.is_file() { fs::read(path).ok() } else { None };
            (status.mode(), content, fs::read_link(path).ok())
        };
        for (other, make) in others {
            let _ = fs::remove_dir_all(&to);
            fs::create_dir_all(&to).unwrap();
            kinds.iter().for_each(|(kind, _)| make(&to.join(format!("{kind}-a"))));
            restore();
            for (kind, _) in kinds {
                let (kept, made) = (to.join(format!("{kind}-a")), to.join(format!("{kind}-b")));
                assert_eq!(kept.symlink_metadata().unwrap().nlink(), 1, "{kind}, {other}");
                assert_eq!(state(&made), state(&source.join(format!("{kind}-a"))), "{kind}, {other}");
            }
        }
        // An earlier run may have stopped between two names.
        let _ = fs::remove_dir_all(&to);
        restore();
        for (kind, _) in kinds {
            fs::remove_file(to.join(format!("{kind}-b"))).unwrap();
        }
        restore();
        for (kind, _) in kinds {
            assert_eq!(to.join(format!("{kind}-b")).symlink_metadata().unwrap().nlink(), 2, "{kind}");
        }
    }

    [btrfs, ext4] fn more_names_than_a_filesystem_allows_make_as_few_inodes_as_can_be(fs: &Filesystem) {
        if many() < 70_000 {
            return; // The limits are 65,000 and 65,535, and to get there takes a minute.
        }
        let other = fs.elsewhere();
        let (source, repo, target) = (other.dir("source"), fs.join("repo"), fs.join("target"));
        linked(&source, 70_000);
        for name in ["one", "two"] {
            settle();
            let summary = pleach(snapshot_named(name, &source, &repo)).expect(0).summary();
            assert_eq!((number(&summary, "files"), number(&summary, "errors")), (70_000, 0), "{summary}");
            let found = inodes(&repo.join(name));
            assert_eq!((found.len(), found.iter().sum()), (2, 70_000), "{found:?}");
        }
        restored(&repo, &target).expect(0);
        assert_eq!(inodes(&target).len(), 2);
        assert_eq!(
            fs::read(target.join(source.strip_prefix("/").unwrap()).join("0069/0069999")).unwrap(),
            bytes(1, 5000)
        );
    }
}

fn restored(repo: &Path, target: &Path) -> Run {
    pleach([OsStr::new("restore"), "--target".as_ref(), target.as_ref(), repo.as_ref(), "latest".as_ref()])
}
