//! `cargo xtask bench`: pleach measured against other tools and against the floors, side by side in the same run.
//!
//! A bench is a file or a folder of its own (`snapshot`, `dedupe`, `copy`, `million`, `nights`, `moved`, `put`, `du`,
//! `fiemap`, `versus`). It names its contenders (`contender`) and its filesystems (`stage`). `runner` has them take
//! turns, `measure` times one run, `results` keeps the medians, and `report` writes `docs/benchmarks.md` from the
//! medians and `questions`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person who runs it")]

mod contender;
mod copy;
mod dedupe;
mod du;
mod fiemap;
mod floor;
mod machine;
mod measure;
mod million;
mod moved;
mod nights;
mod put;
mod questions;
mod report;
mod results;
mod runner;
mod snapshot;
mod stage;
mod statistics;
mod tools;
mod versus;
mod watch;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use stage::Cache;
use std::path::Path;
use std::process::ExitCode;
use xtask::command::{self, cargo};
use xtask::image::Kind;
use xtask::namespace::{self, Rights};
use xtask::packages;
use xtask::rundir::RunDir;

/// Measures pleach against other tools.
#[derive(Parser)]
#[command(bin_name = "cargo xtask bench", disable_version_flag = true)]
struct Cli {
    /// Record the medians in xtask/bench/results; only with the usual sizes and contenders
    #[arg(long, global = true)]
    save: bool,
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Snapshots of a large real tree, against cp and rsync
    Snapshot(snapshot::Options),
    /// Space given back, against jdupes, fclones, rmlint and duperemove
    Dedupe(dedupe::Options),
    /// Trees copied from one filesystem to another, against cp, rsync, tar, xcp and cpz
    Copy(copy::Options),
    /// The extents of a file that has a million of them, against filefrag and xfs_io
    Fiemap(fiemap::Options),
    /// What a repository takes and shares, against btrfs filesystem du and du
    Du(du::Options),
    /// A directory of 64 GiB that moved on another filesystem
    Moved(moved::Options),
    /// A stream that replaces its last version, against cat and fsync
    Put(put::Options),
    /// What a snapshot costs when little of an image or a database changed
    Nights(nights::Options),
    /// Another build of pleach against this one, in turns
    Versus(versus::Options),
    /// Write docs/benchmarks.md from the recorded results
    Report(report::Options),
    /// Do the work that no tool can avoid (which other benches measure)
    #[command(hide = true, subcommand)]
    Floor(floor::Floor),
}

/// Options that mean the same in several benches.
#[derive(Args)]
struct Common {
    /// On these filesystems
    #[arg(long = "fs", value_delimiter = ',', default_value = "xfs,btrfs")]
    kinds: Vec<Kind>,
    /// With these caches
    #[arg(long = "cache", value_delimiter = ',', default_value = "cold,warm")]
    caches: Vec<Cache>,
}

/// The same for benches that choose the state of the caches themselves.
#[derive(Args)]
struct Rounds {
    /// How often each way is taken; medians are given
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// With the repository on these filesystems
    #[arg(long = "fs", value_delimiter = ',', default_value = "xfs,btrfs")]
    kinds: Vec<Kind>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode> {
    let save = cli.save;
    match &cli.bench {
        Bench::Snapshot(options) => snapshot::run(options, save),
        Bench::Dedupe(options) => dedupe::run(options, save),
        Bench::Copy(options) => copy::run(options, save),
        Bench::Fiemap(options) => fiemap::run(options, save),
        Bench::Du(options) => du::run(options, save),
        Bench::Moved(options) => moved::run(options, save),
        Bench::Put(options) => put::run(options, save),
        Bench::Nights(options) => nights::run(options, save),
        Bench::Versus(options) => versus::run(options),
        Bench::Report(options) => report::report(options).map(|()| ExitCode::SUCCESS),
        Bench::Floor(floor) => floor::run(floor).map(|()| ExitCode::SUCCESS),
    }
}

/// Builds pleach and prepares the needs of a bench with the caller's own rights; then runs the bench inside the
/// namespaces, with a directory for its images.
fn on_own_filesystems(
    gather: impl FnOnce() -> Result<()>,
    bench: impl FnOnce(&Path) -> Result<()>,
) -> Result<ExitCode> {
    // Both are built together, so that they get the same features of shared dependencies, and none is built twice.
    let build =
        || command::run(cargo().args(["build", "--release", "--package", "pleach", "--package", "pleach-bench"]));
    enter(|| build().and_then(|()| gather()), bench)
}

/// Like `on_own_filesystems`, but builds nothing.
fn enter(gather: impl FnOnce() -> Result<()>, bench: impl FnOnce(&Path) -> Result<()>) -> Result<ExitCode> {
    if let Some(dir) = namespace::inside() {
        namespace::end_on_signal()?;
        bench(&dir)?;
        return Ok(ExitCode::SUCCESS);
    }
    let missing = packages::install(packages::MOUNTING)?;
    if !missing.is_empty() {
        bail!("not installed: {}", missing.join(", "));
    }
    gather()?;
    let rights = Rights::best();
    if let Some(reason) = namespace::obstacle(rights) {
        bail!("filesystems cannot be mounted here: {reason}");
    }
    let dir = RunDir::create("bench")?;
    namespace::enter(dir.path(), rights)
}

/// Refuses to record figures of a bench that ran with sizes other than those of the page.
fn ensure_usual(save: bool, is_usual: bool) -> Result<()> {
    if save && !is_usual {
        bail!("--save records only figures of the usual sizes and of all contenders");
    }
    Ok(())
}
