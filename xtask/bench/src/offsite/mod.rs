//! `cargo xtask bench offsite`: snapshots of a tree of small files pushed to a store in a directory, against `restic
//! backup` of the live tree: a first push, an unchanged tree, and a night with one changed file in a hundred.

mod contenders;

use crate::contender::present;
use crate::record::{About, finish};
use crate::report;
use crate::runner::{self, Plan};
use crate::session::{self, Rounds, ensure_usual};
use crate::stage::{Cache, Stage};
use anyhow::Result;
use clap::Args;
use contenders::{Job, TOOLS, Way, begin};
use std::path::Path;
use std::process::ExitCode;
use xtask::image::Kind;
use xtask::packages;

/// The size for recorded figures.
const FILES: u32 = 50_000;
/// One of this many files changes before the last snapshot.
const CHANGING: u32 = 100;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Small files in the tree
    #[arg(long, default_value_t = FILES, value_parser = clap::value_parser!(u32).range(100..))]
    files: u32,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.files == FILES)?;
    let gather = || packages::install(packages::STORES).map(drop);
    session::on_each(&options.rounds.kinds, gather, |kind, dir| on(kind, dir, options, save))
}

fn on(kind: Kind, dir: &Path, options: &Options, save: bool) -> Result<()> {
    let size = u64::from(options.files) / 10 + 3072;
    let mut stage = Stage::new(dir, (kind, size), Some((kind, size)))?;
    println!("{}: writing {} files", kind.name(), options.files);
    contenders::fill(&stage, kind, options.files)?;
    let sizes = format!("{} files of 2 to 14 KB", report::thousands(options.files.into()));
    for job in [Job::First, Job::Unchanged, Job::Night] {
        let changed = begin(&stage, job, options.files, CHANGING)?;
        let all = present(TOOLS.map(|tool| Way { tool, job, changed }).into_iter().collect());
        let title = format!("{}, {}", kind.title(), job.name());
        let plan = Plan { label: title.clone(), rounds: options.rounds.runs, cache: Cache::Cold };
        let rows = runner::run(&mut stage, &all, &plan)?;
        let checked = "only the changed files were read, and `restic check` finds no error";
        finish(About { question: "offsite", title, sizes: &sizes, checked }, &plan, &rows, save)?;
    }
    stage.strike()
}
