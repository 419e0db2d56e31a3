//! `pleach fiemap --owners`: every file that holds an extent, compared with the filesystem's own tools.

mod own;

use crate::harness::*;
use crate::on_filesystems;
use pleach::testing::reflink::clone_range;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;

on_filesystems! {
    [xfs, btrfs] fn every_file_that_holds_an_extent_is_named(fs: &Filesystem) {
        let fs = &fs.alone();
        let file = fs.join("file");
        tools::write_in_one_extent(&file, &bytes(1, 2 << 20));
        let dir = fs.dir("elsewhere/deep");
        clone(&file, &dir.join("whole"));
        fs::hard_link(dir.join("whole"), fs.join("link")).expect("a link can be made");
        clone_part(&file, &dir.join("part"), MIB, MIB, 0);
        write(dir.join("copy"), &bytes(1, 2 << 20));
        let rows = owners(&file);
        let expected = ["file", "elsewhere/deep/whole", "link", "elsewhere/deep/part"].map(|name| fs.join(name));
        assert_eq!(paths(&rows), BTreeSet::from(expected));
        let part = rows.iter().find(|row| row.path.ends_with("part")).expect("the part is there");
        assert_eq!((part.logical, part.length, &*part.part), (0, MIB, "this"));
        let first = owners(&dir.join("part"));
        assert_eq!(paths(&first), paths(&rows), "asked from the other side");
        assert!(first.iter().all(|row| row.physical == part.physical && row.length == MIB), "{first:?}");
    }

    [xfs, btrfs] fn a_file_that_shares_nothing_is_held_by_itself(fs: &Filesystem) {
        let fs = &fs.alone();
        let file = fs.join("file");
        write(&file, &bytes(2, 300_000));
        assert_eq!(paths(&owners(&file)), BTreeSet::from([file.clone()]));
        let table = listed(&file, &[]).stdout;
        assert!(table.contains("held by this file alone"), "{table}");
        write(fs.join("empty"), b"");
        assert!(listed(&fs.join("empty"), &[]).stdout.contains("no extent with an address"));
    }

    [xfs, btrfs] fn a_deleted_file_that_is_still_open_is_an_owner_without_a_name(fs: &Filesystem) {
        let fs = &fs.alone();
        let (file, gone) = (fs.join("file"), fs.join("gone"));
        tools::write_in_one_extent(&file, &bytes(3, 1 << 20));
        clone(&file, &gone);
        let open = File::open(&gone).expect("a file can be opened");
        let inode = open.metadata().expect("a file has a status").ino();
        fs::remove_file(&gone).expect("a file can be deleted");
        // Btrfs removes the name with its next transaction.
        finish(Command::new("sync").arg("-f").arg(&file)).expect(0);
        let lines = listed(&file, &["--json"]).json();
        let nameless: Vec<_> = lines.iter().filter(|line| line["deleted"] == true).collect();
        assert_eq!(nameless.len(), 1, "{lines:#?}");
        assert_eq!((number(nameless[0], "inode"), nameless[0].get("path")), (inode, None));
        let table = listed(&file, &[]).stdout;
        assert!(table.contains(&format!("inode {inode}")) && table.contains("deleted, still open"), "{table}");
        drop(open);
    }

    [xfs, btrfs] fn only_root_learns_who_holds_an_extent(fs: &Filesystem) {
        let fs = &fs.alone();
        let file = fs.join("file");
        tools::write_in_one_extent(&file, &bytes(4, 100_000));
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_pleach")]);
        let run = finish(command.args(["fiemap", "--owners"]).arg(&file)).expect(3).saying("run as root");
        assert!(run.stdout.contains("1 extent"), "the extents are shown all the same: {}", run.stdout);
    }

    [ext4] fn where_the_filesystem_keeps_no_map_that_is_said(fs: &Filesystem) {
        let file = fs.join("file");
        write(&file, &bytes(5, 100_000));
        let run = pleach([OsStr::new("fiemap"), "--owners".as_ref(), "--json".as_ref(), file.as_ref()]).expect(3);
        let run = run.saying("ext4 keeps no map from blocks to files");
        assert!(run.json().iter().any(|line| line["type"] == "extent"));
        assert_eq!(number(&run.summary(), "errors"), 1);
    }

    [xfs] fn a_file_without_extents_that_can_be_told_is_named_beside_the_others(fs: &Filesystem) {
        let fs = &fs.alone();
        let (file, memory) =
            (fs.join("file"), tempfile::NamedTempFile::new_in("/dev/shm").expect("a file can be made"));
        write(&file, &bytes(5, 100_000));
        let args = ["fiemap", "--owners", "--json"].map(OsStr::new);
        let run = pleach(args.into_iter().chain([memory.path().as_os_str(), file.as_os_str()])).expect(3);
        let run = run.saying("keeps no extent maps");
        assert_eq!(paths(&rows(&run)), BTreeSet::from([file]));
    }

    [xfs] fn owners_are_not_told_in_the_formats_of_others(fs: &Filesystem) {
        let fs = &fs.alone();
        let file = fs.join("file");
        write(&file, &bytes(5, 100_000));
        for format in ["filefrag", "xfs_io"] {
            let args = ["fiemap", "--owners", "--format", format].map(OsStr::new);
            pleach(args.into_iter().chain([file.as_os_str()])).expect(2).saying("--owners");
        }
    }

    [xfs, btrfs] fn owners_of_files_below_a_directory_are_told_file_by_file(fs: &Filesystem) {
        let fs = &fs.alone();
        let dir = fs.dir("dir");
        for name in ["a", "b"] {
            tools::write_in_one_extent(&dir.join(name), &bytes(name.len() as u64, 200_000));
        }
        clone(&dir.join("a"), &fs.join("outside"));
        let lines = listed(&dir, &["--json"]).json();
        let told: Vec<_> = lines.iter().map(|line| (line["type"].as_str(), line["path"].as_str()))
            .filter(|(kind, _)| *kind != Some("warning")).collect();
        let [a, b, outside] = ["dir/a", "dir/b", "outside"].map(|name| fs.join(name).display().to_string());
        let expected = [("extent", &a), ("file", &a), ("owner", &a), ("owner", &outside), ("owners", &a)]
            .into_iter().chain([("extent", &b), ("file", &b), ("owner", &b), ("owners", &b)])
            .map(|(kind, path)| (Some(kind), Some(path.as_str())));
        assert_eq!(told[..told.len() - 1], expected.collect::<Vec<_>>());
    }

    [xfs, btrfs] fn hostile_names_reach_no_terminal_and_every_script(fs: &Filesystem) {
        let fs = &fs.alone();
        let file = fs.join("file");
        write(&file, &bytes(6, 200_000));
        let hostile = fs.join(OsStr::from_bytes(b"a\n\x1b[31m\xff"));
        clone(&file, &hostile);
        let table = listed(&file, &[]).stdout;
        assert!(table.contains(r"a\n\x1b[31m\xff"), "{table}");
        let lines = listed(&file, &["--json"]).json();
        let encoded = data_encoding::BASE64.encode(hostile.as_os_str().as_bytes());
        assert!(lines.iter().any(|line| line["path_base64"] == *encoded), "{lines:#?}");
    }

    [xfs, btrfs] fn an_inode_of_many_names_is_told_by_all_of_them(fs: &Filesystem) {
        let fs = &fs.alone();
        let (file, dir) = (fs.join("file"), fs.dir("dir"));
        write(&file, &bytes(7, 200_000));
        clone(&file, &dir.join("first"));
        let mut expected = BTreeSet::from([file.clone(), dir.join("first")]);
        // More than fit into the kernel's 4 KiB, and into one item of a Btrfs.
        for i in 0..200 {
            let link = dir.join(format!("{i}-{}", "n".repeat(200)));
            fs::hard_link(dir.join("first"), &link).expect("a link can be made");
            expected.insert(link);
        }
        assert_eq!(paths(&owners(&file)), expected);
    }

    [btrfs] fn who_holds_another_part_of_an_extent_is_told_apart(fs: &Filesystem) {
        let fs = &fs.alone();
        let (file, head, tail) = (fs.join("file"), fs.join("head"), fs.join("tail"));
        tools::write_in_one_extent(&file, &bytes(9, 1 << 20));
        clone_part(&file, &head, 0, 65536, 0);
        clone_part(&file, &tail, 524_288, 65536, 0);
        // Nobody holds the rest of the extent now, but it stays allocated for these two.
        fs::remove_file(&file).expect("a file can be deleted");
        let rows = owners(&head);
        let told: Vec<_> = rows.iter().map(|row| (row.path.clone(), &*row.part)).collect();
        assert_eq!(told, [(head.clone(), "this"), (tail.clone(), "other")]);
        assert_eq!(rows[1].physical - rows[0].physical, 524_288);
        let table = listed(&head, &[]).stdout;
        assert!(table.contains("held by this file alone; 1 file more with other parts"), "{table}");
        assert!(table.contains("tail (another part of the extent)"), "{table}");
    }

    [btrfs] fn owners_of_compressed_extents_hold_what_they_hold(fs: &Filesystem) {
        let fs = &fs.alone();
        let file = fs.join("file");
        File::create(&file).expect("a file can be made");
        finish(Command::new("btrfs").args(["property", "set"]).arg(&file).args(["compression", "zstd"])).expect(0);
        write_at(&file, &b"compress me ".repeat(30_000), 0);
        let (head, tail) = (fs.join("head"), fs.join("tail"));
        finish(Command::new("sync").arg("-f").arg(&file)).expect(0);
        clone_part(&file, &head, 0, 16384, 0);
        clone_part(&file, &tail, 65536, 65536, 4096);
        let flags = &listed(&file, &["--json"]).json()[0]["flags"];
        assert!(flags.to_string().contains("encoded"), "{flags}");
        let first: Vec<_> =
            owners(&file).into_iter().filter(|row| row.logical == 0 || !row.path.ends_with("file")).collect();
        let told: BTreeSet<_> =
            first.iter().map(|row| (row.path.clone(), row.logical, row.length, &*row.part)).collect();
        let expected =
            [(file.clone(), 0, 131_072, "this"), (head.clone(), 0, 16384, "this"), (tail.clone(), 4096, 65536, "this")];
        assert_eq!(told, BTreeSet::from(expected));
        assert!(first.iter().all(|row| row.physical == first[0].physical), "the address is the extent's: {first:?}");
        let told: BTreeSet<_> = owners(&head).into_iter().map(|row| (row.path, row.part)).collect();
        let expected = [(head, "this"), (file, "this"), (tail, "other")].map(|(path, part)| (path, part.to_string()));
        assert_eq!(told, BTreeSet::from(expected));
    }

    [xfs] fn a_name_hidden_below_another_mount_is_not_made_up(fs: &Filesystem) {
        let fs = &fs.alone();
        let (file, dir) = (fs.join("file"), fs.dir("hidden"));
        write(&file, &bytes(10, 200_000));
        clone(&file, &dir.join("clone"));
        let inode = fs::metadata(dir.join("clone")).expect("the clone is there").ino();
        finish(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&dir)).expect(0);
        write(dir.join("clone"), b"another one");
        let lines = listed(&file, &["--json"]);
        let table = listed(&file, &[]).stdout;
        finish(Command::new("umount").arg(&dir)).expect(0);
        let hidden = lines.json().into_iter().find(|line| line["inode"] == inode).expect("its inode is reported");
        assert_eq!((hidden.get("path"), &hidden["type"]), (None, &"owner".into()));
        assert!(table.contains(&format!("inode {inode} (its name was not found)")), "{table}");
    }
}

