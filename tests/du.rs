//! `pleach du`: the space that paths use and share, against `btrfs filesystem du`; the space that deleting them frees,
//! against `df`.

mod deleted;
mod maps;
mod own;
mod reverse_map;
mod snapshots;

use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

on_filesystems! {
    fn a_hard_link_counts_once_and_frees_nothing_while_it_has_a_name_outside(fs: &Filesystem) {
        let (one, two) = (fs.dir("one"), fs.dir("two"));
        write(one.join("file"), &bytes(1, 512 * KIB));
        write(one.join("alone"), &bytes(2, 256 * KIB));
        fs::hard_link(one.join("file"), one.join("again")).expect("a hard link can be made");
        fs::hard_link(one.join("file"), two.join("outside")).expect("a hard link can be made");
        let apart = du(&[&one]);
        assert_eq!(number(&apart.rows[0], "apparent_bytes"), 768 * 1024);
        assert_eq!(number(&apart.rows[0], "files"), 2);
        assert!(number(&apart.rows[0], "disk_bytes") < 1024 * 1024);
        let freed = number(&apart.summary, "set_freed_bytes");
        assert!((256 * 1024..512 * 1024).contains(&freed), "only the file with no other name: {freed}");
        // All three names are in this set, though no single path has them all.
        let both = du(&[&one, &two]);
        assert_eq!(number(&both.rows[1], "apparent_bytes"), 512 * 1024);
        assert_eq!(number(&both.summary, "set_apparent_bytes"), 768 * 1024);
        let freed = number(&both.summary, "set_freed_bytes");
        assert!((768 * 1024..1024 * 1024).contains(&freed), "{freed}");
    }

    [xfs, btrfs] fn what_is_shared_within_the_set_is_freed_and_what_something_outside_holds_is_not(fs: &Filesystem) {
        let (set, outside) = (fs.dir("set"), fs.dir("outside"));
        write(outside.join("held"), &bytes(1, MIB));
        clone(&outside.join("held"), &set.join("held"));
        clone(&outside.join("held"), &set.join("held twice"));
        write(set.join("own"), &bytes(2, 2 * MIB));
        clone(&set.join("own"), &set.join("own again"));
        write(set.join("single"), &bytes(3, 4 * MIB));
        let found = du(&[&set]);
        let [row] = &found.rows[..] else { panic!("one row: {:?}", found.rows) };
        assert_eq!(whole_mebibytes(row, "apparent_bytes"), 1 + 1 + 2 + 2 + 4);
        assert_eq!(whole_mebibytes(row, "disk_bytes"), 1 + 1 + 2 + 2 + 4);
        assert_eq!(whole_mebibytes(row, "exclusive_bytes"), 4);
        assert_eq!(whole_mebibytes(row, "shared_bytes"), 1 + 2);
        assert_eq!(whole_mebibytes(&found.summary, "set_freed_bytes"), 2 + 4);
        assert_settled(fs, &found.summary);
        // Nothing outside holds the data any more.
        let all = du(&[&set, &outside]);
        assert_eq!(whole_mebibytes(&all.summary, "set_freed_bytes"), 1 + 2 + 4);
        assert_eq!(whole_mebibytes(&all.summary, "set_disk_bytes"), 1 + 1 + 1 + 2 + 2 + 4);
    }

    [xfs, btrfs] fn one_who_may_not_ask_the_filesystem_is_given_a_bound(fs: &Filesystem) {
        let set = fs.dir("set");
        write(set.join("own"), &bytes(2, 2 * MIB));
        clone(&set.join("own"), &set.join("own again"));
        write(set.join("single"), &bytes(3, 4 * MIB));
        let mut bound = Command::new("setpriv");
        bound.args(["--inh-caps=-all", "--bounding-set=-sys_admin,-dac_read_search"]);
        bound.arg(env!("CARGO_BIN_EXE_pleach")).args(["du", "--json"]).arg(&set);
        let (bound, root) = (finish(&mut bound).expect(0), du(&[&set]));
        let summary = bound.summary();
        assert_eq!(summary["set_freed_is"], "at_least");
        assert_eq!(whole_mebibytes(&summary, "set_freed_bytes"), 4);
        assert_eq!(whole_mebibytes(&summary, "set_undecided_bytes"), 2);
        for field in ["apparent_bytes", "disk_bytes", "exclusive_bytes", "shared_bytes"] {
            assert_eq!(bound.json()[0][field], root.rows[0][field], "{field}");
        }
    }

    fn paths_that_overlap_count_once_for_the_set(fs: &Filesystem) {
        let tree = fs.dir("tree");
        write(tree.join("file"), &bytes(1, 300 * KIB));
        fs::create_dir(tree.join("below")).expect("a directory can be made");
        write(tree.join("below/file"), &bytes(2, 500 * KIB));
        symlink(&tree, fs.join("link")).expect("a symlink can be made");
        // The file has one name in the set. Meeting that name twice must not count as two names.
        write(tree.join("below/linked"), &bytes(3, 100 * KIB));
        fs::hard_link(tree.join("below/linked"), fs.join("outside")).expect("a hard link can be made");
        let once = du(&[&tree]);
        let (below, file) = (tree.join("below"), tree.join("below/file"));
        let linked = tree.join("below/linked");
        let often = du(&[&file, &below, &tree, &fs.join("link"), &tree, &file, &linked]);
        for field in ["files", "apparent_bytes", "disk_bytes", "exclusive_bytes", "shared_bytes"] {
            let set = format!("set_{field}");
            assert_eq!(often.summary[&set], once.summary[&set], "{field}");
            assert_eq!(often.rows[2][field], once.rows[0][field], "{field}");
            assert_eq!(often.rows[3][field], once.rows[0][field], "a link that is named is followed: {field}");
        }
        assert_eq!(freed_data(&often.summary), freed_data(&once.summary));
        assert_eq!(number(&often.rows[0], "apparent_bytes"), 500 * 1024);
        assert_eq!(number(&often.rows[1], "apparent_bytes"), 600 * 1024);
        // The parent directory of a named file does not count.
        let alone = du(&[&file]);
        assert_eq!(number(&alone.summary, "set_disk_bytes"), 500 * 1024);
        assert_eq!(number(&alone.summary, "set_files"), 1);
    }

    fn what_cannot_be_measured_is_named_and_the_others_are_shown(fs: &Filesystem) {
        let tree = fs.dir("tree");
        write(tree.join("file"), &bytes(1, 64 * KIB));
        let pipe = tree.join("pipe");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).expect("a pipe can be made");
        let run = pleach([OsStr::new("du"), "--json".as_ref(), fs.join("missing").as_ref(), tree.as_ref()]).expect(3);
        let run = run.saying("missing").saying("No such file");
        assert_eq!(number(&paths(&run)[0], "apparent_bytes"), 64 * 1024);
        assert_eq!(number(&run.summary(), "errors"), 1);
        assert_eq!(run.summary()["set_freed_is"], "exact", "what is not there takes nothing");
        // A pipe holds nothing, and the command does not wait for its writer.
        assert_eq!(number(&du(&[&pipe]).rows[0], "apparent_bytes"), 0);
        assert_eq!(number(&du(&[&fs.dir("empty")]).rows[0], "files"), 0);
        pleach([OsStr::new("du"), fs.join("missing").as_ref()]).expect(1);
    }

    fn a_filesystem_without_extent_maps_is_told_of_once(fs: &Filesystem) {
        let tree = fs.dir("tree");
        write(tree.join("file"), &bytes(1, 64 * KIB));
        let memory = tempfile::tempdir_in("/dev/shm").expect("/dev/shm is a tmpfs");
        for name in ["one", "two"] {
            write(memory.path().join(name), &bytes(1, 100 * KIB));
        }
        let named = [&*tree, memory.path(), Path::new("/proc/self/status")];
        let run = finish(command(["du", "--json"]).args(named)).expect(3).saying("tmpfs keeps no extent maps");
        assert_eq!(run.stderr.matches("no extent maps").count(), 2, "one of tmpfs, one of procfs:\n{}", run.stderr);
        let lines = paths(&run);
        assert_eq!(number(&lines[0], "apparent_bytes"), 64 * 1024);
        assert_eq!(number(&lines[1], "disk_bytes"), 200 * 1024, "by its blocks");
        assert_eq!(number(&lines[1], "exclusive_bytes"), 0);
        // Other tests write to the filesystem meanwhile.
        assert_ne!(run.summary()["set_freed_is"], "exact");
    }

    fn each_filesystem_is_synced_once_or_not_at_all(fs: &Filesystem) {
        let (one, two) = (fs.dir("one"), fs.dir("two"));
        write(one.join("file"), &bytes(1, 64 * KIB));
        let log = fs.join("log");
        let calls = tools::traced_calls("syncfs", &["du".as_ref(), one.as_ref(), two.as_ref()], &log);
        assert_eq!(calls.iter().filter(|call| call.contains("syncfs(")).count(), 1, "{calls:?}");
        let calls = tools::traced_calls("syncfs", &["du".as_ref(), "--no-sync".as_ref(), one.as_ref()], &log);
        assert!(!calls.iter().any(|call| call.contains("syncfs(")), "{calls:?}");
    }

    // This makes it fast.
    [btrfs] fn no_file_is_opened_or_looked_at_where_trees_can_be_read(fs: &Filesystem) {
        let tree = fs.dir("tree");
        for number in 0..20 {
            write(tree.join(format!("file {number}")), &bytes(number, 5000));
        }
        let calls = tools::traced_calls("%file,ioctl,%desc", &["du".as_ref(), tree.as_ref()], &fs.join("log"));
        let is_of_a_file = |call: &&String| call.contains("\"file ") || call.contains("tree/file");
        let touched: Vec<_> = calls.iter().filter(is_of_a_file).collect();
        assert!(touched.is_empty(), "{touched:?}");
    }

    fn several_filesystems_add_up(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (here, there) = (fs.dir("tree"), other.dir("tree"));
        write(here.join("file"), &bytes(1, 64 * KIB));
        write(there.join("file"), &bytes(1, 128 * KIB));
        let both = du(&[&here, &there]);
        let apart = [du(&[&here]), du(&[&there])];
        for field in ["set_apparent_bytes", "set_disk_bytes", "set_exclusive_bytes", "set_files"] {
            let sum: u64 = apart.iter().map(|one| number(&one.summary, field)).sum();
            assert_eq!(number(&both.summary, field), sum, "{field}");
        }
        let sum: u64 = apart.iter().map(|one| freed_data(&one.summary)).sum();
        assert_eq!(freed_data(&both.summary), sum);
        assert_settled(fs, &both.summary);
    }

    fn people_get_a_table_and_what_deleting_frees(fs: &Filesystem) {
        let (one, two) = (fs.dir("one"), fs.dir("two"));
        write(one.join("file"), &bytes(1, 64 * KIB));
        write(two.join("file"), &bytes(2, 64 * KIB));
        let run = pleach([OsStr::new("du"), one.as_ref(), two.as_ref()]).expect(0);
        let lines: Vec<_> = run.stdout.lines().collect();
        let [head, first, second, set, freed] = &lines[..] else { panic!("five lines:\n{}", run.stdout) };
        let titles: Vec<_> = head.split_whitespace().collect();
        assert_eq!(titles, ["apparent", "on", "disk", "exclusive", "shared", "path"]);
        assert!(first.contains("64.0 KiB") && first.ends_with("/one"), "{first}");
        assert!(second.ends_with("/two"), "{second}");
        assert!(set.contains("128.0 KiB") && set.ends_with("all of them together"), "{set}");
        assert!(freed.starts_with("deleting frees "), "{freed}");
    }

    // Each of these shapes alone, and all of them together, exact to the byte.
    [btrfs] fn figures_are_those_of_btrfs_filesystem_du(fs: &Filesystem) {
        let tree = fs.dir("tree");
        shapes(&tree);
        write(fs.join("outside"), &bytes(7, MIB));
        clone(&fs.join("outside"), &tree.join("held outside"));
        let mut paths = tools::files(&tree);
        paths.extend([tree.clone(), tree.join("dir"), fs.path().to_path_buf()]);
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        for path in &paths {
            assert_eq!(ours(&du(&[path]).rows[0]), theirs(path), "{}", path.display());
        }
        // And as rows of one run.
        let together = du(&paths);
        for (path, row) in paths.iter().zip(&together.rows) {
            assert_eq!(ours(row), theirs(path), "{}", path.display());
        }
        // The method without the right to read trees gives the same result if nothing is compressed.
        let mut bound = Command::new("setpriv");
        bound.args(["--inh-caps=-all", "--bounding-set=-sys_admin"]).arg(env!("CARGO_BIN_EXE_pleach"));
        let bound = finish(bound.args(["du", "--json"]).args(&paths)).expect(0);
        for (path, row) in paths.iter().zip(&bound.json()) {
            assert_eq!(ours(row), theirs(path), "{}", path.display());
        }
    }

    [btrfs] fn an_extent_of_which_a_part_is_left_is_freed_whole(fs: &Filesystem) {
        let file = fs.join("file");
        tools::write_in_one_extent(&file, &bytes(1, MIB));
        overwrite(&file, 256 * KIB, 512 * KIB);
        let found = du(&[&file]);
        assert_eq!(number(&found.summary, "set_disk_bytes"), MIB as u64);
        assert_eq!(number(&found.summary, "set_freed_bytes"), (MIB + 512 * KIB) as u64);
        // While another file holds any part of the extent, deleting frees none of it.
        let other = fs.join("other");
        let args = ["-f", "-c", &format!("reflink {} 0 0 64k", file.display())];
        tools::tool("xfs_io", &args, &other);
        assert_eq!(number(&du(&[&file]).summary, "set_freed_bytes"), 512 * 1024);
        assert_eq!(number(&du(&[&file, &other]).summary, "set_freed_bytes"), (MIB + 512 * KIB) as u64);
    }

    [btrfs] fn an_extent_may_have_more_references_than_its_item_has_room_for(fs: &Filesystem) {
        let tree = fs.dir("tree");
        write(tree.join("0"), &bytes(1, 64 * KIB));
        let original = File::open(tree.join("0")).expect("a file can be opened");
        for number in 1..400 {
            let clone = File::create(tree.join(number.to_string())).expect("a file can be made");
            rustix::fs::ioctl_ficlone(&clone, &original).expect("a file can be cloned");
        }
        let found = du(&[&tree]);
        assert_eq!(ours(&found.rows[0]), theirs(&tree));
        assert_eq!(ours(&found.rows[0]), [400 * 64 * 1024, 0, 64 * 1024]);
        assert_eq!(number(&found.summary, "set_freed_bytes"), 64 * 1024);
        fs::rename(tree.join("399"), fs.join("outside")).expect("a file can be moved");
        assert_eq!(number(&du(&[&tree]).summary, "set_freed_bytes"), 0);
    }

    [btrfs] fn inline_files_take_no_blocks_of_their_own(fs: &Filesystem) {
        let file = fs.join("tiny");
        write(&file, b"beside the metadata");
        let found = du(&[&file]);
        assert_eq!((number(&found.rows[0], "disk_bytes"), number(&found.rows[0], "inline_bytes")), (0, 19));
        assert_eq!(number(&found.summary, "set_freed_bytes"), 0);
    }
}

