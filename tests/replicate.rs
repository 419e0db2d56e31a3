//! `pleach replicate`, `send` and `receive`: the snapshots of one repository come into another one. `cut` interrupts
//! transfers and damages streams.

mod bounds;
mod commands;
mod cut;
mod hostile;
mod kills;
mod latest;
mod meanwhile;
mod mutated;
mod planned;
mod sample;
mod ssh;
mod unreached;
mod wire;

use crate::harness::json_lines::Line;
use crate::harness::mounted::Mounted;
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const MIB: u64 = 1 << 20;

/// The summary of `replicate` and `receive`.
#[derive(Debug, Deserialize)]
struct Sums {
    snapshots: u64,
    sent_bytes: u64,
    shared_bytes: u64,
    stream_bytes: u64,
    wire_bytes: u64,
}

impl Line for Sums {
    const TYPE: &'static str = "summary";
}

#[track_caller]
fn sums(run: &Run) -> Sums {
    run.lines().pop().expect("a summary")
}

#[track_caller]
fn replicate(from: &Path, to: &Path) -> Sums {
    sums(&pleach([OsStr::new("replicate"), "--json".as_ref(), from.as_ref(), to.as_ref()]).expect(0))
}

fn take(name: &str, source: &Path, repo: &Path) {
    settle();
    pleach(snapshot_named(name, source, repo)).expect(0);
}

/// A repository with three snapshots of a tree with entries of every kind, which changes in every way.
fn repository(fs: &Filesystem) -> PathBuf {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    for dir in ["every", "gone/deep", "new/deep"] {
        fs.dir(Path::new("source").join(dir));
    }
    tree::every_kind(&source.join("every"));
    write(source.join("image"), &bytes(1, 3 << 20));
    write(source.join("gone/deep/file"), &bytes(2, 9000));
    write(source.join("moved"), &bytes(3, 300_000));
    fs::hard_link(source.join("moved"), source.join("second name")).unwrap();
    take("one", &source, &repo);
    overwrite(&source.join("image"), 1 << 20, &bytes(4, 50_000));
    fs::remove_dir_all(source.join("gone")).unwrap();
    fs::rename(source.join("moved"), source.join("every/moved here")).unwrap();
    write(source.join("new/deep/file"), &bytes(5, 20_000));
    take("two", &source, &repo);
    fs::File::options().write(true).open(source.join("image")).unwrap().set_len(2 << 20).unwrap();
    fs::remove_file(source.join("new/deep/file")).unwrap();
    fs::create_dir(source.join("new/deep/file")).unwrap();
    take("three", &source, &repo);
    repo
}

/// The same snapshots are in both, with equal trees, and the copy is sound.
#[track_caller]
fn assert_replica(from: &Path, to: &Path) {
    assert_eq!(listed(to), listed(from));
    for name in listed(from) {
        tools::assert_equal_trees(&from.join(&name), &to.join(&name));
    }
    pleach([OsStr::new("verify"), "-q".as_ref(), to.as_os_str()]).expect(0);
    assert_no_leftovers(to);
    assert_eq!(fs::read_link(to.join("latest")).unwrap(), fs::read_link(from.join("latest")).unwrap());
}