/// A line of type "owner".
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    path: PathBuf,
    inode: u64,
    logical: u64,
    physical: u64,
    length: u64,
    part: String,
}

/// Runs `fiemap --owners` successfully.
#[track_caller]
fn listed(file: &Path, options: &[&str]) -> Run {
    let args = ["fiemap", "--owners"].into_iter().chain(options.iter().copied()).map(OsStr::new);
    pleach(args.chain([file.as_os_str()])).expect(0)
}

#[track_caller]
fn owners(file: &Path) -> Vec<Row> {
    rows(&listed(file, &["--json"]))
}

#[track_caller]
fn rows(run: &Run) -> Vec<Row> {
    let lines = run.json();
    let row = |line: &Value| Row {
        path: line["path"].as_str().unwrap_or_else(|| panic!("no path in {line}")).into(),
        inode: number(line, "inode"),
        logical: number(line, "logical"),
        physical: number(line, "physical"),
        length: number(line, "length"),
        part: line["part"].as_str().expect("a part is a word").into(),
    };
    let rows: Vec<_> = lines.iter().filter(|line| line["type"] == "owner").map(row).collect();
    assert!(!rows.is_empty(), "{lines:#?}");
    rows
}

fn paths(rows: &[Row]) -> BTreeSet<PathBuf> {
    rows.iter().map(|row| row.path.clone()).collect()
}

#[track_caller]
fn clone_part(from: &Path, to: &Path, offset: u64, length: u64, at: u64) {
    let source = File::open(from).expect("a file can be opened");
    let target = File::options().create(true).truncate(false).write(true).open(to).expect("a file can be made");
    clone_range(source, offset, length, target, at).expect("a range can be cloned");
}

#[track_caller]
fn write_at(path: &Path, content: &[u8], offset: u64) {
    let file = File::options().write(true).open(path).expect("a file can be opened");
    file.write_all_at(content, offset).expect("a file can be written");
}
