//! A year of daily runs: some files change and share what they can with the last snapshot, a new one is taken, and the
//! old ones are pruned.
//!
//! The suite has fewer nights and files; `PLEACH_TEST_YEAR=365,20000 cargo xtask test year::` has all of them.

use crate::harness::manifests::date;
use crate::harness::*;
use crate::on_filesystems;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first night in days since 1970: 1 December 2024, so that few nights are enough for the end of a year.
const FIRST: i64 = 20_058;

const BLOCK: usize = 4096;

const POLICY: [&str; 3] = ["--keep-daily=7", "--keep-weekly=4", "--keep-monthly=12"];

/// The numbers of nights and files.
fn scale() -> (i64, u64) {
    let scale = std::env::var("PLEACH_TEST_YEAR").unwrap_or_else(|_| "50,300".into());
    let (nights, files) = scale.split_once(',').expect("PLEACH_TEST_YEAR is NIGHTS,FILES");
    (nights.parse().expect("nights are a number"), files.parse().expect("files are a number"))
}

/// The sources, with everything that decides how they change.
struct Sources {
    top: PathBuf,
    files: Vec<PathBuf>,
    /// The number of files made so far.
    made: u64,
    state: u64,
}

impl Sources {
    fn new(top: PathBuf, count: u64) -> Sources {
        let mut sources = Sources { top, files: Vec::new(), made: 0, state: 1 };
        (0..count).for_each(|_| sources.add());
        sources
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    /// Adds a file of 2 to 6 blocks.
    fn add(&mut self) {
        self.made += 1;
        let dir = self.top.join(format!("{:03}", self.made / 100));
        fs::create_dir_all(&dir).unwrap();
        let (path, blocks) = (dir.join(format!("file-{}", self.made)), 2 + self.random(5) as usize);
        write(&path, &bytes(self.made, blocks * BLOCK));
        self.files.push(path);
    }

    /// Changes one file as programs do: in place, by appending, by a new file in its place, by its name or its mode.
    fn change(&mut self) {
        let index = self.random(self.files.len() as u64) as usize;
        let (path, seed) = (self.files[index].clone(), self.random(1 << 30) + (1 << 32));
        let size = fs::metadata(&path).unwrap().len();
        let at = self.random(size / BLOCK as u64) * BLOCK as u64;
        let open = || File::options().write(true).open(&path).unwrap();
        match self.random(6) {
            0 => open().write_all_at(&bytes(seed, BLOCK), at).unwrap(),
            1 => open().write_all_at(&bytes(seed, BLOCK), size).unwrap(),
            2 => {
                let mut content = fs::read(&path).unwrap();
                content[at as usize..][..BLOCK].copy_from_slice(&bytes(seed, BLOCK));
                write(path.with_extension("new"), &content);
                fs::rename(path.with_extension("new"), &path).unwrap();
            }
            3 => {
                self.files[index] = path.with_file_name(format!("renamed-{seed}"));
                fs::rename(&path, &self.files[index]).unwrap();
            }
            4 => {
                fs::remove_file(&path).unwrap();
                self.files.swap_remove(index);
                self.add();
            }
            _ => {
                let mode = 0o600 + (seed as u32 & 0o77);
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}

/// The year and the month of a day.
fn month(day: i64) -> (i64, u32) {
    let (mut year, mut rest) = (1970, day);
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while rest >= 365 + i64::from(is_leap(year)) {
        rest -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    (year, month)
}

/// The days that [`POLICY`] keeps of these, by rules that share nothing with pleach: the last day of each period in the
/// newest 7 days, 4 weeks and 12 months that have one. Weeks begin on Monday; 1 January 1970 was a Thursday.
fn survivors(days: &[i64]) -> Vec<i64> {
    fn newest<T: Ord>(days: &[i64], count: usize, period: impl Fn(i64) -> T) -> Vec<i64> {
        let last: BTreeMap<T, i64> = days.iter().map(|day| (period(*day), *day)).collect();
        last.into_values().rev().take(count).collect()
    }
    let mut kept = newest(days, 7, |day| day);
    kept.extend(newest(days, 4, |day| (day + 3).div_euclid(7)));
    kept.extend(newest(days, 12, month));
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// Everything below a directory, as `find` and `cksum` see it.
fn seen(dir: &Path) -> String {
    let run = |program: &str, args: &[&str]| finish(Command::new(program).args(args).current_dir(dir)).expect(0).stdout;
    let mut lines: Vec<_> = run("find", &[".", "-printf", "%P %y %m %U:%G %T@ %s %l\n"])
        .lines()
        .chain(run("find", &[".", "-type", "f", "-exec", "cksum", "{}", "+"]).lines())
        .map(String::from)
        .collect();
    // The size of a directory belongs to its filesystem.
    lines.iter_mut().filter(|line| line.contains(" d ")).for_each(|line| {
        let cut = line.trim_end().rfind(' ').unwrap();
        line.truncate(cut);
    });
    lines.sort_unstable();
    lines.join("\n")
}

/// The number of different blocks in the files below these directories.
fn distinct_blocks(dirs: &[&Path]) -> usize {
    let mut blocks = HashSet::new();
    for path in dirs.iter().flat_map(|dir| tools::files(dir)) {
        blocks.extend(fs::read(path).unwrap().chunks(BLOCK).map(|block| *blake3::hash(block).as_bytes()));
    }
    blocks.len()
}

/// Shares the blocks of files that programs wrote anew with their last versions, which no clone does.
fn share_with_last_night(sources: &Path, repo: &Path) {
    let Ok(latest) = fs::canonicalize(repo.join("latest")) else { return };
    let mut dedupe = command(["dedupe", "--quiet", "--ranges=always", "--min-run=4K", "--cache"]);
    let run = finish(dedupe.arg(repo.with_extension("cache")).args([latest.as_path(), sources]));
    // On Btrfs the snapshot is read-only, so some data stays where it is.
    assert!([0, 3].contains(&run.status), "{run:?}");
}

on_filesystems! {
    [xfs, btrfs] fn each_night_that_survives_a_year_is_whole_and_only_changes_take_space(fs: &Filesystem) {
        let (nights, files) = scale();
        let (repo, mut days, mut images) = (fs.join("repo"), Vec::new(), BTreeMap::new());
        let mut sources = Sources::new(fs.dir("source"), files);
        let top = sources.top.clone();
        let name = |day: i64| format!("night-{day}");
        for day in FIRST..FIRST + nights {
            (0..(files / 100).max(3)).for_each(|_| sources.change());
            settle();
            share_with_last_night(&top, &repo);
            pleach(snapshot_named(&name(day), &top, &repo)).expect(0);
            // At 02:30.
            date(&repo, &name(day), day * 86_400 + 9_000);
            images.insert(day, seen(&top));
            days.push(day);
            days = survivors(&days);
            images.retain(|day, _| days.contains(day));
            let args = [OsStr::new("prune")].into_iter().chain(POLICY.iter().map(OsStr::new)).chain([repo.as_os_str()]);
            finish(command(args).env("TZ", "UTC")).expect(0);
            assert_eq!(listed(&repo), days.iter().map(|day| name(*day)).collect::<Vec<_>>(), "after {day}");
        }
        for (day, image) in &images {
            let now = seen(&inside(&repo, &name(*day), &top));
            let differs = now.lines().zip(image.lines()).find(|(now, then)| now != then);
            assert!(now == *image, "night {day} is another one now: {differs:?}");
        }
        pleach(["verify".as_ref(), repo.as_os_str()]).expect(0);
        let kept: Vec<PathBuf> = days.iter().map(|day| repo.join(name(*day))).collect();
        let dirs: Vec<&Path> = kept.iter().map(PathBuf::as_path).chain([top.as_path()]).collect();
        rustix::fs::syncfs(File::open(&repo).unwrap()).unwrap();
        let (occupied, distinct) = (disk_space::occupied_blocks(&dirs), distinct_blocks(&dirs));
        let blocks = format!("{nights} nights, {} kept: {occupied} blocks hold {distinct} distinct ones", days.len());
        report(&blocks);
        assert!(occupied * 100 <= distinct * 105, "{blocks}");
    }
}