/// The output of `du --json`.
struct Found {
    rows: Vec<Value>,
    summary: Value,
}

/// The figure is exact. On XFS its own trees may be in doubt, because they have many blocks after other tests; `own`
/// asks for exact figures on a fresh XFS.
#[track_caller]
fn assert_settled(fs: &Filesystem, summary: &Value) {
    let is_doubtful = fs.kind == Kind::Xfs && summary["set_freed_is"] == "about";
    assert!(is_doubtful || summary["set_freed_is"] == "exact", "{summary}");
}

#[track_caller]
fn du(paths: &[&Path]) -> Found {
    let run = finish(command(["du", "--json"]).args(paths)).expect(0);
    let mut rows = run.json();
    let summary = rows.pop().expect("there is a summary");
    assert_eq!((&summary["type"], &summary["command"]), (&Value::from("summary"), &Value::from("du")));
    assert!(rows.iter().all(|row| row["type"] == "path"), "{rows:?}");
    assert_eq!(rows.len(), paths.len());
    Found { rows, summary }
}

/// The lines for paths, without those for problems.
fn paths(run: &Run) -> Vec<Value> {
    run.lines_of_type("path")
}

/// Total, exclusive and shared bytes.
fn ours(row: &Value) -> [u64; 3] {
    ["disk_bytes", "exclusive_bytes", "shared_bytes"].map(|field| number(row, field))
}

