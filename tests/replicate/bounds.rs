//! What a stream can make the receiver use: memory, descriptors, and the disk.

use super::wire::*;
use super::{assert_replica, receive, replicate, stream, take};
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use rustix::fs::FileType;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;

/// Runs `receive` with this much memory (bytes) and this many descriptors at most.
fn receive_within(to: &Path, stream: &[u8], (memory, files): (u64, u32)) -> Run {
    let mut command = Command::new("prlimit");
    command.arg(format!("--data={memory}")).arg(format!("--nofile={files}"));
    command.arg(env!("CARGO_BIN_EXE_pleach")).arg("receive").arg(to);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(stream);
    Run::new(child.wait_with_output().unwrap(), "pleach receive".into())
}

/// A directory or entry with long attributes.
fn with_long_attributes(op: Op, prefix: &str, count: usize) -> Op {
    let long = (0..count).map(|number| (format!("{prefix}{number}").into_bytes().into(), vec![7; 1 << 16].into()));
    match op {
        Op::Directory { replaces, directory, .. } => Op::Directory { replaces, directory, xattrs: long.collect() },
        Op::Entry { replaces, entry, content, .. } => Op::Entry { replaces, entry, content, xattrs: long.collect() },
        other => other,
    }
}

on_filesystems! {
    fn a_deep_tree_needs_few_descriptors_and_little_memory(fs: &Filesystem) {
        let to = fs.join("to");
        let paths: Vec<Vec<u8>> = (1..=2500).map(|depth| vec![&b"d"[..]; depth].join(&b'/')).collect();
        let entries = paths.iter().flat_map(|path| [directory(path), new(file(b"f", 0), Content::InRecord)]);
        let entries: Vec<Op> = entries.collect();
        let stream = Draft::new("one", None).and_all(entries.clone()).end();
        receive_within(&to, &stream, (100 * MIB, 100)).expect(0);
        let items: Vec<_> = entries.into_iter().map(|op| match op {
            Op::Directory { directory, .. } => pleach::testing::manifest::Item::Directory(directory),
            Op::Entry { entry, .. } => pleach::testing::manifest::Item::Entry(entry),
            _ => unreachable!("only records"),
        }).collect();
        let stream = Draft::new("two", Some(("one", [1; 32]))).same(&items).end();
        receive_within(&to, &stream, (100 * MIB, 100)).expect(0);
        pleach(["verify".as_ref(), "-q".as_ref(), to.as_os_str()]).expect(0);
    }

    fn long_attributes_are_refused_before_they_fill_the_memory(fs: &Filesystem) {
        let to = fs.join("to");
        let path = |depth| vec![&b"d"[..]; depth].join(&b'/');
        let deep = (1..=12).map(|depth| with_long_attributes(directory(&path(depth)), "system.x", 450));
        let stream = Draft::new("one", None).and_all(deep).end();
        receive_within(&to, &stream, (300 * MIB, 200)).expect(4).saying("the attributes of directories are too long");
        assert_eq!(names(&to.join(".pleach/incoming")), [""; 0]);
    }

    [ext4] fn attributes_that_neither_tree_nor_record_takes_are_reported(fs: &Filesystem) {
        let to = fs.join("to");
        let entry = with_long_attributes(new(file(b"f", 0), Content::InRecord), "user.x", 450);
        let stream = Draft::new("one", None).and(directory(b"d")).and(entry).end();
        receive_within(&to, &stream, (300 * MIB, 200)).saying("/d/f");
        assert_eq!(listed(&to), ["one"]);
    }

    [xfs] fn a_message_needs_no_more_memory_than_its_limit(fs: &Filesystem) {
        let to = fs.join("to");
        let lengths = [31_u32 << 20, 33 << 20, u32::MAX];
        for length in lengths {
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.resize(bytes.len() + (40 << 20), 1);
            let run = receive_within(&to, &framed(&bytes, true), (300 * MIB, 100));
            assert_eq!(run.status, 4, "{run:?}");
        }
        // Each element takes many times its bytes in the stream.
        let offer = vec![(String::new(), [0; 32]); 1 << 16];
        let mut draft = Draft::empty();
        (0..20).for_each(|_| draft.push(&Op::Offer(offer.clone())));
        receive_within(&to, &draft.stream.encode(true), (300 * MIB, 100)).expect(4);
    }

    [xfs] fn devices_and_set_id_files_are_kept_as_they_are(fs: &Filesystem) {
        let to = fs.join("to");
        let mut program = file(b"program", 0);
        program.meta.mode = FileType::RegularFile.as_raw_mode() | 0o6755;
        let null = node(b"null", FileType::CharacterDevice, pleach::testing::manifest::Body::Device(1, 3));
        let draft = Draft::new("one", None).and(directory(b"d"));
        let draft = draft.and(new(null, Content::InRecord)).and(new(program, Content::InRecord));
        receive(&to, &draft.end(), &[]).expect(0);
        assert!(fs::metadata(to.join("one/d/null")).unwrap().file_type().is_char_device());
        assert_eq!(fs::metadata(to.join("one/d/program")).unwrap().permissions().mode() & 0o7777, 0o6755);
        // Nobody else may reach them.
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o700);
    }

    [xfs, btrfs] fn a_full_disk_stops_a_transfer_and_more_space_lets_it_go_on(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("a"), &bytes(1, 40 << 20));
        write(source.join("b"), &bytes(2, 120 << 20));
        take("one", &source, &repo);
        let kind = if fs.reflinks() && fs.path().to_string_lossy().contains("btrfs") { Kind::Btrfs } else { Kind::Xfs };
        let Some(own) = Own::new(kind, "a_full_disk", 600, &[], "") else { return };
        let (to, filler) = (own.join("to"), own.join("filler"));
        let free = disk_space::free_bytes(own.path());
        let file = fs::File::create(&filler).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, free - (130 << 20)).unwrap();
        drop(file);
        let run = pleach([OsStr::new("replicate"), repo.as_ref(), to.as_ref()]).expect(1);
        run.saying("free some space");
        assert_eq!(published(&to), Vec::<String>::new());
        // Still full.
        pleach([OsStr::new("replicate"), repo.as_ref(), to.as_ref()]).expect(1);
        disk_space::give_back(&filler);
        let sent = replicate(&repo, &to);
        assert!(sent.sent_bytes <= (160 - 24) << 20, "{sent:?}");
        assert_replica(&repo, &to);
    }

    [xfs] fn a_wrong_clock_loses_nothing(fs: &Filesystem) {
        let to = fs.join("to");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
        let dated = |name: &str, seconds| {
            let draft = Draft::new(name, None).beginning(|begin| begin.header.created.seconds = seconds);
            draft.and(directory(b"d")).end()
        };
        // The receiver's clock is two hours late, or the sender's is fast.
        let ahead = dated("ahead", now + 7200);
        receive(&to, &ahead, &["--append-only"]).expect(1).saying("is a clock wrong");
        assert_eq!(listed(&to), [""; 0]);
        receive(&to, &dated("near", now + 1800), &["--append-only"]).expect(0);
        receive(&to, &dated("past", 1), &["--append-only"]).expect(0);
        receive(&to, &ahead, &[]).expect(0);
        assert_eq!(listed(&to), ["past", "near", "ahead"]);
        // A transfer continues whatever the clock said when it began.
        let length = 80_u64 << 20;
        let draft = Draft::new("cut", None).and(directory(b"d"));
        let draft = draft.and(new(file(b"b", length), Content::Parts { start: None }));
        let draft = draft.and(Op::Data { offset: 0, length });
        for time in ["1999-01-01", "2099-01-01"] {
            receive(&to, &draft.clone().bytes(&bytes(1, 70 << 20)).stream.encode(false), &[]).expect(1);
            let position = to.join(".pleach/incoming/cut/position");
            finish(Command::new("touch").args(["-d", time]).arg(&position)).expect(0);
            receive(&to, &Draft::empty().and(Op::Bye).stream.encode(false), &[]).expect(0);
            assert!(position.exists());
        }
    }

    fn an_ordinary_user_receives_what_only_root_can_read(fs: &Filesystem) {
        let (source, repo, own) = (fs.dir("source"), fs.join("repo"), fs.dir("own"));
        tree::every_kind(&fs.dir("source/every"));
        fs.dir("source/closed/deep");
        write(source.join("closed/deep/file"), &bytes(1, 9000));
        write(source.join("secret"), &bytes(2, 9000));
        let modes = [("secret", 0o000), ("closed/deep/file", 0o200), ("closed/deep", 0o000), ("closed", 0o300)];
        for (path, mode) in modes {
            fs::set_permissions(source.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        take("one", &source, &repo);
        fs::rename(source.join("secret"), source.join("renamed")).unwrap();
        take("two", &source, &repo);
        std::os::unix::fs::chown(&own, Some(65_534), Some(65_534)).unwrap();
        let to = own.join("to");
        let as_nobody = |args: &[&str], input: &[u8]| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_pleach")]);
            command.args(args).arg(&to).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let _ = child.stdin.take().unwrap().write_all(input);
            Run::new(child.wait_with_output().unwrap(), format!("pleach {args:?}"))
        };
        as_nobody(&["receive"], &stream(&repo, "one", None)).expect(0);
        as_nobody(&["receive"], &stream(&repo, "two", Some("one"))).expect(0);
        as_nobody(&["verify", "-q"], b"").expect(0);
        let target = fs.dir("target");
        let restore = [OsStr::new("restore"), "-q".as_ref(), "--target".as_ref(), target.as_ref()];
        pleach(restore.into_iter().chain([to.as_os_str(), "two".as_ref()])).expect(0);
        let restored = target.join(source.strip_prefix("/").unwrap());
        tools::assert_equal_trees(&source, &restored);
    }
}
