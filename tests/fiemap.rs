//! `pleach fiemap`: the kernel's extents, as xfs_io reports them, and files that cannot be mapped.

use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOCK: u64 = 4096;

on_filesystems! {
    fn extents_are_those_that_xfs_io_sees(fs: &Filesystem) {
        // More than one call of the kernel returns.
        write_every_other_block(&fs.join("scattered"), 2000);
        write(fs.join("whole"), &bytes(1, 3 << 20));
        write(fs.join("tiny"), b"beside the metadata, on some filesystems");
        write(fs.join("empty"), b"");
        File::create(fs.join("hole")).and_then(|file| file.set_len(1 << 20)).expect("a file can be all hole");
        reserve(&fs.join("reserved"), 1 << 20);
        if fs.reflinks() {
            clone(&fs.join("whole"), &fs.join("clone"));
            overwrite(&fs.join("clone"), 1 << 20, &bytes(99, 5 * BLOCK as usize));
        }
        for file in tools::files(fs.path()) {
            assert_eq!(ours(&file), theirs(&file), "{}", file.display());
        }
    }

    fn the_file_object_sums_up_its_extents(fs: &Filesystem) {
        let file = fs.join("file");
        write_every_other_block(&file, 100);
        let run = pleach([OsStr::new("fiemap"), "--json".as_ref(), file.as_ref()]).expect(0);
        let lines = run.json();
        let [.., of_file, summary] = &lines[..] else { panic!("too few lines: {lines:?}") };
        assert_eq!(of_file["type"], "file");
        assert_eq!(of_file["path"].as_str(), file.to_str());
        assert_eq!(number(of_file, "size"), fs::metadata(&file).expect("it is there").len());
        assert_eq!(number(of_file, "extents") as usize, lines.len() - 2);
        assert_eq!(number(of_file, "shared_bytes"), 0);
        assert_eq!(summary["command"], "fiemap");
    }

    [xfs] fn of_a_directory_every_file_below_is_mapped(fs: &Filesystem) {
        let dir = fs.dir("dir");
        write(dir.join("b"), &bytes(1, 5000));
        fs::create_dir(dir.join("a")).expect("a directory can be made");
        write(dir.join("a/file"), &bytes(2, 5000));
        std::os::unix::fs::symlink("b", dir.join("link")).expect("a link can be made");
        let run = pleach([OsStr::new("fiemap"), "--json".as_ref(), dir.as_ref()]).expect(0);
        let lines = run.json();
        let files: Vec<_> =
            lines.iter().filter(|line| line["type"] == "file").map(|line| line["path"].as_str()).collect();
        assert_eq!(files, [dir.join("a/file").to_str(), dir.join("b").to_str()]);
        pleach([OsStr::new("fiemap"), fs.dir("empty").as_ref()]).expect(1).saying("find a regular file below");
    }

    [xfs, btrfs] fn shared_bytes_are_those_that_a_clone_has_kept(fs: &Filesystem) {
        let (original, copy) = (fs.join("original"), fs.join("copy"));
        write(&original, &bytes(1, 1 << 20));
        clone(&original, &copy);
        assert_eq!(shared_bytes(&copy), 1 << 20);
        overwrite(&copy, 128 << 10, &bytes(99, 4 * BLOCK as usize));
        assert_eq!(shared_bytes(&copy), (1 << 20) - 4 * BLOCK);
        fs::remove_file(&original).expect("a file can be removed");
        // The kernel drops old extents in the background.
        assert!(eventually(|| shared_bytes(&copy) == 0), "nobody else holds the blocks any more");
    }

    [btrfs] fn inline_data_has_no_address_and_is_not_shared(fs: &Filesystem) {
        let (original, copy) = (fs.join("original"), fs.join("copy"));
        write(&original, b"small");
        clone(&original, &copy);
        let run = pleach([OsStr::new("fiemap"), "--json".as_ref(), copy.as_ref()]).expect(0);
        let extent = &run.json()[0];
        assert_eq!(extent["physical"], Value::Null);
        assert!(flags(extent).contains(&"data_inline".to_string()), "{extent}");
        assert_eq!(shared_bytes(&copy), 0);
    }

    [xfs] fn data_is_written_out_first_unless_told_not_to(fs: &Filesystem) {
        // Another test may sync the filesystem in between.
        let mut fresh = (1..50).map(|number| {
            let file = fs.join(format!("fresh-{number}"));
            write(&file, &bytes(number, 1 << 20));
            let run = pleach([OsStr::new("fiemap"), "--json".as_ref(), "--no-sync".as_ref(), file.as_ref()]).expect(0);
            (file, run.json()[0].clone())
        });
        let (file, extent) =
            fresh.find(|(_, extent)| extent["physical"].is_null()).expect("one is not on the disk yet");
        assert!(flags(&extent).contains(&"delalloc".to_string()), "{extent}");
        let run = pleach([OsStr::new("fiemap"), "--json".as_ref(), file.as_ref()]).expect(0);
        assert!(run.json()[0]["physical"].is_u64());
    }

    fn the_table_shows_holes_and_aligns_its_columns(fs: &Filesystem) {
        let file = fs.join("file");
        let content = File::create(&file).expect("a file can be made");
        content.write_all_at(&bytes(1, 8192), 1 << 20).expect("a file can be written");
        content.set_len(3 << 20).expect("a file can end in a hole");
        let run = pleach([OsStr::new("fiemap"), file.as_ref()]).expect(0);
        let lines: Vec<&str> = run.stdout.lines().collect();
        assert_eq!(lines[0], format!("{}: 3,145,728 bytes (3.0 MiB)", file.display()));
        let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
        assert_eq!(words(lines[1]), ["logical", "physical", "length", "flags"]);
        assert_eq!(words(lines[2]), ["0", "hole", "1.0", "MiB"]);
        assert_eq!(words(lines[3])[0], "1,048,576");
        assert_eq!(words(lines[4]), ["1,056,768", "hole", "2.0", "MiB"]);
        assert_eq!(lines[5..], ["1 extent, 0 B shared"]);
        let two = pleach([OsStr::new("fiemap"), file.as_ref(), file.as_ref(), "-q".as_ref()]).expect(0);
        assert_eq!(two.stdout, format!("{}\n{}", run.stdout, run.stdout), "an empty line is between files");
        let ends: Vec<_> =
            lines[2..5].iter().map(|line| line.find(&words(line)[1]).map(|at| at + words(line)[1].len())).collect();
        assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "the numbers end in one column:\n{}", run.stdout);
    }

    [xfs] fn what_is_no_regular_file_is_named_and_never_opened(fs: &Filesystem) {
        let tree = fs.dir("tree");
        tree::every_kind(&tree);
        let good = tree.join("large");
        for (name, words) in [
            ("missing", "no such file"),
            ("nodes", "find a regular file below"),
            ("nodes/fifo", "it is a named pipe"),
            ("nodes/null", "it is a character device"),
            ("nodes/disk", "it is a block device"),
            ("nodes/socket", "it is a socket"),
            ("links/dangling", "no such file"),
        ] {
            let bad = tree.join(name);
            let run = pleach([OsStr::new("fiemap"), bad.as_ref(), good.as_ref()]).expect(3).saying(words).saying(name);
            assert!(run.stdout.contains(&*good.to_string_lossy()), "the other file is shown beside {name}");
            pleach([OsStr::new("fiemap"), bad.as_ref()]).expect(1).saying(words);
        }
        let run = pleach([OsStr::new("fiemap"), "--json".as_ref(), tree.join("links/good").as_ref()]).expect(0);
        assert_eq!(number(&run.json()[run.json().len() - 2], "size"), 3 << 20, "a link is followed");
    }

    [xfs] fn many_unreadable_directories_are_a_few_lines_and_their_number(fs: &Filesystem) {
        let dir = fs.dir("dir");
        write(dir.join("file"), &bytes(1, 5000));
        for number in 0..20 {
            let closed = fs.dir(format!("dir/closed-{number}"));
            fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000))
                .expect("a mode can be set");
        }
        let run = finish(&mut command_bound_by_permissions([OsStr::new("fiemap"), dir.as_ref()])).expect(3);
        assert!(
            run.stderr.contains(&format!("cannot list {}/closed-0: Permission denied\n", dir.display())),
            "{}",
            run.stderr
        );
        assert_eq!(run.stderr.lines().count(), 6, "{}", run.stderr);
        run.saying("15 more like this: cannot list: Permission denied");
        let run = finish(&mut command_bound_by_permissions([OsStr::new("fiemap"), "--json".as_ref(), dir.as_ref()]))
            .expect(3);
        let errors = run.lines::<json_lines::Problem>();
        assert!(errors.iter().all(|error| error.code == "permission-denied" && error.path.is_some()), "{errors:?}");
        assert_eq!((errors.len() as u64, number(&run.summary(), "errors")), (20, 20));
    }

    [xfs] fn an_unreadable_file_is_named(fs: &Filesystem) {
        let file = fs.join("closed");
        write(&file, b"secret");
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o000)).expect("a mode can be set");
        let mut command = command_bound_by_permissions([OsStr::new("fiemap"), file.as_ref()]);
        finish(&mut command).expect(1).saying("closed: Permission denied");
    }

    [xfs] fn a_file_without_an_extent_map_is_named_and_the_others_are_shown(fs: &Filesystem) {
        let file = fs.join("file");
        write(&file, &bytes(1, 5000));
        let args = [OsStr::new("fiemap"), "--json".as_ref(), "/proc/self/status".as_ref(), file.as_ref()];
        let run = pleach(args).expect(3).saying("/proc/self/status").saying("keeps no extent maps");
        assert_eq!(number(&run.summary(), "files"), 1);
        assert_eq!(number(&run.summary(), "errors"), 1);
    }
}

