//! `cargo xtask bench nights`: what a night costs when little of a large file changed, in space and in time: the image of a
//! virtual machine, changed in place and written whole, and the data directory of a database.
//!
//! Space is what `df` shows before and after, when it stands still. Time is measured with cold caches, in turns with `cat`,
//! which reads the source once. What changed is told by comparing the last snapshot with the source, block by block; after
//! the last night that must find nothing.
//!
//! Beside each night stands its floor: the bare writes on the same filesystem, from the same last snapshot.

mod blocks;
mod floor;
mod subject;
mod tables;

use super::du::json_number;
use super::measure::{Cache, Sample, sample, sample_into, temporary_file, turns};
use super::{Rounds, pleach};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use subject::Subject;
use xtask::command::{output, program};
use xtask::image::{Kind, Mounted};
use xtask::packages;
use xtask::space;

/// The image whose figures are written down, in GiB.
const GIB: u64 = 8;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// How large the image is, in GiB; with another size than the usual docs/benchmarks.md is left alone
    #[arg(long, default_value_t = GIB, value_parser = clap::value_parser!(u64).range(1..=1024))]
    gib: u64,
    /// How large the database is, in pgbench's scale (15 MiB each)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    scale: u32,
}

/// Where the source lies, seen from the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// On another filesystem, which is XFS.
    Elsewhere,
    /// On the same.
    Here,
}

/// Space in use at one moment, or what was added to it, in bytes.
#[derive(Clone, Copy, Debug)]
struct Added {
    /// As `df` shows it.
    all: i64,
    /// What of it is data, where the filesystem tells: on Btrfs. The rest are its trees.
    data: Option<i64>,
}

impl Added {
    /// What is in use now.
    fn now(kind: Kind, root: &Path) -> Result<Added> {
        Ok(Added { all: space::used(root)? as i64, data: data_used(kind, root) })
    }

    fn since(self, before: Added) -> Added {
        let data = self.data.zip(before.data).map(|(after, before)| after - before);
        Added { all: self.all - before.all, data }
    }
}

/// What one night took.
#[derive(Clone, Copy, Debug)]
struct Night {
    /// Bytes of blocks that differ from the last snapshot.
    changed: u64,
    /// What the snapshot took.
    added: Added,
    /// What the bare writes of the same night take.
    floor: Added,
    /// Bytes that the snapshot read, by its own account.
    read: u64,
    snapshot: Sample,
    cat: Sample,
}

/// The nights of one subject in one place.
struct Nights {
    subject: Subject,
    from: From,
    size: u64,
    files: u64,
    nights: Vec<Night>,
}

/// A file that is written whole: bytes in use in the repository and its live file, and after that was deleted.
struct Rewritten {
    size: u64,
    changed: u64,
    all: u64,
    snapshots: u64,
    seconds: f64,
}

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let gather = || packages::install(packages::DATABASE).map(drop);
    super::on_own_filesystems(gather, |dir| options.rounds.kinds.iter().try_for_each(|&kind| on(kind, dir, options)))
}

fn on(kind: Kind, dir: &Path, options: &Options) -> Result<()> {
    let image = Subject::Image { bytes: options.gib << 30 };
    let mut subjects = vec![image];
    match subject::database(options.scale) {
        Some(database) => subjects.push(database),
        None => println!("skipped: no PostgreSQL with pgbench here"),
    }
    let mut all = Vec::new();
    for subject in subjects {
        for from in [From::Elsewhere, From::Here] {
            all.push(nights(kind, dir, subject, from, options.rounds.runs)?);
        }
    }
    let rewritten = rewritten(kind, dir, options.gib << 30)?;
    let section = tables::section(kind, &all, &rewritten, options.rounds.runs);
    println!("\n{section}");
    if options.gib == GIB {
        super::report::write(&format!("nights {}", kind.name()), &section)?;
    }
    Ok(())
}

fn mebibytes(bytes: u64) -> u64 {
    (bytes >> 20) + 1
}

/// Makes a filesystem, has `work` done on it, checks it, and gives its space back.
fn with<T>(kind: Kind, dir: &Path, name: &str, size: u64, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let mounted = Mounted::create(kind, dir, name, mebibytes(size))?;
    let result = work(mounted.path());
    if result.is_ok() {
        mounted.check()?;
    } else {
        drop(mounted);
    }
    fs::remove_file(dir.join(format!("{name}.img")))?;
    result
}

