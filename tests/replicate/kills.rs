//! Sender and receiver are killed at random moments, and the link is cut. Whatever the moment, no half snapshot is
//! visible, the next run continues, and little content crosses the link twice.

use super::wire::*;
use super::{assert_replica, receive, stream, take};
use crate::harness::random::{Random, seed};
use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::Silent;
use pleach::snapshot::receive as engine;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The most content that one kill makes cross the link again, in bytes.
const TWICE: u64 = 64 << 20;

/// How many runs are killed.
fn kills() -> usize {
    std::env::var("PLEACH_TEST_KILLS").map_or(6, |kills| kills.parse().expect("a number of kills"))
}

/// The process that is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Sender,
    Receiver,
    Both,
    Link,
}

const VICTIMS: [Victim; 4] = [Victim::Sender, Victim::Receiver, Victim::Both, Victim::Link];

/// The link to a receiver, which is a process of its own: a program in the place of ssh. It writes down the ids of its
/// processes, and how many bytes crossed it.
struct Link {
    dir: PathBuf,
    /// How often it was used. Each time has notes of its own, because processes of the last time may still end.
    times: Cell<u32>,
}

impl Link {
    fn new(fs: &Filesystem) -> Link {
        let link = Link { dir: fs.dir("link"), times: Cell::new(0) };
        // Like ssh, it ends when the receiver does. It knows no configuration.
        let script = format!(
            "#!/bin/bash\n[ \"$1\" = -G ] && exit 1\ncd '{}'\nfor command; do :; done\n> link-$TIME\n\
             bash -c \"echo \\$\\$ > receiver-$TIME; exec $command\" < <(\n\
             dd bs=64k count=$CUT iflag=count_bytes status=none |\n\
             tee >(wc -c > crossed.new-$TIME; mv crossed.new-$TIME crossed-$TIME))\n",
            link.dir.display()
        );
        write(link.dir.join("ssh"), script.as_bytes());
        fs::set_permissions(link.dir.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
        link
    }

    /// Begins a replication over the link, which is cut after this many bytes.
    fn replicate(&self, repo: &Path, to: &Path, cut: u64) -> Child {
        self.times.set(self.times.get() + 1);
        let mut to_host = std::ffi::OsString::from("ssh://host");
        to_host.push(to);
        command([OsStr::new("replicate"), "-q".as_ref(), repo.as_ref(), &to_host])
            .env("PLEACH_SSH", self.dir.join("ssh"))
            .env("CUT", cut.to_string())
            .env("TIME", self.times.get().to_string())
            .env("PLEACH_REMOTE", env!("CARGO_BIN_EXE_pleach"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// A file that the link writes.
    fn note(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}-{}", self.times.get()))
    }

    fn kill_receiver(&self) {
        if let Ok(id) = fs::read_to_string(self.note("receiver")) {
            let _ = std::process::Command::new("kill").args(["-9", id.trim()]).stderr(Stdio::null()).status();
        }
    }

    /// Waits for the end of the receiver. Returns the number of bytes that crossed the link.
    fn crossed(&self) -> u64 {
        for wait in 0..3000 {
            let has_ended = fs::read_to_string(self.note("receiver"))
                .map_or(true, |id| !Path::new("/proc").join(id.trim()).exists());
            if let (true, Ok(bytes)) = (has_ended, fs::read_to_string(self.note("crossed"))) {
                return bytes.trim().parse().unwrap();
            }
            if wait > 100 && !self.note("link").exists() {
                return 0;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the receiver ends when the link is cut");
    }
}

/// What a receiver answers to the offer of a snapshot.
fn answer(to: &Path, name: &str, identity: [u8; 32]) -> State {
    let mut draft = Draft::empty();
    draft.push(&Op::Offer(vec![(name.into(), identity)]));
    draft.push(&Op::Bye);
    let mut out = Vec::new();
    let options = engine::Options::default();
    engine::receive(to, &draft.stream.encode(false)[..], Some(&mut out), &options, &Silent).unwrap();
    match &replies(&out)[..] {
        [Reply::Answer(states)] => states[0].clone(),
        other => panic!("{other:?}"),
    }
}

/// The content of a snapshot before each of its records.
struct Sizes {
    name: &'static str,
    identity: [u8; 32],
    before: Vec<u64>,
}

impl Sizes {
    fn of(repo: &Path, name: &'static str) -> Sizes {
        let stream = Stream::parse(&stream(repo, name, None));
        let (mut sum, mut before, mut identity) = (0, Vec::new(), [0; 32]);
        for op in stream.parts.iter().filter_map(Part::op) {
            match op {
                Op::Begin(begin) => identity = begin.identity,
                Op::Directory { .. } | Op::Entry { .. } => before.push(sum),
                Op::Data { length, .. } => sum += length,
                _ => {}
            }
        }
        before.push(sum);
        Sizes { name, identity, before }
    }

    /// The content that a receiver has for good.
    fn there(&self, to: &Path) -> u64 {
        match answer(to, self.name, self.identity) {
            State::Complete => *self.before.last().unwrap(),
            State::Missing => 0,
            State::Begun { position, .. } => self.before[position.records as usize] + position.offset,
            State::Other => panic!("it is another snapshot"),
        }
    }
}

on_filesystems! {
    [xfs, btrfs] fn killed_at_random_moments_a_transfer_goes_on_and_sends_little_twice(fs: &Filesystem) {
        let (source, repo, to, link) = (fs.dir("source"), fs.join("repo"), fs.join("to"), Link::new(fs));
        write(source.join("a"), &bytes(1, 90 << 20));
        fs.dir("source/many");
        (0..1000).for_each(|number| write(source.join(format!("many/{number}")), &bytes(number, 20_000)));
        write(source.join("many/x"), &bytes(2, 50 << 20));
        take("one", &source, &repo);
        let sizes = Sizes::of(&repo, "one");
        let begin = Instant::now();
        assert!(link.replicate(&repo, &to, u64::MAX >> 1).wait().unwrap().success());
        let time = begin.elapsed();
        assert!(link.crossed() < sizes.before.last().unwrap() + (1 << 20));
        assert_replica(&repo, &to);
        remove(&to).unwrap();
        let seed = seed();
        let mut random = Random(seed);
        let (mut done, mut completed, mut most, mut resumed) = (0, 0, 0, 0);
        while done < kills() {
            let context = format!("kill {done} of PLEACH_TEST_SEED={seed}");
            let there = if to.join(".pleach/format").exists() { sizes.there(&to) } else { 0 };
            resumed += usize::from(there > 0);
            let victim = VICTIMS[done % VICTIMS.len()];
            let moment = random.fraction();
            let cut = match victim {
                Victim::Link => (*sizes.before.last().unwrap() as f64 * moment) as u64,
                _ => u64::MAX >> 1,
            };
            let mut sender = link.replicate(&repo, &to, cut);
            if !matches!(victim, Victim::Link) {
                thread::sleep(time.mul_f64(moment));
            }
            if matches!(victim, Victim::Receiver | Victim::Both) {
                link.kill_receiver();
            }
            if matches!(victim, Victim::Sender | Victim::Both) {
                sender.kill().unwrap();
            }
            let is_complete = sender.wait().unwrap().success();
            let crossed = link.crossed();
            done += 1;
            if !to.join(".pleach/format").exists() {
                continue;
            }
            let visible = names(&to).iter().any(|name| name == "one");
            assert!(visible || !is_complete, "{context}");
            if visible {
                assert_replica(&repo, &to);
                remove(&to).unwrap();
                completed += 1;
                continue;
            }
            assert_eq!(published(&to), Vec::<String>::new(), "{context}");
            let lost = (there + crossed).saturating_sub(sizes.there(&to));
            assert!(lost <= TWICE, "{context}, {victim:?}: {lost} bytes of {there} + {crossed}");
            most = most.max(lost);
        }
        assert!(link.replicate(&repo, &to, u64::MAX >> 1).wait().unwrap().success());
        assert_replica(&repo, &to);
        counted(done, "kills of transfers");
        report(&format!("{done} kills, {resumed} resumed, {completed} complete, at most {most} bytes twice"));
    }

    [xfs] fn entries_without_content_are_not_made_again(fs: &Filesystem) {
        let to = fs.join("to");
        let draft = Draft::new("one", None).and(directory(b"d"));
        let files = |range: std::ops::Range<u32>| {
            range.map(|number| {
                new(file(format!("{number:06}").as_bytes(), 0), Content::InRecord)
            })
        };
        let all = draft.and_all(files(0..50_000));
        receive(&to, &all.stream.encode(true), &[]).expect(1).saying("ends too early");
        let State::Begun { base: None, position } = answer(&to, "one", [1; 32]) else { panic!("it has begun") };
        assert!(position.records > 20_000 && position.offset == 0, "{position:?}");
        let whole = all.clone().end();
        // It continues at this position, and at no other.
        let rest = |records: u64| {
            let mut stream = Stream::parse(&whole);
            let Some(Op::Begin(mut begin)) = stream.parts[0].op() else { panic!("it begins") };
            begin.position = Position { records, ..Position::default() };
            stream.parts.drain(1..1 + records as usize);
            stream.parts[0] = Part::of(&Op::Begin(begin));
            stream.encode(true)
        };
        receive(&to, &rest(position.records - 1), &[]).expect(4).saying("a transfer that does not exist");
        receive(&to, &rest(position.records), &[]).expect(0);
        assert_eq!(fs::read_dir(to.join("one/d")).unwrap().count(), 50_000);
        pleach(["verify".as_ref(), "-q".as_ref(), to.as_os_str()]).expect(0);
    }

    [xfs, btrfs] fn a_position_does_not_let_another_file_go_on(fs: &Filesystem) {
        let to = fs.join("to");
        let length = 80_u64 << 20;
        let whole = Draft::new("one", None)
            .and(directory(b"d"))
            .and(new(linked(file(b"a", 0), 3), Content::InRecord))
            .and(new(file(b"b", length), Content::Parts { start: None }))
            .and(Op::Data { offset: 0, length });
        let data = bytes(1, 70 << 20);
        receive(&to, &whole.bytes(&data).stream.encode(false), &[]).expect(1);
        let State::Begun { position, .. } = answer(&to, "one", [1; 32]) else { panic!("it has begun") };
        assert!(position.records == 2 && position.offset >= 24 << 20, "{position:?}");
        let begin = || Draft::new("one", None).beginning(|begin| begin.position = position);
        let link = linked(file(b"c", 0), 3);
        let other = begin().and(new(link, Content::LinkTo(b"d/a".to_vec().into())));
        receive(&to, &other.end(), &[]).expect(4).saying("does not continue the file in progress");
        assert_eq!(answer(&to, "one", [1; 32]), State::Missing);
    }
}

/// Removes a repository. Its trees may be subvolumes.
fn remove(repo: &Path) -> std::io::Result<()> {
    for name in published(repo) {
        pleach([OsStr::new("remove"), "-q".as_ref(), repo.as_ref(), name.as_ref()]).expect(0);
    }
    fs::remove_dir_all(repo)
}