/// An extent as xfs_io reports it: logical, physical, length in units of 512 bytes, flags.
type Told = (u64, Option<u64>, u64, u32);

#[track_caller]
fn theirs(file: &Path) -> Vec<Told> {
    let placeless = |flags: u32| flags & 0x206 != 0;
    let extents = tools::extents(file).into_iter();
    extents.map(|e| (e.logical, (!placeless(e.flags)).then_some(e.physical), e.length, e.flags)).collect()
}

#[track_caller]
fn ours(file: &Path) -> Vec<Told> {
    let run = pleach([OsStr::new("fiemap"), "--json".as_ref(), file.as_ref()]).expect(0);
    let lines = run.json();
    let extents = lines.iter().filter(|line| line["type"] == "extent");
    let sectors = |extent: &Value, field: &str| number(extent, field) / 512;
    extents
        .map(|extent| {
            let physical = extent["physical"].as_u64().map(|bytes| bytes / 512);
            (sectors(extent, "logical"), physical, sectors(extent, "length"), bits(&flags(extent)))
        })
        .collect()
}

fn flags(extent: &Value) -> Vec<String> {
    let names = extent["flags"].as_array().expect("flags are a list").iter();
    names.map(|name| name.as_str().expect("a flag is a name").to_string()).collect()
}

