//! Streams by somebody who may only add snapshots and wants more. Each is refused with its reason, and nothing outside
//! the staging area changes.

use super::receive;
use super::wire::*;
use crate::harness::*;
use crate::on_filesystems;
use pleach::testing::manifest::{Body, Item};
use rustix::fs::FileType;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The inode number of the root of a Btrfs subvolume.
const SUBVOLUME: u64 = 256;

const BASE: Digest = [1; 32];

/// A repository with the snapshot `base`, which has entries of every kind, and a file outside of the repository.
struct Site {
    top: PathBuf,
    to: PathBuf,
    /// The records of the base.
    items: Vec<Item>,
    before: Vec<String>,
}

/// The records of an honest base: `d`, entries of every kind, `d/deep`, `e`.
fn base() -> Vec<Op> {
    vec![
        directory(b"d"),
        new(linked(file(b"a", 0), 5), Content::InRecord),
        new(linked(file(b"b", 0), 5), Content::LinkTo(b"d/a".to_vec().into())),
        new(node(b"fifo", FileType::Fifo, Body::Fifo), Content::InRecord),
        new(symlink(b"link", b"../../../outside"), Content::InRecord),
        new(node(b"null", FileType::CharacterDevice, Body::Device(1, 3)), Content::InRecord),
        directory(b"d/deep"),
        new(file(b"x", 0), Content::InRecord),
        directory(b"e"),
        new(file(b"y", 0), Content::InRecord),
    ]
}

impl Site {
    fn new(fs: &Filesystem) -> Site {
        let (top, to) = (fs.dir("top"), fs.join("top/to"));
        fs.dir("top/outside");
        write(top.join("outside/secret"), b"secret");
        std::os::unix::fs::symlink("outside", top.join("link")).unwrap();
        // The file with content is the last one, so that the records before it have no need for it.
        let stream = Draft::new("base", None).and_all(base()).with_file(b"z", &bytes(1, 20_000)).end();
        receive(&to, &stream, &["--append-only"]).expect(0);
        let mut items: Vec<Item> = base()
            .into_iter()
            .map(|op| match op {
                Op::Directory { directory, .. } => Item::Directory(directory),
                Op::Entry { entry, .. } => Item::Entry(entry),
                _ => unreachable!("only records"),
            })
            .collect();
        items.push(Item::Entry(file(b"z", 20_000)));
        pleach(["verify".as_ref(), "-q".as_ref(), to.as_os_str()]).expect(0);
        let before = outside(&top);
        Site { top, to, items, before }
    }

    fn draft() -> Draft {
        Draft::new("new", Some(("base", BASE)))
    }

    /// A stream is refused for this reason, and nothing remains of it.
    #[track_caller]
    fn refuses(&self, stream: &[u8], reason: &str) {
        let run = receive(&self.to, stream, &["--restrict", "--append-only"]);
        assert!([1, 4].contains(&run.status), "{run:?}");
        run.saying(reason);
        assert_same_lines(&outside(&self.top), &self.before);
        assert_eq!(names(&self.to.join(".pleach/incoming")), Vec::<String>::new(), "{reason}");
    }

    /// A stream without a base: `ops` in the directory `n`.
    #[track_caller]
    fn refuses_ops(&self, ops: impl IntoIterator<Item = Op> + Clone, reason: &str) {
        self.refuses(&Draft::new("new", None).and(directory(b"n")).and_all(ops.clone()).end(), reason);
        // The same in a tree that began as the base.
        let draft = Site::draft().same(&self.items).and(directory(b"n"));
        self.refuses(&draft.and_all(ops).end(), reason);
    }

    #[track_caller]
    fn adds(&self, stream: &[u8]) {
        receive(&self.to, stream, &["--append-only"]).expect(0);
        pleach(["verify".as_ref(), "-q".as_ref(), self.to.as_os_str()]).expect(0);
    }
}

/// All entries except in the control directory: path, status with times, content.
pub(super) fn outside(top: &Path) -> Vec<String> {
    let paths = walk(top);
    paths
        .iter()
        .map(|path| {
            let status = fs::symlink_metadata(path).unwrap();
            let content = if status.is_file() { blake3::hash(&fs::read(path).unwrap()).to_string() } else { "".into() };
            let target = fs::read_link(path).unwrap_or_default();
            let changed = if path.ends_with("to") { 0 } else { status.ctime_nsec() };
            let (mode, ino, links) = (status.mode(), status.ino(), status.nlink());
            // The repository's own directory has a temporary entry now and then, and `latest` may be made anew.
            let ino = if path.ends_with("latest") { 0 } else { ino };
            let changed = if path.ends_with("latest") { 0 } else { changed };
            // Btrfs keeps the time of the rename of a subvolume in memory only.
            let changed = if status.is_dir() && ino == SUBVOLUME { 0 } else { changed };
            format!("{} {mode:o} {ino} {links} {changed} {content} {}", path.display(), target.display())
        })
        .collect()
}

