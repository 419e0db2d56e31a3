//! `pleach copy`: a copy equals its source in everything, from any filesystem to any other.

mod addresses;
mod destination;
mod kept;
mod killed;
mod meanwhile;
mod power_cut;
mod refused;
mod rights;
mod staged;
mod together;
mod unnamed;
mod verify;
mod waiting;
mod write_error;

use crate::harness::tools::{assert_equal_trees, inventory, paths, states};
use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Runs `pleach copy --json` with these arguments.
fn run(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Run {
    finish(command(["copy", "--json"]).args(args))
}

/// Copies successfully, and returns the summary.
#[track_caller]
fn copy(from: &Path, to: &Path) -> Value {
    run([from, to]).expect(0).summary()
}

/// Asserts that nothing unfinished is left anywhere below a directory.
#[track_caller]
fn assert_nothing_unfinished(dir: &Path) {
    let left: Vec<_> = paths(dir).into_iter().filter(|path| path.to_string_lossy().contains(".pleach-copy.")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The kernel's version: its first two numbers.
fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// The space that a file or tree takes on the disk, in blocks of 512 bytes.
fn blocks(dir: &Path) -> u64 {
    rustix::fs::syncfs(File::open(dir).unwrap()).unwrap();
    tools::files(dir).iter().map(|file| file.symlink_metadata().unwrap().blocks()).sum()
}

on_filesystems! {
    fn every_kind_of_entry_is_copied_exactly(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        tree::every_kind(&source);
        let before = states(&paths(&source));
        let summary = copy(&source, &copied);
        // Checked before rsync reads the source.
        assert_same_lines(&states(&paths(&source)), &before);
        assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(&copied);
        assert_eq!(number(&summary, "errors"), 0, "{summary}");
        if fs.reflinks() {
            assert_eq!(number(&summary, "copied_bytes"), 0, "{summary}");
            assert!(tools::assert_same_blocks(&source.join("large"), &copied.join("large")));
        } else {
            assert!(number(&summary, "copied_bytes") > 3 << 20, "{summary}");
            assert_eq!(blocks(&source), blocks(&copied), "du of both sides");
        }
    }

    fn every_kind_of_entry_comes_from_another_filesystem_and_goes_back(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, here, back) = (other.dir("source"), fs.join("here"), other.join("back"));
        tree::every_kind(&source);
        let summary = copy(&source, &here);
        assert_equal_trees(&source, &here);
        assert_eq!(number(&summary, "cloned_bytes"), 0, "{summary}");
        assert_eq!(
            summary["reasons"]["other_filesystem"].as_u64(),
            Some(number(&summary, "copied_bytes")),
            "{summary}"
        );
        copy(&here, &back);
        assert_equal_trees(&source, &back);
        assert_eq!(blocks(&source), blocks(&back), "du of both sides, and each file whole");
    }

    fn every_kind_of_entry_goes_from_each_filesystem_to_each(fs: &Filesystem) {
        for kind in [Kind::Xfs, Kind::Btrfs, Kind::Ext4].into_iter().filter(|kind| *kind != fs.kind) {
            // If only some of the filesystems were requested.
            let Ok(other) = Filesystem::open(kind, "copy::from") else { continue };
            let (source, copied) = (other.dir("source"), fs.join(format!("from {kind:?}")));
            tree::every_kind(&source);
            let summary = copy(&source, &copied);
            let differences = tools::differences(&source, &copied);
            // XFS also shows its ACLs as separate attributes.
            let own = |line: &&str| [".f........x attributes/acl", ".d........x attributes/dir/"].contains(line);
            let differing = differences.lines().filter(|line| !(fs.kind == Kind::Xfs && own(line)));
            assert_eq!(differing.collect::<Vec<_>>(), [""; 0]);
            for name in ["attributes/acl", "attributes/dir"] {
                assert_eq!(tools::acl(&source.join(name)), tools::acl(&copied.join(name)));
            }
            assert_eq!((number(&summary, "errors"), number(&summary, "cloned_bytes")), (0, 0), "{summary}");
            let planned = run([OsStr::new("--dry-run"), "-T".as_ref(), source.as_ref(), copied.as_ref()]).expect(0);
            assert_eq!(planned.json().len(), 1, "a plan with no change in it: {}", planned.stdout);
        }
    }

    fn a_second_copy_reads_and_writes_nothing(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, copied) = (other.dir("source"), fs.join("copied"));
        tree::every_kind(&source);
        copy(&source, &copied);
        let before = inventory(&copied);
        let again = run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0).summary();
        assert_eq!(number(&again, "unchanged_files"), number(&again, "files"), "{again}");
        assert_eq!((number(&again, "read_bytes"), number(&again, "copied_bytes")), (0, 0), "{again}");
        assert_eq!(again["engines"], serde_json::json!({}), "{again}");
        assert_same_lines(&inventory(&copied), &before);
        let planned = run([OsStr::new("--dry-run"), "-T".as_ref(), source.as_ref(), copied.as_ref()]).expect(0);
        assert_eq!(planned.json().len(), 1, "a plan with no change in it: {}", planned.stdout);
    }

    fn what_changed_since_is_copied_and_only_that(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        tree::every_kind(&source);
        copy(&source, &copied);
        // Changed content with the same size, and a time that differs by a nanosecond; metadata of each kind; new
        // entries, and entries of another type.
        overwrite(&source.join("unaligned"), 5, b"changed");
        fs::set_permissions(source.join("large"), fs::Permissions::from_mode(0o600)).unwrap();
        finish(Command::new("setfattr").args(["-n", "user.new", "-v", "1"]).arg(source.join("tiny"))).expect(0);
        finish(Command::new("setfacl").args(["-m", "u:1:rwx"]).arg(source.join("names"))).expect(0);
        finish(Command::new("chattr").arg("+d").arg(source.join("sparse"))).expect(0);
        fs::remove_file(source.join("hole")).unwrap();
        symlink("elsewhere", source.join("hole")).unwrap();
        write(source.join("new"), &bytes(7, 9000));
        let plan = run([OsStr::new("--dry-run"), "-T".as_ref(), source.as_ref(), copied.as_ref()]).expect(0);
        let lines: Vec<_> = plan.json().iter().filter_map(|line| {
            let path = Path::new(line["path"].as_str()?).strip_prefix(&copied).ok()?.to_str()?.to_string();
            Some((line["change"].as_str()?.to_string(), path))
        }).collect();
        let line = |change: &str, path: &str| lines.contains(&(change.into(), path.into()));
        assert!(line("M", "unaligned") && line("+", "new") && line("T", "hole") && line("U", "names"), "{lines:?}");
        let again = run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0).summary();
        assert_equal_trees(&source, &copied);
        assert_eq!(number(&again, "files") - number(&again, "unchanged_files"), 2, "{again}");
        let flags = |path: &Path| tools::tool("lsattr", &["-d"], path).stdout.split(' ').next().map(String::from);
        assert_eq!(flags(&source.join("sparse")), flags(&copied.join("sparse")));
        assert_eq!(again["seconds"].as_f64().map(|seconds| seconds > 0.0), Some(true));
    }

    fn a_file_of_the_same_size_and_time_is_compared_where_that_proves_nothing(fs: &Filesystem) {
        let dir = fs.path();
        let write_at = |name: &str, content: &[u8]| {
            write(dir.join(name), content);
            tree::set_mtime(&dir.join(name), 1_000_000_000, 0);
        };
        write_at("old", &bytes(1, 5000));
        copy(&dir.join("old"), &dir.join("copied"));
        settle();
        // Like programs that set all times to the same value.
        write_at("old", &bytes(2, 5000));
        copy(&dir.join("old"), &dir.join("copied"));
        assert!(fs::read(dir.join("copied")).unwrap() == bytes(2, 5000));
        settle();
        fs::set_permissions(dir.join("old"), fs::Permissions::from_mode(0o600)).unwrap();
        let summary = copy(&dir.join("old"), &dir.join("copied"));
        assert_eq!(number(&summary, "unchanged_files"), 1, "only its mode is new: {summary}");
        assert_eq!(dir.join("copied").metadata().unwrap().mode() & 0o777, 0o600);
    }

    fn hard_links_are_kept_also_across_sources(fs: &Filesystem) {
        let other = fs.elsewhere();
        for (number_of, from) in [other.dir("source"), fs.dir("source")].into_iter().enumerate() {
            let into = fs.dir(format!("into {number_of}"));
            for dir in ["a/deep", "b"] {
                fs::create_dir_all(from.join(dir)).unwrap();
            }
            write(from.join("a/deep/one"), &bytes(1, 3 << 20));
            write(from.join("a/small"), &bytes(2, 5000));
            for number in 0..20 {
                fs::hard_link(from.join("a/deep/one"), from.join(format!("b/{number}"))).unwrap();
                fs::hard_link(from.join("a/small"), from.join(format!("a/deep/{number}"))).unwrap();
            }
            fs::hard_link(from.join("a/small"), from.join("single")).unwrap();
            let (a, b, single) = (from.join("a"), from.join("b"), from.join("single"));
            let summary = run([&a, &b, &single, &into]).expect(0).summary();
            let assert_equal = || {
                finish(Command::new("touch").arg("-r").args([&from, &into])).expect(0);
                assert_equal_trees(&from, &into);
            };
            assert_equal();
            let link = |name: &str| into.join(name).metadata().unwrap();
            assert_eq!((link("b/7").nlink(), link("single").nlink()), (21, 22));
            assert_eq!(link("b/7").ino(), link("a/deep/one").ino());
            assert_eq!((number(&summary, "files"), number(&summary, "bytes")), (43, (3 << 20) + 5000), "{summary}");
            let before = inventory(&into.join("a"));
            let again = run([&a, &b, &single, &into]).expect(0).summary();
            assert_eq!(number(&again, "unchanged_files"), 43, "{again}");
            assert_same_lines(&inventory(&into.join("a")), &before);
            // A name that was separated from the others is linked to them again.
            fs::remove_file(into.join("b/3")).unwrap();
            fs::copy(into.join("b/4"), into.join("b/3")).unwrap();
            run([&a, &b, &single, &into]).expect(0);
            assert_equal();
        }
    }

    fn immutable_and_append_only_files_are_copied_with_all_their_names(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        for (name, flag) in [("fixed", "+i"), ("log", "+a"), ("dir", "+i")] {
            let path = source.join(name);
            match name {
                "dir" => fs::create_dir(&path).unwrap(),
                _ => write(&path, &bytes(3, 6000)),
            }
            if name == "fixed" {
                fs::hard_link(&path, source.join("fixed too")).unwrap();
            }
            finish(Command::new("chattr").arg(flag).arg(&path)).expect(0);
        }
        copy(&source, &copied);
        for name in ["fixed", "fixed too", "log", "dir"] {
            let flags = |path: &Path| tools::tool("lsattr", &["-d"], path).stdout.split(' ').next().map(String::from);
            assert_eq!(flags(&source.join(name)), flags(&copied.join(name)), "{name}");
        }
        assert_equal_trees(&source, &copied);
    }

    fn nothing_is_inherited_from_the_destination(fs: &Filesystem) {
        let (source, into) = (fs.dir("source"), fs.dir("into"));
        tree::every_kind(&source);
        finish(Command::new("setfacl").args(["-d", "-m", "u:4321:rwx,g:4321:rwx"]).arg(&into)).expect(0);
        std::os::unix::fs::chown(&into, None, Some(4321)).unwrap();
        fs::set_permissions(&into, fs::Permissions::from_mode(0o2775)).unwrap();
        copy(&source, &into);
        assert_equal_trees(&source, &into.join("source"));
    }

    fn trees_deeper_than_a_path_can_be_are_copied(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        tree::deeper_than_path_max(&source);
        copy(&source, &copied);
        assert_eq!(tree::content_at_the_bottom(&copied), tree::content_at_the_bottom(&source));
    }

    fn many_small_files_come_from_another_filesystem_by_any_engine(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        tree::crowded(&source, 1500);
        for engine in engine_names() {
            let copied = fs.join(engine);
            let args = [OsStr::new("--engine"), engine.as_ref(), source.as_ref(), copied.as_ref()];
            let summary = run(args).expect(0).summary();
            assert_equal_trees(&source, &copied);
            let engines = summary["engines"].as_object().unwrap();
            assert_eq!(engines.values().filter_map(Value::as_u64).sum::<u64>(), 1500, "{summary}");
        }
        let cloned = fs.join("cloned");
        let args = [OsStr::new("--engine"), "clone".as_ref(), source.as_ref(), cloned.as_ref()];
        let refused = run(args).expect(1).saying("another filesystem").saying("without --engine");
        assert_eq!(refused.stderr.lines().count(), 1, "once, and not for each file: {}", refused.stderr);
        assert!(tools::files(&fs.join("cloned")).is_empty());
    }

    fn many_of_the_smallest_files_go_through_a_ring_where_the_table_says_so(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let source = other.dir("source");
        for (name, files, size) in [("many", 100, 4096), ("few", 20, 4096), ("larger", 100, 4097)] {
            fs::create_dir(source.join(name)).unwrap();
            (0..files).for_each(|number| write(source.join(name).join(number.to_string()), &bytes(number, size)));
        }
        let summary = copy(&source, &copied);
        let expected = match fs.kind {
            Kind::Xfs | Kind::XfsOther => serde_json::json!({ "uring": 100, "buffered": 120 }),
            _ => serde_json::json!({ "buffered": 220 }),
        };
        assert_eq!(summary["engines"], expected, "{summary}");
        assert_equal_trees(&source, &copied);
    }

    fn a_large_source_is_not_left_in_memory_unless_it_was_there(fs: &Filesystem) {
        let other = fs.elsewhere();
        for (name, size, was_there) in
            [("cold", 24, false), ("warm", 24, true), ("less", 8, false), ("less warm", 8, true)]
        {
            let (file, to) = (other.join(name), fs.join(name));
            write(&file, &bytes(1, size << 20));
            let copied = || {
                tools::forget(&file);
                if was_there {
                    fs::read(&file).unwrap();
                }
                let _ = fs::remove_file(&to);
                let args = ["copy".as_ref(), "-q".as_ref(), file.as_os_str(), to.as_os_str()];
                let opened = tools::traced_calls("?open,openat", &args, &fs.join(format!("{name} trace")));
                let by_disk = opened.iter().any(|call| call.contains("/proc/self/fd/") && call.contains("O_DIRECT"));
                assert_eq!(by_disk, size > 16 && !was_there && kernel() >= (6, 5), "{name}");
                tools::bytes_in_memory(&file)
            };
            match was_there {
                // Other tests and the kernel may drop pages meanwhile, but not in each of five runs.
                true => assert!((0..5).any(|_| copied() == (size as u64) << 20), "{name}"),
                // Older kernels do not support such reads.
                false => assert!(copied() == 0 || kernel() < (6, 16), "{name}"),
            }
            assert!(fs::read(&file).unwrap() == fs::read(to).unwrap());
        }
    }

    [xfs] fn files_of_procfs_and_sysfs_are_read_until_they_end(fs: &Filesystem) {
        let into = fs.dir("into");
        let files =
            ["/proc/version", "/proc/cpuinfo", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/filesystems"];
        let files: Vec<_> = files.iter().filter(|file| Path::new(file).exists()).collect();
        let args = files.iter().map(OsStr::new).chain([into.as_os_str()]);
        run(args).expect(0);
        for file in files {
            let copied = fs::read(into.join(Path::new(file).file_name().unwrap())).unwrap();
            assert!(!copied.is_empty(), "{file}");
            // The frequency of a processor changes.
            if !file.ends_with("cpuinfo") {
                assert_eq!(copied, fs::read(file).unwrap(), "{file}");
            }
        }
    }

    [xfs] fn a_pipe_is_copied_and_never_opened(fs: &Filesystem) {
        let (pipe, into) = (fs.join("pipe"), fs.dir("into"));
        finish(Command::new("mkfifo").arg(&pipe)).expect(0);
        let summary = copy(&pipe, &into);
        assert_eq!((number(&summary, "others"), number(&summary, "files")), (1, 0), "{summary}");
        assert_equal_trees(&pipe.parent().unwrap().join("into"), &into);
        assert!(std::os::unix::fs::FileTypeExt::is_fifo(&into.join("pipe").symlink_metadata().unwrap().file_type()));
    }

    [xfs] fn mount_points_are_left_empty_when_asked(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, mounted) = (fs.dir("source"), fs.dir("source/mounted"));
        write(source.join("file"), b"here");
        write(other.join("file"), b"there");
        finish(Command::new("mount").arg("--bind").arg(other.path()).arg(&mounted)).expect(0);
        let one = run([OsStr::new("-x"), source.as_ref(), fs.join("one").as_ref()]);
        let all = run([source.as_os_str(), fs.join("all").as_ref()]);
        finish(Command::new("umount").arg(&mounted)).expect(0);
        one.expect(0);
        all.expect(0);
        assert_eq!(names(&fs.join("one")), ["file", "mounted"]);
        assert_eq!(names(&fs.join("one/mounted")), [""; 0]);
        assert_eq!(fs::read(fs.join("all/mounted/file")).unwrap(), b"there");
    }
}
