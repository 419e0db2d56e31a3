//! `cargo xtask bench`: pleach measured against other tools and against the floors, side by side in the same run.
//!
//! A bench is a file or a folder of its own (`snapshot`, `changes`, `dedupe`, `copy`, `million`, `nights`, `chain`,
//! `moved`, `put`, `du`, `fiemap`, `prune`, `replicate`, `offsite`, `scale`, `verify`, `versus`). `session` starts it.
//! It names its contenders (`contender`) and its filesystems (`stage`). `runner` has them take turns, `measure` times
//! one run, `record` and `results` keep the medians, and `report` writes `docs/benchmarks.md` from the medians and
//! `questions`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person who runs it")]

mod chain;
mod changes;
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
mod offsite;
mod prune;
mod put;
mod questions;
mod record;
mod replicate;
mod report;
mod results;
mod runner;
mod scale;
mod session;
mod small_files;
mod snapshot;
mod stage;
mod statistics;
mod tools;
mod verify;
mod versus;
mod watch;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

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
    /// A snapshot of many files after changes in few of them, against find
    Changes(changes::Options),
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
    /// What a snapshot costs when little of an image, a database or many small files changed
    Nights(nights::Options),
    /// The last night of a year against an early one
    Chain(chain::Options),
    /// 50 of 60 snapshots removed, against rm
    Prune(prune::Options),
    /// Ten nights to another filesystem, against btrfs send and rsync
    Replicate(replicate::Options),
    /// How time and memory grow with the number of files and extents
    Scale(scale::Options),
    /// Snapshots pushed to a store of restic's format, against restic backup
    Offsite(offsite::Options),
    /// 20 snapshots that share their data read once, against cat of one of them
    Verify(verify::Options),
    /// Another build of pleach against this one, in turns
    Versus(versus::Options),
    /// Write docs/benchmarks.md from the recorded results
    Report(report::Options),
    /// Do the work that no tool can avoid (which other benches measure)
    #[command(hide = true, subcommand)]
    Floor(floor::Floor),
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
        Bench::Changes(options) => changes::run(options, save),
        Bench::Dedupe(options) => dedupe::run(options, save),
        Bench::Copy(options) => copy::run(options, save),
        Bench::Fiemap(options) => fiemap::run(options, save),
        Bench::Du(options) => du::run(options, save),
        Bench::Moved(options) => moved::run(options, save),
        Bench::Put(options) => put::run(options, save),
        Bench::Nights(options) => nights::run(options, save),
        Bench::Chain(options) => chain::run(options, save),
        Bench::Prune(options) => prune::run(options, save),
        Bench::Replicate(options) => replicate::run(options, save),
        Bench::Offsite(options) => offsite::run(options, save),
        Bench::Scale(options) => scale::run(options, save),
        Bench::Verify(options) => verify::run(options, save),
        Bench::Versus(options) => versus::run(options),
        Bench::Report(options) => report::report(options).map(|()| ExitCode::SUCCESS),
        Bench::Floor(floor) => floor::run(floor).map(|()| ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::documents;

    #[test]
    fn each_bench_in_the_documents_parses() {
        let lines = documents::lines(&documents::read().unwrap(), &["cargo", "xtask", "bench"]);
        assert!(lines.len() > 20, "{} lines", lines.len());
        let mistakes = lines.iter().filter_map(|line| {
            let words = std::iter::once("cargo xtask bench").chain(line.words.iter().map(String::as_str));
            let error = Cli::try_parse_from(words).err()?;
            Some(format!("{}: {error}", line.place))
        });
        assert_eq!(mistakes.collect::<Vec<_>>(), [""; 0]);
    }
}
