//! `pleach probe`: the capabilities of filesystems, compared with known facts and other programs.

mod bench;

use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

on_filesystems! {
    fn each_filesystem_shows_what_it_can_do(fs: &Filesystem) {
        let items = probe(fs.path());
        let name = match fs.kind {
            Kind::Btrfs => "Btrfs",
            Kind::Ext4 => "ext4",
            _ => "XFS",
        };
        assert_eq!(items("filesystem"), name);
        assert_eq!(items("user"), "root");
        for shares in ["reflink", "dedupe"] {
            assert_eq!(items(shares), fs.reflinks(), "{shares}");
        }
        assert_eq!(items("copy_file_range"), if fs.reflinks() { "clones" } else { "copies" });
        assert_eq!(items("copy_keeps_holes"), fs.reflinks());
        for all in [
            "fiemap",
            "holes",
            "punch_hole",
            "unwritten",
            "unnamed_files",
            "nanosecond_times",
            "user_xattrs",
            "trusted_xattrs",
            "acls",
        ] {
            assert_eq!(items(all), true, "{all}");
        }
        assert_eq!(items("read_only"), false);
        assert_eq!(items("name_length"), 255);
        let stat = finish(Command::new("stat").args(["-f", "-c", "%s"]).arg(fs.path())).expect(0);
        assert_eq!(items("block_size").to_string(), stat.stdout.trim());
        let point = finish(Command::new("findmnt").args(["-n", "-o", "TARGET", "--target"]).arg(fs.path())).expect(0);
        assert_eq!(items("mount_point"), point.stdout.trim());
    }

    fn nothing_of_a_probe_stays(fs: &Filesystem) {
        let dir = fs.dir("dir");
        write(dir.join("file"), b"mine");
        let before = tools::inventory(&dir);
        pleach([OsStr::new("probe"), dir.as_ref()]).expect(0);
        assert_eq!(tools::inventory(&dir), before);
        assert_eq!(names(&dir), ["file"]);
    }

    fn the_table_says_what_each_answer_means(fs: &Filesystem) {
        let run = pleach([OsStr::new("probe"), fs.path().as_ref()]).expect(0);
        let line = run.stdout.lines().find(|line| line.starts_with("reflink")).expect("there is a row for reflinks");
        let means = if fs.reflinks() { "can share their data" } else { "cannot share data" };
        assert!(line.contains(means), "{line}");
        let answers = probe_lines(fs.path(), 0);
        assert!(answers.iter().all(|item| item["means"].as_str().is_some_and(|means| means.len() > 10)), "{answers:?}");
    }

    [xfs] fn a_file_stands_for_its_directory(fs: &Filesystem) {
        let file = fs.join("file");
        write(&file, b"content");
        std::os::unix::fs::symlink(&file, fs.join("link")).expect("a link can be made");
        finish(Command::new("mkfifo").arg(fs.join("fifo"))).expect(0);
        for name in ["file", "link", "fifo"] {
            assert_eq!(probe(&fs.join(name))("filesystem"), "XFS", "{name}");
        }
        let here = finish(command(["probe", "--json", "file"]).current_dir(fs.path())).expect(0);
        assert_eq!(here.json()[0]["value"], "XFS");
    }

    [xfs] fn what_is_not_there_is_no_place_to_look_at(fs: &Filesystem) {
        write(fs.join("file"), b"content");
        pleach([OsStr::new("probe"), fs.join("missing").as_ref()]).expect(1).saying("no such file");
        pleach([OsStr::new("probe"), fs.join("file/below").as_ref()]).expect(1).saying("not a directory");
        pleach(["probe"]).expect(2);
    }

    fn where_nothing_may_be_written_the_rest_is_told_and_that_is_said(fs: &Filesystem) {
        let dir = fs.dir("closed");
        let args = [OsStr::new("probe"), "--json".as_ref(), dir.as_ref()];
        let run = finish(&mut command_as_nobody(args)).expect(3).saying("test file").saying("permission denied");
        assert!(number(&run.summary(), "open") > 10, "{}", run.summary());
        let lines = run.json();
        let items = |name: &str| value(&lines, name);
        assert_eq!(items("reflink"), Value::Null);
        assert_eq!(items("user"), "uid 65534");
        assert_eq!(items("read_only"), false);
        assert!(items("space_free").as_u64().is_some_and(|bytes| bytes > 0));
        assert_eq!(names(&dir), [""; 0]);
    }

    fn an_ordinary_user_learns_what_that_user_may(fs: &Filesystem) {
        let dir = fs.dir("open");
        std::os::unix::fs::chown(&dir, Some(65534), Some(65534)).expect("an owner can be set");
        let args = [OsStr::new("probe"), "--json".as_ref(), dir.as_ref()];
        let run = finish(&mut command_as_nobody(args)).expect(0);
        let lines = run.json();
        let items = |name: &str| value(&lines, name);
        assert_eq!(items("dedupe"), fs.reflinks());
        assert_eq!(items("trusted_xattrs"), false);
        assert_eq!(items("acls"), true);
        if fs.kind == Kind::Btrfs {
            assert_eq!((items("snapshots"), items("snapshot_deletion")), (false.into(), false.into()));
        }
    }

    [btrfs] fn a_subvolume_is_told_with_what_may_be_done_to_it(fs: &Filesystem) {
        let (subvolume, snapshot) = (fs.join("subvolume"), fs.join("snapshot"));
        subvolumes(&["subvolume", "create"], &[&subvolume]);
        let dir = subvolume.join("a/b");
        fs::create_dir_all(&dir).expect("directories can be made");
        std::os::unix::fs::chown(&subvolume, Some(65534), Some(65534)).expect("an owner can be set");
        subvolumes(&["subvolume", "snapshot", "-r"], &[&subvolume, &snapshot]);
        let items = probe(&dir);
        let id = finish(Command::new("btrfs").args(["inspect-internal", "rootid"]).arg(&dir)).expect(0);
        assert_eq!(items("subvolume").to_string(), id.stdout.trim());
        assert_eq!(items("subvolume_read_only"), false);
        let run = finish(&mut command_as_nobody([OsStr::new("probe"), "--json".as_ref(), dir.as_ref()]));
        assert_eq!(value(&run.json(), "snapshots"), true, "its owner may");

        let lines = probe_lines(&snapshot, 3);
        assert_eq!(value(&lines, "subvolume_read_only"), true);
        assert_eq!(value(&lines, "reflink"), Value::Null, "nothing can be tried in a read-only snapshot");
        subvolumes(&["property", "set", "-ts"], &[&snapshot, Path::new("ro"), Path::new("false")]);
    }

    [btrfs] fn a_directory_whose_files_are_written_in_place_is_told(fs: &Filesystem) {
        let dir = fs.dir("nocow");
        finish(Command::new("chattr").arg("+C").arg(&dir)).expect(0);
        assert_eq!(probe(&dir)("copy_on_write"), false);
        assert_eq!(probe(fs.path())("copy_on_write"), true);
    }

    [xfs] fn filesystems_in_memory_and_of_the_kernel_are_told_for_what_they_are(fs: &Filesystem) {
        let _ = fs;
        let items = probe(Path::new("/dev/shm"));
        assert_eq!(
            (items("filesystem"), items("reflink"), items("fiemap")),
            ("tmpfs".into(), false.into(), false.into())
        );
        let run = pleach(["probe", "--json", "/proc"]).expect(3).saying("/proc");
        assert_eq!(value(&run.json(), "filesystem"), "proc");
    }
}

