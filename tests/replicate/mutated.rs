//! Random damage inside the frames of a stream, with right digests: what somebody sends who knows the format. Whatever
//! arrives, the program ends with an error or adds a snapshot that is as its records say, and nothing else changes.

use super::hostile::outside;
use super::wire::*;
use super::{receive, stream, take};
use crate::harness::random::{Random, seed};
use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::Silent;
use pleach::snapshot::receive as engine;
use pleach::testing::manifest::Item;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// How many damaged streams are received.
pub(super) fn mutations() -> u64 {
    std::env::var("PLEACH_TEST_MUTATIONS").map_or(60, |number| number.parse().expect("a number"))
}

/// The most memory of a receiver, in bytes.
const MEMORY: u64 = 300 << 20;
/// One of this many streams goes through the program.
const THROUGH_THE_PROGRAM: u64 = 20;

impl Random {
    fn number(&mut self) -> u64 {
        let near = self.below(5000) as u64;
        *self.of(&[0, 1, 2, 4096, near, 1 << 20, 1 << 31, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, u64::MAX])
    }

    fn name(&mut self) -> Vec<u8> {
        let long = vec![b'x'; 70_000];
        let names: [&[u8]; 12] =
            [b"", b".", b"..", b"/", b"a", b"a/b", b"a/../../x", b"/etc/passwd", b"image", b"every", b"\0", &long];
        self.of(&names).to_vec()
    }
}

/// Changes one value of an operation.
fn change(op: &mut Op, random: &mut Random) {
    let (number, name) = (random.number(), random.name());
    let which = random.below(8);
    match op {
        Op::Offer(offered) => offered.push((String::from_utf8_lossy(&name).into(), [7; 32])),
        Op::Begin(begin) => match which {
            0 => begin.header.name = String::from_utf8_lossy(&name).into(),
            1 => begin.header.created.seconds = number as i64,
            2 => begin.base = None,
            3 => begin.position.records = number,
            4 => begin.position.offset = number,
            5 => begin.header.sources.push(name.into()),
            6 => begin.totals.files = number,
            _ => begin.identity[0] ^= 1,
        },
        Op::Device { old, new } => *(if which < 4 { old } else { new }) = number,
        Op::Same { count, .. } | Op::Gone { count } => *count = number,
        Op::Directory { replaces, directory, xattrs } => match which {
            0 => *replaces = !*replaces,
            1 => directory.path = name,
            2 => directory.scaffold = !directory.scaffold,
            3 => directory.meta.mode = number as u32,
            4 => directory.meta.mtime.nanos = number as u32,
            5 => directory.meta.flags = Some(number as u32),
            6 => xattrs.push((name.into(), vec![1; 300].into())),
            _ => directory.meta.uid = number as u32,
        },
        Op::Entry { replaces, entry, xattrs, content } => match which {
            0 => *replaces = !*replaces,
            1 => entry.name = name,
            2 => entry.meta.mode ^= 1 << random.below(17),
            3 => entry.meta.nlink = number,
            4 => *content = random.of(&contents(&name)).clone(),
            5 => match xattrs.iter_mut().find(|(name, _)| name.starts_with(b"system.posix_acl_")) {
                Some((_, list)) => {
                    let at = random.below(list.len());
                    list[at] ^= 1 << random.below(8);
                }
                None => xattrs.push((b"security.capability".to_vec().into(), name.into())),
            },
            6 => entry.meta.ino = number,
            _ => {
                use pleach::testing::manifest::Body;
                match &mut entry.body {
                    Body::File(file) => file.size = number,
                    Body::Symlink(target) => *target = name,
                    Body::Device(major, _) => *major = number as u32,
                    body => *body = Body::Symlink(name),
                }
            }
        },
        Op::Data { offset, length } | Op::Hole { offset, length } => {
            *(if which < 4 { offset } else { length }) = number;
        }
        Op::Clone { offset, length, from } => match which {
            0 | 1 => *offset = number,
            2 | 3 => *length = number,
            4 | 5 => from.offset = number,
            _ => from.path = name.into(),
        },
        Op::End { totals, .. } => totals.errors = number,
        Op::Complete | Op::Bye => {}
    }
}

fn contents(name: &[u8]) -> Vec<Content> {
    let place = |side| place(side, name);
    vec![
        Content::InRecord,
        Content::Of(place(Side::Base)),
        Content::Of(place(Side::New)),
        Content::LinkTo(name.to_vec().into()),
        Content::Parts { start: None },
        Content::Parts { start: Some(place(Side::New)) },
    ]
}

/// Damages a stream in one place.
fn damage(stream: &mut Stream, other: &Stream, random: &mut Random) {
    let parts = &mut stream.parts;
    if parts.is_empty() {
        return;
    }
    let at = random.below(parts.len());
    match random.below(12) {
        0 => drop(parts.remove(at)),
        1 => parts.insert(at, parts[at].clone()),
        2 => {
            let to = random.below(parts.len());
            parts.swap(at, to);
        }
        3 => parts.truncate(at),
        4 => parts.insert(at, random.of(&other.parts).clone()),
        5 => {
            let bytes = match &mut parts[at] {
                Part::Op(bytes) | Part::Bytes(bytes) => bytes,
            };
            bytes.truncate(random.below(bytes.len() + 1));
        }
        6 | 7 => {
            let bytes = match &mut parts[at] {
                Part::Op(bytes) | Part::Bytes(bytes) => bytes,
            };
            if !bytes.is_empty() {
                let place = random.below(bytes.len());
                bytes[place] ^= 1 << random.below(8);
            }
        }
        _ => {
            if let Some(mut op) = parts[at].op() {
                change(&mut op, random);
                parts[at] = Part::of(&op);
            }
        }
    }
}