fn walk(top: &Path) -> Vec<PathBuf> {
    let mut all = vec![top.to_path_buf()];
    let mut entries: Vec<_> = fs::read_dir(top).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries.iter().filter(|entry| entry.file_name() != ".pleach") {
        if entry.file_type().unwrap().is_dir() { all.extend(walk(&entry.path())) } else { all.push(entry.path()) }
    }
    all
}

fn parts() -> Content {
    Content::Parts { start: None }
}

on_filesystems! {
    fn no_name_leads_out_of_the_directory_of_its_entry(fs: &Filesystem) {
        let site = Site::new(fs);
        let names = [&b"../../../outside/secret"[..], b"..", b".", b"", b"a/b", b"a\0b", b"/etc/passwd", &[b'x'; 5000]];
        for name in names {
            site.refuses_ops([new(file(name, 0), Content::InRecord)], "invalid entry name");
            site.refuses_ops([new(symlink(name, b"/"), Content::InRecord)], "invalid entry name");
        }
        for path in [&b".."[..], b"n/..", b"n/../..", b"../outside", b"/outside", b"n//x", b"n/./x", b"n/", b"n/a\0b"] {
            site.refuses_ops([directory(path)], "invalid directory path");
        }
        site.refuses_ops([directory(b"z/x")], "before the one it lies in");
        site.refuses_ops([new(file(&[b'x'; 300], 0), Content::InRecord)], "name too long");
    }

    fn a_link_that_was_sent_before_is_not_followed(fs: &Filesystem) {
        let site = Site::new(fs);
        for target in [&b"../../../../outside"[..], b"/", b"."] {
            let link = || new(symlink(b"s", target), Content::InRecord);
            site.refuses_ops([link(), directory(b"n/s")], "the path of another entry");
            site.refuses_ops([link(), directory(b"n/s/t")], "before the one it lies in");
            for path in [&b"n/s"[..], b"n/s/secret"] {
                let from = || place(Side::New, path);
                site.refuses_ops([link(), new(file(b"t", 6), Content::Of(from()))], "a place is not a regular file");
                let start = Content::Parts { start: Some(from()) };
                site.refuses_ops([link(), new(file(b"t", 6), start)], "a place is not a regular file");
                let clone = Op::Clone { offset: 0, length: 6, from: from() };
                site.refuses_ops([link(), new(file(b"t", 6), parts()), clone], "a place is not a regular file");
            }
        }
        // The base has one, too.
        for path in [&b"d/link"[..], b"d/link/secret"] {
            let from = Content::Of(place(Side::Base, path));
            let draft = Site::draft().same(&site.items).and(directory(b"n")).and(new(file(b"t", 6), from));
            site.refuses(&draft.end(), "a place is not a regular file");
        }
    }

    fn only_regular_files_are_opened(fs: &Filesystem) {
        let site = Site::new(fs);
        let nodes = [
            node(b"s", FileType::Fifo, Body::Fifo),
            node(b"s", FileType::CharacterDevice, Body::Device(1, 5)),
            node(b"s", FileType::BlockDevice, Body::Device(7, 0)),
            node(b"s", FileType::Socket, Body::Socket),
        ];
        for node in nodes {
            let from = Content::Of(place(Side::New, b"n/s"));
            let ops = [new(node, Content::InRecord), new(file(b"t", 6), from)];
            site.refuses_ops(ops, "a place is not a regular file");
        }
        for path in [&b"d"[..], b"d/fifo", b"d/null", b"d/missing", b"d/z/x"] {
            let from = Content::Of(place(Side::Base, path));
            let draft = Site::draft().same(&site.items).and(directory(b"n")).and(new(file(b"t", 6), from));
            site.refuses(&draft.end(), "a place is not a regular file");
        }
        for path in [&b"../../outside/secret"[..], b"d/../../../../outside/secret", b"/etc/passwd", b"d/"] {
            for side in [Side::Base, Side::New] {
                let from = Content::Of(place(side, path));
                site.refuses_ops([new(file(b"t", 6), from)], "invalid path of a place");
            }
        }
        let from = Content::Of(place(Side::New, b""));
        site.refuses_ops([new(file(b"t", 6), from)], "a place has no file");
    }

    fn a_hard_link_goes_to_the_first_name_of_its_inode_alone(fs: &Filesystem) {
        let site = Site::new(fs);
        let link_to = |path: &[u8]| Content::LinkTo(path.to_vec().into());
        for path in [&b"../../../outside/secret"[..], b"/etc/passwd", b".."] {
            site.refuses_ops([new(linked(file(b"t", 0), 9), link_to(path))], "an entry cannot have such content");
        }
        let reason = "a hard link does not point to the first name of its inode";
        for path in [&b"d/z"[..], b"d/a", b"d/null", b"d", b"n", b"n/missing"] {
            site.refuses_ops([new(linked(file(b"t", 0), 9), link_to(path))], reason);
        }
        let first = || new(linked(file(b"s", 0), 9), Content::InRecord);
        site.refuses_ops([first(), new(linked(file(b"t", 0), 8), link_to(b"n/s"))], reason);
        site.refuses_ops([first(), new(file(b"t", 0), link_to(b"n/s"))], reason);
        site.refuses_ops([first(), new(linked(file(b"t", 1), 9), link_to(b"n/s"))], "two names of an inode differ");
        site.refuses_ops([first(), new(linked(symlink(b"t", b"x"), 9), link_to(b"n/s"))], "two names of an inode");
        let link = |name: &[u8], target: &[u8]| linked(symlink(name, target), 9);
        let ops = [new(link(b"s", b"x"), Content::InRecord), new(link(b"t", b"y"), link_to(b"n/s"))];
        site.refuses_ops(ops, "two names of an inode differ");
        let nlink = fs::metadata(site.to.join("base/d/a")).unwrap().nlink();
        assert_eq!(nlink, 2, "the base has its own inodes");
    }

    fn every_path_has_one_entry(fs: &Filesystem) {
        let site = Site::new(fs);
        let empty = |name: &[u8]| new(file(name, 0), Content::InRecord);
        site.refuses_ops([empty(b"s"), empty(b"s")], "out of order");
        site.refuses_ops([empty(b"t"), empty(b"s")], "out of order");
        site.refuses_ops([directory(b"n/s"), directory(b"n/s")], "out of order or there twice");
        site.refuses_ops([empty(b"s"), directory(b"n/s")], "the path of another entry");
        let out_of_place = "not at its place between those of the base";
        // Beside the base, the same.
        let draft = Site::draft;
        site.refuses(&draft().same(&site.items[..1]).and(empty(b"a")).end(), out_of_place);
        site.refuses(&draft().same(&site.items[..1]).and(empty(b"c")).end(), out_of_place);
        let another = replacing(file(b"b", 0), Content::InRecord);
        site.refuses(&draft().same(&site.items[..1]).and(another).end(), out_of_place);
        site.refuses(&draft().and(directory(b"d")).end(), out_of_place);
        site.refuses(&draft().same(&site.items[..6]).and(directory(b"e")).end(), out_of_place);
        site.refuses(&draft().same(&site.items[..2]).and(Op::Gone { count: 1 }).and(empty(b"a")).end(), "out of order");
        // A file in the place of a directory that stays.
        let ops = draft().same(&site.items[..2]).same(&site.items[2..3]).and(empty(b"deep"));
        site.refuses(&ops.same(&site.items[3..]).end(), "d");
        // The directory of an entry went.
        let ops = draft().same(&site.items[..6]).and(Op::Gone { count: 1 }).same(&site.items[7..]);
        site.refuses(&ops.end(), "keeps an entry without its directory");
        site.refuses(&draft().same(&site.items[..9]).end(), "leaves records of the base out");
        let too_many = Op::Same { count: u64::MAX, recheck: false };
        site.refuses(&draft().and(too_many).end(), "more records than the base has");
        site.refuses(&Draft::new("new", None).and(Op::Gone { count: 1 }).end(), "there is none");
        site.refuses(&Draft::new("new", None).and(empty(b"a")).end(), "before any directory");
    }

    fn no_number_is_too_large_for_the_receiver(fs: &Filesystem) {
        let site = Site::new(fs);
        let with = |op: Op| [new(file(b"s", 6), parts()), op];
        let from = |offset| Place { offset, ..place(Side::New, b"n/s") };
        for (offset, length) in [(u64::MAX, 1), (1, u64::MAX), (0, 0), (1 << 63, 1), ((1 << 63) - 1, 1)] {
            site.refuses_ops(with(Op::Data { offset, length }), "invalid range");
            site.refuses_ops(with(Op::Hole { offset, length }), "invalid range");
            site.refuses_ops(with(Op::Clone { offset, length, from: from(0) }), "invalid range");
            let beyond = from(offset.max(1 << 63));
            site.refuses_ops(with(Op::Clone { offset: 0, length: length.max(1), from: beyond }), "invalid range");
        }
        for (offset, length) in [(6, 1), (0, 7), (1 << 62, 1)] {
            site.refuses_ops(with(Op::Hole { offset, length }), "beyond its end");
        }
        let twice = [new(file(b"s", 6), parts()), Op::Hole { offset: 2, length: 2 }, Op::Hole { offset: 3, length: 2 }];
        site.refuses_ops(twice, "overlap");
        site.refuses_ops([new(file(b"s", 1 << 63), parts())], "invalid file size");
        let large = |change: fn(&mut Begin)| Draft::new("new", None).beginning(change).and(directory(b"n")).end();
        let origin = || pleach::testing::manifest::Origin { dev: 1, identity: postcard::from_bytes(&[0; 16]).unwrap() };
        site.refuses(
            &Draft::new("new", None).beginning(|begin| begin.origins = vec![origin(); 70_000]).end(),
            "malformed",
        );
        site.refuses(&large(|begin| begin.header.sources = vec![Vec::new().into(); 1 << 21]), "malformed");
        site.refuses(&large(|begin| begin.header.program = "x".repeat(9 << 20)), "so many sources");
        site.refuses(&large(|begin| begin.header.program = "x".repeat(33 << 20)), "too long");
        site.refuses(&large(|begin| begin.header.created.seconds = i64::MAX), "future");
        site.refuses(&large(|begin| begin.header.created.seconds = -1), "before 1970");
        site.refuses(&large(|begin| begin.position.records = u64::MAX), "continues a transfer that does not exist");
        site.refuses(&large(|begin| begin.position.offset = 1), "continues a transfer that does not exist");
        let devices = (0..70_000).map(|old| Op::Device { old, new: old + 1 });
        site.refuses_ops(devices, "too many filesystems");
        // A sparse file may be as large as files can be.
        let mut long = file(b"s", (1 << 40) + 1);
        long.meta.mode = 0o100_600;
        let draft = Draft::new("long", None).and(directory(b"n")).and(new(long, parts()));
        site.adds(&draft.and(Op::Data { offset: 1 << 40, length: 1 }).bytes(b"x").and(Op::Complete).end());
        assert!(disk_space::free_bytes(&site.to) > 100 << 20);
    }

    [xfs] fn a_snapshot_has_no_name_with_another_meaning(fs: &Filesystem) {
        let site = Site::new(fs);
        let long = "x".repeat(256);
        let names = ["", ".", "..", ".pleach", "latest", "live", "a/b", "../x", "-x", "a\nb", "lost+found", &long];
        let reason = "invalid snapshot name";
        for name in names {
            site.refuses(&Draft::new(name, None).and(directory(b"n")).end(), reason);
            site.refuses(&Draft::new("new", Some((name, BASE))).and(directory(b"n")).end(), reason);
        }
        let other = Draft::new("base", None).beginning(|begin| begin.identity = [9; 32]);
        site.refuses(&other.and(directory(b"n")).end(), "another snapshot of this name");
        site.refuses(&Draft::new("new", Some(("base", [2; 32]))).and(directory(b"n")).end(), "it is another one");
        site.refuses(&Draft::new("new", Some(("missing", BASE))).and(directory(b"n")).end(), "missing");
    }

    [xfs, btrfs] fn a_file_of_the_base_keeps_its_content_when_names_of_it_change(fs: &Filesystem) {
        let site = Site::new(fs);
        // `a` gets other content by way of the base's inode, which `b` has, too.
        let mut changed = file(b"a", 5);
        changed.meta.ino = 5;
        let start = Content::Parts { start: Some(place(Side::Base, b"d/a")) };
        let draft = Site::draft().same(&site.items[..1]).and(replacing(changed, start));
        let draft = draft.and(Op::Data { offset: 0, length: 5 }).bytes(b"12345").and(Op::Complete);
        site.adds(&draft.same(&site.items[2..]).end());
        assert_same_lines(
            &outside(&site.to.join("base")),
            &site.before.iter().filter(|line| line.contains("/to/base")).cloned().collect::<Vec<_>>(),
        );
        assert_eq!(fs::read(site.to.join("new/d/a")).unwrap(), b"12345");
        assert_eq!(fs::read(site.to.join("new/d/b")).unwrap(), b"");
    }

    [xfs, btrfs] fn a_further_name_of_an_unchanged_file_is_a_link(fs: &Filesystem) {
        let site = Site::new(fs);
        // The base has no name of this inode that comes before.
        let mut items = site.items.clone();
        let draft = Site::draft().same(&items[..1]).and(Op::Gone { count: 1 });
        let first = draft.and(new(linked(file(b"aa", 0), 5), Content::InRecord));
        site.adds(&first.same(&items.split_off(2)).end());
        let ino = |name: &str| fs::metadata(site.to.join("new/d").join(name)).unwrap().ino();
        assert_eq!(ino("aa"), ino("b"));
        assert!(!site.to.join("new/d/a").exists());
    }
}
