//! `pleach fiemap --shared-with`: which data files share with each other, compared with the clones that the test made
//! and with xfs_io.

use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

on_filesystems! {
    [xfs, btrfs] fn ranges_are_those_that_were_cloned(fs: &Filesystem) {
        let (a, b, c) = (fs.join("a"), fs.join("b"), fs.join("c"));
        write(&a, &bytes(1, 2 << 20));
        write(&b, &bytes(2, 512 << 10));
        reflink(&a, 256 * KIB, &b, 1024 * KIB, 128 * KIB);
        reflink(&a, 1024 * KIB, &b, 0, 64 * KIB);
        clone(&a, &c);
        overwrite(&c, 1024 * KIB, &bytes(99, 16 << 10));
        let told = Told::of(&[&a, &b, &c]);
        // The data cloned into b is in all three files, except for the part that c has overwritten.
        let of_b: Vec<_> = told.ranges_of(&b).into_iter().map(|range| (range.logical, range.length)).collect();
        assert_eq!(joined(of_b), [(0, 64 * KIB), (1024 * KIB, 128 * KIB)]);
        assert_eq!(told.pair(&a, &b), Some(192 * KIB));
        assert_eq!(told.pair(&b, &c), Some(176 * KIB));
        assert_eq!(told.pair(&a, &c), Some(2 * MIB - 16 * KIB));
        let groups: BTreeMap<_, _> = told.groups.iter().map(|group| (group.files.clone(), group.bytes)).collect();
        let of = |files: &[&PathBuf]| files.iter().map(|file| (*file).clone()).collect::<BTreeSet<_>>();
        let expected = [
            (of(&[&a, &b]), 16 * KIB),
            (of(&[&a, &b, &c]), 176 * KIB),
            (of(&[&a, &c]), 2 * MIB - 192 * KIB),
        ];
        assert_eq!(groups, BTreeMap::from(expected));
        told.assert_as_xfs_io_sees(&[&a, &b, &c]);
    }

    [xfs, btrfs] fn every_shared_sector_is_told_as_xfs_io_sees_it(fs: &Filesystem) {
        let files: Vec<_> = (0..6).map(|n| fs.join(format!("file-{n}"))).collect();
        for (n, file) in files.iter().enumerate() {
            write(file, &bytes(n as u64, 600 << 10));
        }
        // Pieces of each file in others, at odd places, over each other and within themselves.
        for step in bytes(42, 160).chunks(4) {
            let [from, to, source, target] = [0, 1, 2, 3].map(|n| u64::from(step[n]));
            let (from, to) = (&files[from as usize % 6], &files[to as usize % 6]);
            let length = (source % 9 + 1) * 4 * KIB;
            let (source, target) = (source % 100 * 4 * KIB, target % 130 * 4 * KIB);
            if from != to || source.abs_diff(target) >= length {
                reflink(from, source, to, target, length);
            }
        }
        let files: Vec<_> = files.iter().collect();
        let told = Told::of(&files);
        assert!(told.groups.len() > 5, "{}", told.groups.len());
        told.assert_as_xfs_io_sees(&files);
    }

    [xfs, btrfs] fn a_file_that_shares_with_itself_is_told(fs: &Filesystem) {
        let file = fs.join("file");
        write(&file, &bytes(1, 1 << 20));
        reflink(&file, 0, &file, 4096 * KIB, 256 * KIB);
        let told = Told::of(&[&file]);
        assert_eq!(told.pair(&file, &file), Some(256 * KIB));
        let places: Vec<_> = told.ranges_of(&file).into_iter().map(|range| (range.logical, range.length)).collect();
        assert_eq!(joined(places), [(0, 256 * KIB), (4096 * KIB, 256 * KIB)]);
        assert_eq!(number(told.file(&file), "bytes"), 512 * KIB, "both places count");
    }

    [btrfs] fn of_compressed_extents_only_an_upper_bound_is_told(fs: &Filesystem) {
        let dir = fs.dir("compressed");
        finish(Command::new("chattr").arg("+c").arg(&dir)).expect(0);
        let (a, b, alone) = (dir.join("a"), dir.join("b"), dir.join("alone"));
        write(&a, &[7; 512 << 10]);
        write(&alone, &[9; 512 << 10]);
        clone(&a, &b);
        // The overwrite leaves two pieces of one extent, one on each side. This does not prove that any data is shared.
        overwrite(&alone, 32 * KIB, &bytes(99, 16 << 10));
        let is_compressed = |file: &Path| tools::extents(file).iter().any(|extent| extent.flags & 0x8 != 0);
        assert!(is_compressed(&a) && is_compressed(&b) && is_compressed(&alone), "the filesystem compresses");
        let told = Told::of(&[&a, &b, &alone]);
        let [group] = &told.groups[..] else { panic!("one group: {:?}", told.lines) };
        assert_eq!((group.bytes, group.encoded_bytes), (0, 512 * KIB));
        assert_eq!(group.files, BTreeSet::from([a.clone(), b.clone()]));
        assert!(told.of_type("sharing_range").all(|range| range["encoded"] == true));
        assert_eq!(number(told.file(&alone), "encoded_bytes"), 0);
        assert!(tables(&[&a, &b]).contains("up to 512.0 KiB (compressed)"));
    }

    [btrfs] fn files_beside_the_metadata_share_nothing(fs: &Filesystem) {
        let (a, b) = (fs.join("a"), fs.join("b"));
        write(&a, b"tiny");
        clone(&a, &b);
        assert!(Told::of(&[&a, &b]).groups.is_empty());
        assert!(tables(&[&a, &b]).contains("2 files share nothing with each other"));
    }

    [btrfs] fn subvolumes_of_one_filesystem_share(fs: &Filesystem) {
        let (here, there) = (fs.join("file"), fs.join("subvolume"));
        finish(Command::new("btrfs").args(["-q", "subvolume", "create"]).arg(&there)).expect(0);
        let there = there.join("file");
        write(&here, &bytes(1, 1 << 20));
        clone(&here, &there);
        assert_eq!(Told::of(&[&here, &there]).pair(&here, &there), Some(MIB));
    }

    [xfs] fn equal_addresses_on_two_filesystems_are_not_shared(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        // Enough files that some address of one filesystem also occurs on the other.
        let mut files = Vec::new();
        for n in 0..8 {
            for file in [fs.join(format!("{n}")), elsewhere.join(format!("{n}"))] {
                write(&file, &bytes(n, 4 << 20));
                files.push(file);
            }
        }
        let told = Told::of(&files.iter().collect::<Vec<_>>());
        assert_eq!(told.groups.len(), 0);
    }

    [xfs] fn what_others_hold_is_only_marked(fs: &Filesystem) {
        let (a, b) = (fs.join("a"), fs.join("b"));
        write(&a, &bytes(1, 1 << 20));
        clone(&a, &b);
        let told = Told::of(&[&a]);
        assert_eq!(told.groups.len(), 0);
        assert_eq!(number(told.file(&a), "marked_only_bytes"), MIB);
        assert!(tables(&[&a]).contains("no other of these files holds it"));
    }

    [xfs] fn a_file_with_several_names_is_compared_once(fs: &Filesystem) {
        let (file, link) = (fs.join("file"), fs.join("link"));
        write(&file, &bytes(1, 1 << 20));
        fs::hard_link(&file, &link).expect("a link can be made");
        let run = shared_with(&[&file, &link, &file], &["--json"]).expect(0).saying("2 other names of files");
        assert!(run.json().iter().all(|line| line["type"] != "sharing"));
        assert_eq!(number(&run.summary(), "files"), 3, "all are mapped");
    }

    [xfs, btrfs] fn many_clones_are_one_group_and_not_pair_by_pair(fs: &Filesystem) {
        let dir = fs.dir("clones");
        write(dir.join("0"), &bytes(1, 64 << 10));
        (1..100).for_each(|n| clone(&dir.join("0"), &dir.join(n.to_string())));
        let told = Told::of(&[&dir]);
        assert_eq!(told.groups.len(), 1);
        assert_eq!(told.groups[0].files.len(), 100);
        assert_eq!(told.of_type("sharing_pair").count(), 0);
        assert_eq!(number(told.of_type("sharing_total").next().expect("a total"), "unpaired_files"), 100);
        let text = tables(&[&dir]);
        assert!(text.contains("100 files share data with too many others to list all pairs"), "{text}");
        assert!(text.lines().count() < 40, "the tables stay short:\n{text}");
    }

    [xfs] fn the_tables_name_groups_ranges_and_pairs(fs: &Filesystem) {
        let (a, b) = (fs.join("one"), fs.join("two"));
        write(&a, &bytes(1, 1 << 20));
        clone(&a, &b);
        reflink(&a, 0, &b, 2048 * KIB, 64 * KIB);
        let text = tables(&[&a, &b]);
        let has = |line: &[&str]| {
            text.lines().any(|told| told.split_whitespace().eq(line.iter().flat_map(|word| word.split_whitespace())))
        };
        assert!(has(&["A", "1.0 MiB", "2", "2", "one, two"]), "{text}");
        assert!(has(&["1.0 MiB one two"]) && has(&["64.0 KiB two itself"]), "{text}");
        assert!(text.contains("at 0 in one; at 0 and 2,097,152 in two"), "{text}");
        assert!(text.ends_with("2 files, 1 group, 1.0 MiB in common\n"), "{text}");
    }

    [xfs] fn what_cannot_be_mapped_is_named_and_the_others_are_compared(fs: &Filesystem) {
        let (a, b) = (fs.join("a"), fs.join("b"));
        write(&a, &bytes(1, 1 << 20));
        clone(&a, &b);
        let status = PathBuf::from("/proc/self/status");
        let run =
            shared_with(&[&a, &status, &fs.join("missing"), &b], &["--json"]).expect(3).saying("keeps no extent maps");
        let lines = run.json();
        let files: Vec<_> =
            lines.iter().filter(|line| line["type"] == "sharing_file").map(|line| line["path"].as_str()).collect();
        assert_eq!(files, [a.to_str(), b.to_str()]);
        assert_eq!(number(lines.iter().find(|line| line["type"] == "sharing").expect("a group"), "bytes"), MIB);
    }
}