on_filesystems! {
    fn a_replica_has_the_same_snapshots_on_any_filesystem(fs: &Filesystem) {
        let repo = repository(fs);
        for kind in [Kind::Xfs, Kind::Btrfs, Kind::Ext4] {
            let other = Filesystem::open(kind, "replicate::other").expect("all three are mounted");
            let to = other.join("replica");
            assert_eq!(replicate(&repo, &to).snapshots, 3);
            assert_replica(&repo, &to);
            let again = replicate(&repo, &to);
            assert_eq!((again.snapshots, again.sent_bytes), (0, 0));
            assert!(again.wire_bytes < 3 << 10, "{again:?}");
        }
    }

    fn a_changed_block_costs_a_block_and_an_unchanged_file_nothing(fs: &Filesystem) {
        let (source, repo, to) = (fs.dir("source"), fs.join("repo"), fs.join("to"));
        write(source.join("image"), &bytes(1, 8 << 20));
        (0..500).for_each(|number| write(source.join(format!("file-{number}")), &bytes(number, 5000)));
        take("one", &source, &repo);
        replicate(&repo, &to);
        overwrite(&source.join("image"), 3 << 20, &bytes(2, 4096));
        take("two", &source, &repo);
        let sent = replicate(&repo, &to);
        // Btrfs may show the rest of a divided extent as moved.
        assert!((4096..=2 * 4096).contains(&sent.sent_bytes), "{sent:?}");
        assert!(sent.stream_bytes < sent.sent_bytes + 2000, "{sent:?}");
        assert_replica(&repo, &to);
    }

    fn a_directory_may_become_a_mount_point_and_a_plain_one_again(fs: &Filesystem) {
        let (source, repo, to, other) = (fs.dir("source"), fs.join("repo"), fs.join("to"), fs.elsewhere());
        for dir in ["a", "b", "c"] {
            write(fs.dir(Path::new("source").join(dir)).join("file"), &bytes(1, 9000));
        }
        fs::hard_link(source.join("b/file"), source.join("c/of b")).unwrap();
        write(other.join("file"), &bytes(2, 9000));
        take("one", &source, &repo);
        replicate(&repo, &to);
        let mounted = Mounted::bind(other.path(), &source.join("a"));
        // The first name of this inode stays as it is.
        fs::rename(source.join("c"), source.join("d")).unwrap();
        take("two", &source, &repo);
        assert_eq!(replicate(&repo, &to).snapshots, 1);
        drop(mounted);
        fs::rename(source.join("d"), source.join("c")).unwrap();
        take("three", &source, &repo);
        assert_eq!(replicate(&repo, &to).snapshots, 1);
        assert_replica(&repo, &to);
    }

    fn a_repository_on_a_read_only_filesystem_is_sent(fs: &Filesystem) {
        let test = concat!(module_path!(), "::a_repository_on_a_read_only_filesystem_is_sent");
        let Some(mut own) = Own::new(fs.kind, test, 512, &[], "") else { return };
        let (source, repo, to) = (own.join("source"), own.join("repo"), fs.join("to"));
        fs::create_dir(&source).unwrap();
        write(source.join("file"), &bytes(1, 100_000));
        take("one", &source, &repo);
        own.remount_with("ro");
        assert_eq!(replicate(&repo, &to).snapshots, 1);
        assert_replica(&repo, &to);
    }

    fn renames_and_changes_of_metadata_cost_no_data(fs: &Filesystem) {
        let (source, repo, to) = (fs.dir("source"), fs.join("repo"), fs.join("to"));
        fs.dir("source/old/deep");
        (0..40).for_each(|number| write(source.join(format!("old/deep/{number}")), &bytes(number, 60_000)));
        write(source.join("image"), &bytes(100, 8 << 20));
        write(source.join("log"), &bytes(101, 3 << 20));
        take("one", &source, &repo);
        replicate(&repo, &to);
        fs::rename(source.join("old"), source.join("another")).unwrap();
        fs::rename(source.join("image"), source.join("another/picture")).unwrap();
        fs::set_permissions(source.join("log"), fs::Permissions::from_mode(0o600)).unwrap();
        take("two", &source, &repo);
        let sent = replicate(&repo, &to);
        assert_eq!(sent.sent_bytes, 0, "{sent:?}");
        assert_replica(&repo, &to);
    }

    [btrfs] fn a_file_with_other_metadata_stays_the_same_inode_where_the_tree_began_with_the_base(fs: &Filesystem) {
        let (source, repo, to) = (fs.dir("source"), fs.join("repo"), fs.join("to"));
        write(source.join("file"), &bytes(1, 100_000));
        take("one", &source, &repo);
        fs::set_permissions(source.join("file"), fs::Permissions::from_mode(0o600)).unwrap();
        take("two", &source, &repo);
        replicate(&repo, &to);
        assert_replica(&repo, &to);
        let inode = |name| fs::metadata(inside(&to, name, &source).join("file")).unwrap().ino();
        assert_eq!(inode("one"), inode("two"));
    }

    [xfs, btrfs] fn a_renamed_or_cloned_image_costs_what_changed_in_it(fs: &Filesystem) {
        let (source, repo, to) = (fs.dir("source"), fs.join("repo"), fs.join("to"));
        write(source.join("image"), &bytes(1, 8 << 20));
        write(source.join("template"), &bytes(2, 8 << 20));
        take("one", &source, &repo);
        replicate(&repo, &to);
        fs::rename(source.join("image"), source.join("renamed")).unwrap();
        overwrite(&source.join("renamed"), 1 << 20, &bytes(3, 4096));
        clone(&source.join("template"), &source.join("machine"));
        overwrite(&source.join("machine"), 2 << 20, &bytes(4, 4096));
        take("two", &source, &repo);
        let sent = replicate(&repo, &to);
        // Btrfs may show the rest of a divided extent as moved.
        assert!((2 * 4096..=4 * 4096).contains(&sent.sent_bytes), "{sent:?}");
        assert_replica(&repo, &to);
    }

    [xfs, btrfs] fn data_that_files_share_is_sent_once_and_shared_again(fs: &Filesystem) {
        let (source, repo, to) = (fs.dir("source"), fs.join("repo"), fs.join("to"));
        write(source.join("one"), &bytes(1, 4 << 20));
        settle();
        clone(&source.join("one"), &source.join("two"));
        overwrite(&source.join("two"), 1 << 20, &bytes(2, 1 << 20));
        take("first", &source, &repo);
        let sent = replicate(&repo, &to);
        assert_eq!((sent.sent_bytes, sent.shared_bytes), (5 * MIB, 3 * MIB));
        assert_replica(&repo, &to);
        let inside = inside(&to, "first", &source);
        assert!(tools::extents(&inside.join("two")).iter().any(tools::Extent::is_shared));
    }

    fn a_stream_in_a_file_brings_a_snapshot_and_its_difference(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        for (name, base) in [("one", None), ("two", Some("one")), ("three", Some("two"))] {
            let file = fs.join("stream");
            let mut send = command(["send"]);
            send.arg(&repo).arg(name).stdout(fs::File::create(&file).unwrap());
            send.args(base.iter().flat_map(|base| ["--base", base]));
            finish(&mut send).expect(0);
            let mut receive = command(["receive", "--json"]);
            receive.arg(&to).stdin(fs::File::open(&file).unwrap());
            assert_eq!(sums(&finish(&mut receive).expect(0)).snapshots, 1);
        }
        assert_replica(&repo, &to);
    }

    [xfs] fn a_stream_that_cannot_be_written_was_not_sent(fs: &Filesystem) {
        let repo = repository(fs);
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        // Nothing can be written to a descriptor that is only open for reading.
        for stdout in [full, fs::File::open("/dev/null").unwrap()] {
            let mut send = command(["send"]);
            finish(send.arg(&repo).arg("one").stdout(stdout)).expect(1).saying("cannot send the stream");
        }
    }

    [xfs] fn a_tree_that_lost_its_manifest_is_not_passed_over_in_silence(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        fs::remove_file(repo.join(".pleach/manifests/two")).unwrap();
        let run = pleach([OsStr::new("replicate"), repo.as_ref(), to.as_ref()]).expect(0);
        run.saying(repo.join("two").to_str().unwrap());
        assert_eq!(listed(&to), ["one", "three"]);
    }

    [xfs] fn streams_that_follow_each_other_are_all_received(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        let (one, two) = (stream(&repo, "one", None), stream(&repo, "two", Some("one")));
        assert_eq!(sums(&receive(&to, &[&one[..], &two].concat(), &["--json"]).expect(0)).snapshots, 2);
        assert_eq!(listed(&to), ["one", "two"]);
        let other = fs.join("other");
        receive(&other, &[&one[..], b"junk"].concat(), &[]).expect(1).saying("ends too early");
        // A snapshot that is there already is passed over.
        receive(&other, &[&one[..], &two, &one, b"no stream at all"].concat(), &[]).expect(1).saying("find a stream");
        assert_eq!(listed(&other), ["one", "two"]);
    }

    [xfs] fn a_difference_needs_its_base(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        let run = receive(&to, &stream(&repo, "two", Some("one")), &[]).expect(1);
        run.saying(&format!("cannot find the snapshot one, which the stream is based on, in {}", to.display()));
        // Another snapshot of that name is not a base.
        take("one", &fs.dir("other source"), &to);
        receive(&to, &stream(&repo, "two", Some("one")), &[]).expect(1).saying("it is another one");
        let run = receive(&to, &stream(&repo, "one", None), &[]).expect(1);
        run.saying(&format!("cannot receive the snapshot one into {}", to.display()));
        assert_eq!(listed(&to), ["one"]);
        let run = pleach([OsStr::new("replicate"), repo.as_ref(), to.as_ref()]).expect(1);
        run.saying("another snapshot of this name");
    }

    [xfs] fn a_restricted_receiver_only_adds_to_its_repository(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        let stream = stream(&repo, "one", None);
        receive(&to, &stream, &["--restrict"]).expect(1).saying("find a repository").saying("receive --init");
        assert!(!to.exists());
        (0..2).for_each(|_| drop(pleach([OsStr::new("receive"), "--init".as_ref(), to.as_ref()]).expect(0)));
        receive(&to, &stream, &["--restrict", "--append-only"]).expect(0);
        receive(&to, &self::stream(&repo, "two", Some("one")), &["--restrict", "--append-only"]).expect(0);
        assert_eq!(listed(&to), ["one", "two"]);
    }
}

/// The stream of a snapshot.
#[track_caller]
fn stream(repo: &Path, name: &str, base: Option<&str>) -> Vec<u8> {
    let mut send = command(["send"]);
    send.arg(repo).arg(name).stderr(Stdio::inherit());
    send.args(base.iter().flat_map(|base| ["--base", base]));
    let output = send.output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// Runs `receive` with this input.
fn receive(to: &Path, stream: &[u8], options: &[&str]) -> Run {
    let mut receive = command(["receive"]);
    receive.args(options).arg(to).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = receive.spawn().unwrap();
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(stream);
    Run::new(child.wait_with_output().unwrap(), "pleach receive".into())
}