/// The same figures, from Btrfs's own tool.
#[track_caller]
fn theirs(path: &Path) -> [u64; 3] {
    let run = tools::tool("btrfs", &["filesystem", "du", "-s", "--raw"], path);
    let line = run.stdout.lines().last().expect("a line for the path");
    let mut words = line.split_whitespace();
    [(); 3].map(|()| words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("a figure in {line:?}")))
}

/// The space that deleting the set would free, without inodes and trees: XFS frees inodes in chunks, and other tests
/// may use the same chunks.
fn freed_data(summary: &Value) -> u64 {
    let parts = ["set_freed_inode_bytes", "set_freed_metadata_bytes"];
    number(summary, "set_freed_bytes") - parts.iter().map(|part| number(summary, part)).sum::<u64>()
}

/// The size in whole MiB; the rest is directories and other small entries.
#[track_caller]
fn whole_mebibytes(value: &Value, field: &str) -> u64 {
    let bytes = number(value, field);
    assert!(bytes % (1 << 20) < 256 << 10, "{field}: {bytes}");
    bytes >> 20
}

/// Files with all shapes of extents.
fn shapes(dir: &Path) {
    fs::create_dir(dir.join("dir")).expect("a directory can be made");
    write(dir.join("empty"), b"");
    write(dir.join("tiny"), b"beside the metadata");
    write(dir.join("unaligned"), &bytes(1, 70_001));
    write(dir.join("whole"), &bytes(2, MIB));
    write(dir.join("dir/file"), &bytes(3, 300 * KIB));
    fs::hard_link(dir.join("dir/file"), dir.join("second name")).expect("a hard link can be made");
    symlink("whole", dir.join("link")).expect("a symlink can be made");
    clone(&dir.join("whole"), &dir.join("dir/clone"));
    clone(&dir.join("whole"), &dir.join("changed clone"));
    overwrite(&dir.join("changed clone"), 128 * KIB, 20 * KIB);
    let sparse = File::create(dir.join("sparse")).expect("a file can be made");
    sparse.write_all_at(&bytes(4, 9000), 5 << 20).expect("a file can be written");
    sparse.set_len(64 << 20).expect("a file can end in a hole");
    let reserved = File::create(dir.join("reserved")).expect("a file can be made");
    rustix::fs::fallocate(&reserved, rustix::fs::FallocateFlags::empty(), 0, 1 << 20).expect("space can be reserved");
    reserved.write_all_at(&bytes(5, 10_000), 64 << 10).expect("a file can be written");
    let overwritten = dir.join("overwritten");
    write(&overwritten, &bytes(6, MIB));
    synced(&overwritten);
    overwrite(&overwritten, 256 * KIB, 64 * KIB);
    overwrite(&overwritten, 900 * KIB, 124 * KIB);
}

fn synced(path: &Path) {
    File::open(path).and_then(|file| file.sync_all()).expect("a file can be synced");
}

#[track_caller]
fn overwrite(path: &Path, offset: usize, length: usize) {
    let file = File::options().write(true).open(path).expect("a file can be opened");
    let seed = file.metadata().expect("it is there").ino() + offset as u64;
    file.write_all_at(&bytes(seed, length), offset as u64).expect("a file can be written");
}