/// The reported sharing, in JSON.
struct Told {
    lines: Vec<Value>,
    groups: Vec<Group>,
}

struct Group {
    files: BTreeSet<PathBuf>,
    bytes: u64,
    encoded_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    logical: u64,
    physical: u64,
    length: u64,
}

impl Told {
    #[track_caller]
    fn of(files: &[&PathBuf]) -> Told {
        let lines = shared_with(files, &["--json"]).expect(0).json();
        assert_eq!(lines.last().map(|line| &line["type"]), Some(&Value::from("summary")));
        let of_type = |name: &'static str| lines.iter().filter(move |line| line["type"] == name);
        let groups = of_type("sharing").map(|line| {
            assert_eq!(line["listed"], true);
            let of_group = of_type("sharing_range").filter(|range| range["group"] == line["group"]);
            let files: BTreeSet<_> = of_group.map(path).collect();
            assert_eq!(files.len() as u64, number(line, "files"));
            Group { files, bytes: number(line, "bytes"), encoded_bytes: number(line, "encoded_bytes") }
        });
        Told { groups: groups.collect(), lines }
    }

    fn of_type(&self, name: &'static str) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(move |line| line["type"] == name)
    }

    #[track_caller]
    fn file(&self, file: &Path) -> &Value {
        self.of_type("sharing_file").find(|line| path(line) == file).expect("each file is reported")
    }