/// The kernel's bits, written out a second time so that a wrong name is noticed.
fn bits(names: &[String]) -> u32 {
    let bit = |name: &str| match name {
        "last" => 0x1,
        "unknown" => 0x2,
        "delalloc" => 0x4,
        "encoded" => 0x8,
        "data_encrypted" => 0x80,
        "not_aligned" => 0x100,
        "data_inline" => 0x200,
        "data_tail" => 0x400,
        "unwritten" => 0x800,
        "merged" => 0x1000,
        "shared" => 0x2000,
        other => panic!("no flag is called {other:?}"),
    };
    names.iter().map(|name| bit(name)).sum()
}

#[track_caller]
fn shared_bytes(file: &Path) -> u64 {
    let run = pleach([OsStr::new("fiemap"), "--json".as_ref(), file.as_ref()]).expect(0);
    number(&run.summary(), "shared_bytes")
}

fn eventually(condition: impl Fn() -> bool) -> bool {
    (0..100).any(|_| {
        condition() || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            false
        }
    })
}

fn write_every_other_block(path: &Path, blocks: u64) {
    let file = File::create(path).expect("a file can be made");
    for block in 0..blocks {
        file.write_all_at(&bytes(block, BLOCK as usize), block * 2 * BLOCK).expect("a file can be written");
    }
}

fn reserve(path: &Path, length: u64) {
    let file = File::create(path).expect("a file can be made");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length).expect("space can be reserved");
}