fn nights(kind: Kind, dir: &Path, subject: Subject, from: From, runs: u32) -> Result<Nights> {
    let (size, room) = (subject.size(), subject.size() / 4 + (3 << 30));
    match from {
        From::Here => with(kind, dir, kind.name(), size + room, |root| measure(kind, root, root, subject, from, runs)),
        From::Elsewhere => with(Kind::Xfs, dir, "source", size + room, |source| {
            with(kind, dir, kind.name(), size + room, |root| measure(kind, source, root, subject, from, runs))
        }),
    }
}

fn measure(kind: Kind, source: &Path, root: &Path, subject: Subject, from: From, runs: u32) -> Result<Nights> {
    let (source, repo) = (source.join("source"), root.join("repo"));
    fs::create_dir(&source)?;
    println!("{} {:?} {}: making it", kind.name(), from, subject.name());
    subject.make(&source)?;
    output(&mut snapshot(&source, &repo))?;
    let mut nights = Vec::new();
    for round in 0..runs {
        subject.change(&source, round)?;
        space::sync(&source)?;
        let changed = blocks::differing(&latest(&repo, &source), &source)?;
        let last = repo.join(fs::read_link(repo.join("latest"))?);
        let before = Added::now(kind, root)?;
        let (mut taken, mut said) = ([Sample::default(); 2], String::new());
        for index in turns(round, 2) {
            Cache::Cold.prepare(root, &source, &[])?;
            taken[index] = if index == 0 {
                let mut told = temporary_file()?;
                let sample = sample_into(&mut snapshot(&source, &repo), root, told.try_clone()?.into())?;
                told.seek(SeekFrom::Start(0))?;
                told.read_to_string(&mut said)?;
                sample
            } else {
                sample(program("find").arg(&source).args(["-type", "f", "-exec", "cat", "{}", "+"]), root)?
            };
        }
        let [snapshot, cat] = taken;
        let after = Added::now(kind, root)?;
        // It stays, so that the next night finds nothing half freed.
        floor::make(kind, from, &last, &source, &root.join(format!("floor-{round}")))?;
        let (added, floor) = (after.since(before), Added::now(kind, root)?.since(after));
        let read = json_number(&said, "read_bytes").context("the summary tells what was read")?;
        let night = Night { changed, added, floor, read, snapshot, cat };
        println!(
            "{} {from:?} {}: changed {changed}, added {added:?}, floor {floor:?}, {:.2} s, cat {:.2} s",
            kind.name(),
            subject.name(),
            snapshot.wall.as_secs_f64(),
            cat.wall.as_secs_f64()
        );
        nights.push(night);
    }
    ensure!(blocks::differing(&latest(&repo, &source), &source)? == 0, "the last snapshot is not what its source is");
    Ok(Nights { subject, from, size: blocks::size(&source)?, files: blocks::files(&source)?, nights })
}

fn rewritten(kind: Kind, dir: &Path, size: u64) -> Result<Rewritten> {
    with(kind, dir, kind.name(), 2 * size + size / 4 + (2 << 30), |root| {
        let (source, repo) = (root.join("source"), root.join("repo"));
        let subject = Subject::Image { bytes: size };
        fs::create_dir(&source)?;
        let empty = space::used(root)?;
        println!("{} written whole: making it", kind.name());
        subject.make(&source)?;
        output(&mut snapshot(&source, &repo))?;
        subject.rewrite(&source)?;
        space::sync(root)?;
        let changed = blocks::differing(&latest(&repo, &source), &source)?;
        Cache::Cold.prepare(root, &source, &[])?;
        let taken = sample(&mut snapshot(&source, &repo), root)?;
        ensure!(blocks::differing(&latest(&repo, &source), &source)? == 0, "the snapshot is not what its source is");
        let all = space::used(root)? - empty;
        fs::remove_dir_all(&source)?;
        let snapshots = space::used(root)? - empty;
        println!("{} written whole: {all} bytes with the live file, {snapshots} without", kind.name());
        Ok(Rewritten { size, changed, all, snapshots, seconds: taken.wall.as_secs_f64() })
    })
}

fn snapshot(source: &Path, repo: &Path) -> Command {
    let mut command = program(pleach());
    command.args(["snapshot", "--json"]).arg(source).arg(repo);
    command
}

/// Where the newest snapshot keeps a source.
fn latest(repo: &Path, source: &Path) -> PathBuf {
    repo.join("latest").join(source.strip_prefix("/").unwrap_or(source))
}

/// The bytes of data on a Btrfs, without its trees.
fn data_used(kind: Kind, root: &Path) -> Option<i64> {
    if kind != Kind::Btrfs {
        return None;
    }
    let said = output(program("btrfs").args(["filesystem", "df", "--raw"]).arg(root)).ok()?;
    let line = said.lines().find(|line| line.starts_with("Data"))?;
    line.split_once("used=")?.1.trim().parse().ok()
}