    fn ranges_of(&self, file: &Path) -> Vec<Range> {
        let mut ranges: Vec<_> = self.of_type("sharing_range").filter(|line| path(line) == file).map(range).collect();
        ranges.sort();
        ranges
    }

    /// The amount that two files share.
    fn pair(&self, a: &Path, b: &Path) -> Option<u64> {
        let files = |line: &Value| line["files"].as_array().expect("a list").iter().map(path).collect::<Vec<_>>();
        self.of_type("sharing_pair").find(|line| files(line) == [a, b]).map(|line| number(line, "bytes"))
    }

    /// Asserts, sector by sector, that the ranges are those with addresses that xfs_io shows at two places.
    #[track_caller]
    fn assert_as_xfs_io_sees(&self, files: &[&PathBuf]) {
        let mut holders: BTreeMap<u64, BTreeSet<(&Path, u64)>> = BTreeMap::new();
        for file in files {
            for extent in tools::extents(file).iter().filter(|extent| !extent.is_inline()) {
                for sector in 0..extent.length {
                    holders.entry(extent.physical + sector).or_default().insert((file, extent.logical + sector));
                }
            }
        }
        holders.retain(|_, holders| holders.len() > 1);
        let mut told: BTreeMap<u64, BTreeSet<(&Path, u64)>> = BTreeMap::new();
        for file in files {
            for range in self.ranges_of(file) {
                for sector in 0..range.length / 512 {
                    let place = (file.as_path(), range.logical / 512 + sector);
                    assert!(told.entry(range.physical / 512 + sector).or_default().insert(place), "reported twice");
                }
            }
        }
        assert_eq!(told, holders);
        let bytes: u64 = self.groups.iter().map(|group| group.bytes).sum();
        assert_eq!(bytes, holders.len() as u64 * 512);
    }
}

fn path(line: &Value) -> PathBuf {
    line["path"].as_str().expect("a path").into()
}

fn range(line: &Value) -> Range {
    Range { logical: number(line, "logical"), physical: number(line, "physical"), length: number(line, "length") }
}

/// Joins adjacent ranges.
fn joined(ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, length) in ranges {
        match joined.last_mut() {
            Some(last) if last.0 + last.1 == start => last.1 += length,
            _ => joined.push((start, length)),
        }
    }
    joined
}

fn shared_with(files: &[&PathBuf], args: &[&str]) -> Run {
    let words = ["fiemap", "--shared-with"].iter().chain(args).map(OsStr::new);
    pleach(words.chain(files.iter().map(|file| file.as_os_str())))
}

#[track_caller]
fn tables(files: &[&PathBuf]) -> String {
    shared_with(files, &[]).expect(0).stdout
}

/// Makes a range of one file share the blocks of another file's, with xfs_io.
#[track_caller]
fn reflink(from: &Path, offset: u64, to: &Path, at: u64, length: u64) {
    let command = format!("reflink {} {offset} {at} {length}", from.display());
    let run = finish(Command::new("xfs_io").args(["-c", &command]).arg(to)).expect(0);
    assert!(run.stderr.is_empty(), "{command}: {}", run.stderr);
}
