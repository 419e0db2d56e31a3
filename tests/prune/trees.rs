//! On Btrfs a dry run foretells the freed space to 2 %, with the trees of the removed subvolumes.

use super::sums;
use crate::harness::own::Own;
use crate::harness::*;
use rustix::fs::{XattrFlags, setxattr};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The size of a tree block.
const NODE: u64 = 16 << 10;
const FILES: usize = 3000;
const SNAPSHOTS: usize = 12;

/// A kind of tree: where file `number` is, and how its version `round` is written.
struct Shape {
    name: &'static str,
    mkfs: [&'static str; 2],
    files: usize,
    path: fn(usize) -> String,
    write: fn(&Path, usize, usize),
}

fn seed(number: usize, round: usize) -> u64 {
    (number * 1000 + round) as u64
}

const SHAPES: &[Shape] = &[
    Shape {
        name: "small files in the trees",
        mkfs: ["-m", "dup"],
        files: FILES,
        path: |number| format!("{}/file-with-a-long-name-{}", number / 50, number % 50),
        write: |path, number, round| write(path, &bytes(seed(number, round), 100 + number % 1500)),
    },
    Shape {
        name: "small files",
        mkfs: ["-m", "single"],
        files: FILES,
        path: |number| format!("{}/file-with-a-long-name-{}", number / 50, number % 50),
        write: |path, number, round| write(path, &bytes(seed(number, round), 4500)),
    },
    Shape {
        name: "attributes",
        mkfs: ["-m", "dup"],
        files: FILES / 2,
        path: |number| format!("{}/{}", number / 50, number % 50),
        write: |path, number, round| {
            write(path, &bytes(seed(number, round), number % 5000));
            for attribute in 0..6 {
                let value = bytes(seed(number, round) + attribute, 100 + number % 300);
                setxattr(path, format!("user.attribute-{attribute}"), &value, XattrFlags::empty()).unwrap();
            }
        },
    },
    Shape {
        name: "nested directories",
        mkfs: ["-m", "dup"],
        files: FILES,
        path: |number| format!("{}/{}/a-directory-in-between/{}/{number}", number / 500, number / 50, number / 10),
        write: |path, number, round| write(path, &bytes(seed(number, round), 3000 + number % 5 * 2000)),
    },
    Shape {
        name: "large files",
        mkfs: ["-n", "4096"],
        files: 60,
        path: |number| format!("{number}"),
        write: |path, number, round| {
            if round == 0 {
                write(path, &bytes(seed(number, round), 2 << 20));
            }
            for part in 0..8 {
                let at = (number * 31 + round * 17 + part * 61) % 500 * 4096;
                overwrite(path, at as u64, &bytes(seed(number, round) + part as u64, 6000));
            }
        },
    },
];

/// A repository with snapshots of such a tree.
fn repository(own: &Own, shape: &Shape) -> PathBuf {
    let (source, repo) = (own.join("source"), own.join("repo"));
    let put = |number: usize, round: usize| {
        let path = source.join((shape.path)(number));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        (shape.write)(&path, number, round);
    };
    (0..shape.files).for_each(|number| put(number, 0));
    for round in 0..SNAPSHOTS {
        // Every snapshot changes a file in each directory, so it holds most leaves of its tree alone.
        (0..shape.files).filter(|number| number % 50 == round * 4).for_each(|number| put(number, round));
        settle();
        pleach(snapshot_named(&format!("s{round:02}"), &source, &repo)).expect(0);
    }
    repo
}

/// The bytes of data and of metadata on the disk. `df` also counts a reserve, which shrinks with the extent tree when
/// the filesystem is mounted again.
fn allocated(own: &Own) -> u64 {
    let shown = finish(Command::new("btrfs").args(["filesystem", "df", "--raw"]).arg(own.path())).expect(0).stdout;
    let line = |line: &str| {
        let used: u64 = line.split_once("used=")?.1.parse().ok()?;
        Some(used * if line.contains("DUP") { 2 } else { 1 })
    };
    shown.lines().filter(|line| !line.starts_with("GlobalReserve")).filter_map(line).sum()
}

#[test]
fn btrfs_frees_what_a_dry_run_foretold_to_two_percent() {
    let test = concat!(module_path!(), "::btrfs_frees_what_a_dry_run_foretold_to_two_percent");
    for shape in SHAPES {
        let Some(own) = Own::new(Kind::Btrfs, test, 1536, &shape.mkfs, "") else { return };
        let repo = repository(&own, shape);
        let copies = if shape.mkfs == ["-m", "single"] { 1 } else { 2 };
        // One of many, each second one, and all but one.
        for set in [&["s05"][..], &["s01", "s03", "s07", "s09"], &["s00", "s02", "s04", "s06", "s08", "s10"]] {
            let remove = |options: &[&str]| {
                let names = options.iter().chain(set).map(|name| OsStr::new(*name));
                let fixed = [OsStr::new("remove"), "--json".as_ref(), repo.as_os_str()];
                sums(&pleach(fixed.into_iter().chain(names)).expect(0))
            };
            let what = format!("{} {set:?}", shape.name);
            // A dry run waits for the space of subvolumes that were deleted before.
            let foretold = remove(&["--dry-run"]);
            let before = allocated(&own);
            let reported = remove(&[]);
            let freed = before - allocated(&own);
            assert_eq!(foretold.freed_is, "about");
            // Two blocks of the trees that contain the repository's own files.
            let allowed = freed / 50 + 2 * NODE * copies;
            let differs = |figure: u64| figure.abs_diff(freed) > allowed;
            assert!(!differs(foretold.freed_bytes), "{what}: freed {freed}, foretold {foretold:?}");
            assert!(!differs(reported.freed_bytes), "{what}: freed {freed}, reported {reported:?}");
            if shape.files >= FILES / 2 {
                assert!(foretold.freed_metadata_bytes > Some(freed / 4), "{what}: {foretold:?}");
            }
        }
        own.assert_clean();
    }
}