#[test]
fn an_xfs_tells_how_it_was_made() {
    for (mkfs, reflink, map) in [("rmapbt=1,reflink=1", true, true), ("rmapbt=0,reflink=0", false, false)] {
        let Some(own) = Own::new(Kind::Xfs, "probe::an_xfs_tells_how_it_was_made", 400, &["-m", mkfs], "noatime")
        else {
            return;
        };
        let items = probe(own.path());
        let told = finish(Command::new("xfs_info").arg(own.path())).expect(0).stdout;
        assert_eq!(told.contains("rmapbt=1"), map, "{told}");
        assert_eq!((items("reflink"), items("reverse_map")), (reflink.into(), map.into()), "{mkfs}");
        assert_eq!((items("dedupe"), items("access_times")), (reflink.into(), "noatime".into()), "{mkfs}");
    }
}

#[test]
fn a_read_only_mount_is_told_with_what_could_not_be_tried() {
    for kind in [Kind::Xfs, Kind::Btrfs, Kind::Ext4] {
        let Some(mut own) = Own::new(kind, "probe::a_read_only_mount_is_told", 400, &[], "") else { return };
        own.remount_with("ro");
        let run = pleach([OsStr::new("probe"), "--json".as_ref(), own.path().as_ref()]).expect(3);
        let run = run.saying("read-only file system").saying("stays open");
        let lines = run.json();
        assert_eq!((value(&lines, "read_only"), value(&lines, "reflink")), (true.into(), Value::Null), "{kind:?}");
        assert!(value(&lines, "space_free").is_u64());
    }
}