/// Makes the digest of the records right. The stream is based on a snapshot with the records of `base`.
fn mend(stream: &mut Stream, base: &[Item]) {
    let mut draft = Draft::empty();
    let mut rest = base;
    for part in &mut stream.parts {
        match part.op() {
            Some(Op::Same { count, recheck }) => {
                let (now, later) = rest.split_at(rest.len().min(count as usize));
                let mut now = now.to_vec();
                for item in &mut now {
                    match item {
                        Item::Directory(directory) => directory.meta.recheck = recheck,
                        Item::Entry(entry) => entry.meta.recheck = recheck,
                    }
                }
                draft = draft.same(&now);
                rest = later;
            }
            Some(Op::Gone { count }) => rest = &rest[rest.len().min(count as usize)..],
            Some(op @ (Op::Directory { .. } | Op::Entry { .. })) => {
                let replaces = matches!(op, Op::Directory { replaces: true, .. } | Op::Entry { replaces: true, .. });
                rest = &rest[usize::from(replaces).min(rest.len())..];
                draft.push(&op);
            }
            Some(Op::End { totals, .. }) => *part = Part::of(&Op::End { totals, digest: draft.digest() }),
            _ => {}
        }
    }
}

fn records(stream: &Stream) -> Vec<Item> {
    let item = |op| match op {
        Op::Directory { directory, .. } => Some(Item::Directory(directory)),
        Op::Entry { entry, .. } => Some(Item::Entry(entry)),
        _ => None,
    };
    stream.parts.iter().filter_map(Part::op).filter_map(item).collect()
}

/// Runs the program with the stream, with no more memory than it may need.
fn through_the_program(to: &Path, stream: &[u8]) {
    let mut command = Command::new("prlimit");
    command.arg(format!("--data={MEMORY}")).arg(env!("CARGO_BIN_EXE_pleach")).args(["receive", "-q"]).arg(to);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(stream);
    let run = Run::new(child.wait_with_output().unwrap(), "pleach receive".into());
    assert!([0, 1, 4].contains(&run.status) && !run.stderr.contains("panicked"), "{run:?}");
}

/// Receives the stream in this process. Most end with an error; a panic fails the test.
fn here(to: &Path, stream: &[u8]) {
    let options = engine::Options { threads: Some(1), ..engine::Options::default() };
    let _ = engine::receive(to, stream, None, &options, &Silent);
}

on_filesystems! {
    [xfs, btrfs] fn a_stream_changed_inside_its_frames_adds_what_it_says_or_nothing(fs: &Filesystem) {
        let (source, repo, top) = (fs.dir("source"), fs.join("repo"), fs.dir("top"));
        let to = top.join("to");
        write(top.join("secret"), b"secret");
        tree::every_kind(&fs.dir("source/every"));
        write(source.join("image"), &bytes(1, 300_000));
        std::fs::hard_link(source.join("image"), source.join("second name")).unwrap();
        fs.dir("source/gone/deep");
        write(source.join("gone/deep/file"), &bytes(2, 9000));
        take("one", &source, &repo);
        overwrite(&source.join("image"), 100_000, &bytes(4, 5000));
        std::fs::remove_dir_all(source.join("gone")).unwrap();
        std::fs::rename(source.join("every"), source.join("new")).unwrap();
        if fs.reflinks() {
            clone(&source.join("image"), &source.join("zz"));
        }
        take("two", &source, &repo);
        let one = stream(&repo, "one", None);
        receive(&to, &one, &[]).expect(0);
        let base = records(&Stream::parse(&one));
        let seeds = [
            (Stream::parse(&stream(&repo, "two", None)), Vec::new()),
            (Stream::parse(&stream(&repo, "two", Some("one"))), base),
        ];
        // The parser and the digest are right.
        for (seed, base) in &seeds {
            let mut same = seed.clone();
            mend(&mut same, base);
            assert!(same == *seed);
        }
        let before = outside(&top);
        let seed = seed();
        let mut random = Random(seed);
        let mut added = 0;
        for number in 0..mutations() {
            let (good, base) = random.of(&seeds);
            let (other, _) = random.of(&seeds);
            let mut bad = good.clone();
            (0..=random.below(3)).for_each(|_| damage(&mut bad, other, &mut random));
            if random.fraction() < 0.6 {
                mend(&mut bad, base);
            }
            let bad = bad.encode(random.fraction() < 0.2);
            if number % THROUGH_THE_PROGRAM == 0 {
                through_the_program(&to, &bad);
            } else {
                here(&to, &bad);
            }
            let context = format!("stream {number} of PLEACH_TEST_SEED={seed}");
            for name in published(&to).iter().filter(|name| *name != "one") {
                // The tree has all that the records say, except for content: large parts are not read again.
                let verify = ["verify", "-q", "--quick"].map(OsStr::new);
                let run = pleach(verify.into_iter().chain([to.as_os_str(), name.as_ref()]));
                assert_eq!(run.status, 0, "{context}: {run:?}");
                pleach(["remove".as_ref(), "-q".as_ref(), to.as_os_str(), name.as_ref()]).expect(0);
                added += 1;
            }
            if outside(&top) != before || !names(&to.join(".pleach/incoming")).is_empty() {
                assert_same_lines(&outside(&top), &before);
                panic!("{context}: {:?}", names(&to.join(".pleach/incoming")));
            }
        }
        assert_eq!(names(&to.join(".pleach/manifests")), ["one"]);
        counted(mutations() as usize, "changed streams");
        report(&format!("{added} of {} changed streams added a snapshot (PLEACH_TEST_SEED={seed})", mutations()));
        pleach(["verify".as_ref(), "-q".as_ref(), to.as_os_str()]).expect(0);
    }
}
