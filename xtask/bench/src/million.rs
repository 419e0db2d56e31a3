//! The memory for 1,000,000 small files: `cargo xtask bench snapshot --million` and
//! `cargo xtask bench dedupe --million`.
//!
//! Snapshots: a thousand directories of a thousand files, and all files in one directory, which is the hardest case for
//! a walker that keeps directories in memory. Dedupes: files of many sizes, and files of one size, which is the hardest
//! case for a program that keeps one size in memory; each file exists twice.

use crate::contender::{Contender, Figures, Role};
use crate::measure::summary;
use crate::record::{About, finish};
use crate::runner::{self, Measured, Plan};
use crate::small_files::SmallFiles;
use crate::stage::{Cache, Stage};
use crate::tools::{plain, pleach};
use anyhow::{Result, ensure};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::image::Kind;

const FILES: u32 = 1_000_000;
/// The maximum memory of a run.
const SNAPSHOT_LIMIT: f64 = (400 << 20) as f64;
const DEDUPE_LIMIT: f64 = (300 << 20) as f64;

/// Measures snapshots.
pub(crate) fn snapshots(dir: &Path, kinds: &[Kind], save: bool) -> Result<()> {
    for &kind in kinds {
        for (shape, dirs) in [("1,000 directories", 1000), ("one directory", 1)] {
            let mut stage = Stage::new(dir, (kind, 20 << 10), None)?;
            println!("{}: writing 1,000,000 files in {shape}", kind.name());
            fill_dirs(&stage.tree(), dirs)?;
            let all = [Run { job: Job::Snapshot, is_first: true }, Run { job: Job::Snapshot, is_first: false }];
            let sizes = "1,000,000 files of 64 to 563 bytes";
            measure(&mut stage, &all, &format!("snapshot, {shape}"), sizes, SNAPSHOT_LIMIT, save)?;
            stage.strike()?;
        }
    }
    Ok(())
}

/// Measures dedupes.
pub(crate) fn dedupes(dir: &Path, kinds: &[Kind], save: bool) -> Result<()> {
    for &kind in kinds {
        for (shape, size) in [("many sizes", None), ("one size", Some(6000))] {
            let mut stage = Stage::new(dir, (kind, 24 << 10), None)?;
            println!("{}: writing 1,000,000 files of {shape}", kind.name());
            fill_pairs(&stage.tree(), size)?;
            stage.keep()?;
            let sizes =
                if size.is_some() { "files of 6,000 bytes, each twice" } else { "files of 4 to 8 KiB, each twice" };
            for is_cached in [true, false] {
                stage.restore()?;
                let job = Job::Dedupe { is_cached };
                let all = [Run { job, is_first: true }, Run { job, is_first: false }];
                let cache = if is_cached { "" } else { " `--no-cache`" };
                measure(&mut stage, &all, &format!("dedupe{cache}, {shape}"), sizes, DEDUPE_LIMIT, save)?;
            }
            stage.strike()?;
        }
    }
    Ok(())
}

/// One round with a first and a second run.
fn measure(stage: &mut Stage, all: &[Run], what: &str, sizes: &str, limit: f64, save: bool) -> Result<()> {
    let title = format!("{what}, {}", stage.kind().title());
    let plan = Plan { label: title.clone(), rounds: 1, cache: Cache::Cold };
    let rows = runner::run(stage, all, &plan)?;
    let about = About { question: "memory", title, sizes, checked: "every file found, every pair shared once" };
    finish(about, &plan, &rows, save)?;
    let most = rows.iter().map(|row: &Measured| row.median("memory_bytes")).fold(0.0, f64::max);
    ensure!(most <= limit, "a run took {most} bytes of memory; the limit is {limit}");
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Snapshot,
    Dedupe { is_cached: bool },
}

struct Run {
    job: Job,
    is_first: bool,
}

impl Contender for Run {
    fn name(&self) -> String {
        if self.is_first { "first run".into() } else { "second run".into() }
    }

    fn role(&self) -> Role {
        Role::Ours
    }

    fn program(&self) -> Option<PathBuf> {
        Some(pleach())
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        stage.remount()
    }

    fn command(&self, stage: &Stage) -> Command {
        let mut command = plain(self.program());
        match self.job {
            Job::Snapshot => command.args(["snapshot", "--json"]).arg(stage.tree()).arg(stage.fresh()),
            Job::Dedupe { is_cached: true } => {
                command.args(["dedupe", "--json", "--cache"]).arg(stage.dir().join("cache")).arg(stage.tree())
            }
            Job::Dedupe { is_cached: false } => command.args(["dedupe", "--json", "--no-cache"]).arg(stage.tree()),
        };
        command
    }

    fn is_heard(&self) -> bool {
        true
    }

    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        ensure!(summary(said, "files")? == f64::from(FILES), "not all files were found: {said}");
        if matches!(self.job, Job::Dedupe { .. }) {
            let pairs = if self.is_first { f64::from(FILES / 2) } else { 0.0 };
            ensure!(summary(said, "duplicate_files")? == pairs, "not all pairs were shared, or some twice: {said}");
        }
        let cache = stage.dir().join("cache");
        if !self.is_first && cache.exists() {
            fs::remove_file(cache)?;
        }
        Ok(Figures::new())
    }
}

fn fill_dirs(tree: &Path, dirs: u32) -> Result<()> {
    let content = [b'x'; 1000];
    SmallFiles { tree, files: FILES.into(), in_directory: (FILES / dirs).into() }
        .fill(|number, mut file| Ok(file.write_all(&content[..64 + number as usize % 500])?))
}

/// Half a million contents, each of them twice.
fn fill_pairs(tree: &Path, size: Option<usize>) -> Result<()> {
    let mut content: Vec<u8> = (0..8192_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    SmallFiles { tree, files: FILES.into(), in_directory: 1000 }.fill(|number, mut file| {
        let of = number as u32 % (FILES / 2);
        content[..4].copy_from_slice(&of.to_le_bytes());
        let size = size.unwrap_or(4096 + of as usize * 7919 % 4097);
        Ok(file.write_all(&content[..size])?)
    })
}