#[test]
fn mount_options_that_matter_are_told() {
    let options = "compress=zstd:5,noatime,user_subvol_rm_allowed";
    let Some(mut own) = Own::new(Kind::Btrfs, "probe::mount_options_that_matter_are_told", 400, &[], options) else {
        return;
    };
    let items = probe(own.path());
    assert_eq!((items("compression"), items("access_times")), ("zstd:5".into(), "noatime".into()));
    assert_eq!((items("checksums"), items("copy_on_write"), items("quota")), (true.into(), true.into(), "none".into()));
    own.remount_with("nodatasum");
    let items = probe(own.path());
    assert_eq!((items("checksums"), items("copy_on_write")), (false.into(), true.into()));
    own.remount_with("nodatacow,discard=sync");
    let items = probe(own.path());
    assert_eq!(
        (items("checksums"), items("copy_on_write"), items("compression")),
        (false.into(), false.into(), "none".into())
    );
    assert_eq!((items("reflink"), items("discard")), (true.into(), "sync".into()));
}

#[test]
fn an_overlay_is_tried_and_not_believed() {
    let Some(own) = Own::new(Kind::Xfs, "probe::an_overlay_is_tried_and_not_believed", 400, &[], "") else { return };
    for dir in ["lower", "upper", "work", "merged"] {
        fs::create_dir(own.join(dir)).expect("a directory can be made");
    }
    let at = |dir: &str| own.join(dir).display().to_string();
    let options = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
    let mounted = finish(Command::new("mount").args(["-t", "overlay", "-o", &options, "none"]).arg(own.join("merged")));
    if mounted.status != 0 {
        return skip("probe::an_overlay_is_tried_and_not_believed", mounted.stderr.trim());
    }
    let lines = probe_lines(&own.join("merged"), 0);
    finish(Command::new("umount").arg(own.join("merged"))).expect(0);
    assert_eq!(value(&lines, "filesystem"), "overlayfs");
    // Whatever the kernel of this machine allows, the answers are complete.
    assert!(value(&lines, "reflink").is_boolean() && value(&lines, "dedupe").is_boolean(), "{lines:?}");
    assert_eq!(names(&own.join("upper")), [""; 0]);
}

/// The items of `--json`.
#[track_caller]
fn probe_lines(path: &Path, status: i32) -> Vec<Value> {
    let run = pleach([OsStr::new("probe"), "--json".as_ref(), path.as_ref()]).expect(status);
    assert_eq!(run.summary()["command"], "probe");
    run.lines_of_type("probe")
}

/// The value of each item. No question may have stayed open.
#[track_caller]
fn probe(path: &Path) -> impl Fn(&str) -> Value + use<> {
    let lines = probe_lines(path, 0);
    move |name| value(&lines, name)
}

#[track_caller]
fn value(lines: &[Value], name: &str) -> Value {
    let item = lines.iter().find(|line| line["item"] == name);
    item.unwrap_or_else(|| panic!("no item {name} in {lines:#?}"))["value"].clone()
}

fn command_as_nobody(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(env!("CARGO_BIN_EXE_pleach")).args(args).env_remove("PLEACH_REPO");
    command
}

#[track_caller]
fn subvolumes(words: &[&str], paths: &[&Path]) {
    finish(Command::new("btrfs").args(words).args(paths)).expect(0);
}
