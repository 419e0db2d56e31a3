//! `cargo xtask bench moved`: a directory of 64 GiB on another filesystem than the repository, unchanged, moved, and with every
//! file renamed: what the next snapshot writes, and what it has to read to know that.
//!
//! Most of the 64 GiB are holes, since what is measured is not the device: they have to be hashed like any data.

use super::du::json_number;
use super::measure::{Cache, Sample, median, sample, sample_into, temporary_file};
use super::{Rounds, pleach, report};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use xtask::command::program;
use xtask::image::{Kind, Mounted};
use xtask::noise::Noise;
use xtask::space;

const SMALL_FILES: u32 = 20_000;
/// Large files, their size, and how much of it is data, in the middle.
const LARGE: (u32, u64, usize) = (8, 8 << 30, 8 << 20);

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
}

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    super::on_own_filesystems(|| Ok(()), |dir| options.rounds.kinds.iter().try_for_each(|&kind| on(kind, dir, options)))
}

/// What happened to the directory since the last snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Night {
    Unchanged,
    Moved,
    Renamed,
}

impl Night {
    fn name(self) -> &'static str {
        match self {
            Night::Unchanged => "unchanged",
            Night::Moved => "the directory moved",
            Night::Renamed => "every file renamed",
        }
    }
}

/// What a snapshot took.
struct Run {
    sample: Sample,
    copied: u64,
    read: u64,
    disk: i64,
}

fn on(kind: Kind, dir: &Path, options: &Options) -> Result<()> {
    let elsewhere = Mounted::create(Kind::Xfs, dir, "elsewhere", 4 << 10)?;
    let fs = Mounted::create(kind, dir, kind.name(), 8 << 10)?;
    let (source, repo) = (elsewhere.path().join("source"), fs.path().join("repo"));
    println!("{}: writing the directory", kind.name());
    let mut present = source.join("0/data");
    fill(&present)?;
    snapshot(&source, &repo, fs.path())?;
    let mut rows = Vec::new();
    let mut number = 0;
    for night in [Night::Unchanged, Night::Moved, Night::Renamed] {
        let mut runs = Vec::new();
        for _ in 0..options.rounds.runs {
            number += 1;
            match night {
                Night::Unchanged => {}
                Night::Moved => present = moved(&source, &present, number)?,
                Night::Renamed => rename_all(&present, number)?,
            }
            space::sync(elsewhere.path())?;
            let run = snapshot(&source, &repo, fs.path())?;
            println!("{} {}: {:.2} s", kind.name(), night.name(), run.sample.wall.as_secs_f64());
            ensure!(run.copied == 0, "{}: {} bytes were copied", night.name(), run.copied);
            runs.push(run);
        }
        rows.push((night.name(), runs));
    }
    let mut copies = Vec::new();
    for _ in 0..options.rounds.runs {
        Cache::Cold.prepare(elsewhere.path(), &source, &[])?;
        let copy = fs.path().join("copy");
        let before = space::used(fs.path())?;
        let taken = sample(program("cp").arg("-a").arg(&source).arg(&copy), fs.path())?;
        let disk = space::used(fs.path())? as i64 - before as i64;
        copies.push(Run { sample: taken, copied: disk as u64, read: taken.read, disk });
        fs::remove_dir_all(copy)?;
    }
    rows.push(("(cp -a of the directory)", copies));
    let section = section(kind, options, &rows);
    println!("\n{section}");
    report::write(&format!("moved {}", kind.name()), &section)
}

fn fill(dir: &Path) -> Result<()> {
    let mut noise = Noise::from(7);
    for number in 0..SMALL_FILES {
        let inner = dir.join(format!("small/{:03}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&inner)?;
        }
        fs::write(inner.join(format!("file-{number:05}")), noise.bytes(4096 + number as usize % 9 * 1000))?;
    }
    for number in 0..LARGE.0 {
        let file = File::create(dir.join(format!("large-{number}")))?;
        file.set_len(LARGE.1)?;
        file.write_all_at(&noise.bytes(LARGE.2), LARGE.1 / 2)?;
    }
    space::sync(dir)
}

/// Moves the directory to a new one.
fn moved(source: &Path, present: &Path, number: u32) -> Result<PathBuf> {
    let above = source.join(number.to_string());
    fs::create_dir(&above)?;
    fs::rename(present, above.join("data"))?;
    Ok(above.join("data"))
}

fn rename_all(dir: &Path, number: u32) -> Result<()> {
    for entry in fs::read_dir(dir)?.collect::<std::io::Result<Vec<_>>>()? {
        if entry.file_type()?.is_dir() {
            rename_all(&entry.path(), number)?;
        } else {
            fs::rename(entry.path(), entry.path().with_extension(format!("{number}")))?;
        }
    }
    Ok(())
}

/// Takes a snapshot with cold caches.
fn snapshot(source: &Path, repo: &Path, root: &Path) -> Result<Run> {
    let before = space::used(root)?;
    Cache::Cold.prepare(root, source, &[])?;
    let mut said = temporary_file()?;
    let mut command = program(pleach());
    command.args(["snapshot", "--json"]).arg(source).arg(repo);
    let sample = sample_into(&mut command, root, said.try_clone()?.into())?;
    let mut text = String::new();
    said.seek(SeekFrom::Start(0))?;
    said.read_to_string(&mut text)?;
    let field = |name| json_number(&text, name).with_context(|| format!("no {name} in {text}"));
    let (copied, read) = (field("copied_bytes")?, field("read_bytes")?);
    Ok(Run { sample, copied, read, disk: space::used(root)? as i64 - before as i64 })
}

fn section(kind: Kind, options: &Options, rows: &[(&str, Vec<Run>)]) -> String {
    let mut text =
        format!("## A directory of 64 GiB moved on another filesystem, the repository on {}\n\n", kind.title());
    text.push_str(&format!(
        "The directory: {} files of {} GiB with {} MiB of data each, the rest holes, and {} files of 4 to 12 KiB; on an XFS. \
         Cold caches. {}. Medians of {} runs. \"Copied\" and \"read\" are pleach's own counts (of `cp`: space on disk, bytes from \
         the device), \"disk\" is what the repository grew by.\n\n",
        LARGE.0,
        LARGE.1 >> 30,
        LARGE.2 >> 20,
        report::thousands(SMALL_FILES.into()),
        report::machine(),
        options.rounds.runs
    ));
    let row = |(name, runs): &(&str, Vec<Run>)| {
        let middle = |what: fn(&Run) -> f64| median(runs.iter().map(what).collect());
        vec![
            (*name).to_string(),
            format!("{:.2}", middle(|run| run.sample.wall.as_secs_f64())),
            format!("{:.2}", middle(|run| run.sample.user.as_secs_f64())),
            report::mebibytes(middle(|run| run.copied as f64)),
            report::mebibytes(middle(|run| run.read as f64)),
            report::mebibytes(middle(|run| run.disk as f64)),
            report::mebibytes(middle(|run| run.sample.memory as f64)),
        ]
    };
    let heading = ["since the last snapshot", "s", "user s", "copied MiB", "read MiB", "disk MiB", "memory MiB"];
    text.push_str(&report::table(&heading, &rows.iter().map(row).collect::<Vec<_>>()));
    text
}
