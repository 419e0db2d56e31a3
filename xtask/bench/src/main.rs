//! `cargo xtask bench`: pleach measured against other tools, side by side, in the same run.
//!
//! A bench is a file or a folder of its own (`snapshot`, `million`, `nights`, `dedupe`, `copy`, `du`, `fiemap`, `put`; `floor` and `statx` are what
//! they are held against). They share how a command is timed (`measure`, `watch`), who the others are (`peers`), how system calls are counted
//! (`calls`), and how a section of `docs/benchmarks.md` is written (`report`).

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person who runs it")]

mod calls;
mod copy;
mod dedupe;
mod du;
mod fiemap;
mod floor;
mod measure;
mod million;
mod moved;
mod nights;
mod peers;
mod put;
mod report;
mod snapshot;
mod statx;
mod watch;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use xtask::command::{self, cargo};
use xtask::image::Kind;
use xtask::namespace::{self, Rights};
use xtask::packages;
use xtask::rundir::RunDir;
use xtask::vendor;

/// Measures pleach against other tools.
#[derive(Parser)]
#[command(bin_name = "cargo xtask bench", disable_version_flag = true)]
struct Cli {
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
    /// What a night costs when little of an image or a database changed
    Nights(nights::Options),
    /// Clone a tree with the bare system calls (one of the things that `bench snapshot` measures)
    #[command(hide = true)]
    Floor {
        /// The tree
        from: PathBuf,
        /// Its copy, which is made
        to: PathBuf,
    },
    /// Ask the status of everything in a tree (one of the things that `bench snapshot` measures)
    #[command(hide = true)]
    Statx {
        /// The tree
        tree: PathBuf,
    },
    /// Copy a tree with the bare system calls (one of the things that `bench copy` measures)
    #[command(hide = true)]
    BareCopy {
        /// How many files at once
        #[arg(long, default_value_t = 8)]
        threads: usize,
        /// Clone instead of reading and writing
        #[arg(long)]
        clone: bool,
        /// Make each file aside, with mode and times, rename it, and sync in the end
        #[arg(long)]
        finished: bool,
        /// The tree
        from: PathBuf,
        /// Its copy, which is made
        to: PathBuf,
    },
    /// Copy large files past the page cache (one of the things that `bench copy` measures)
    #[command(hide = true)]
    BareStream {
        /// Only write as many bytes
        #[arg(long)]
        write_only: bool,
        /// A directory of files
        from: PathBuf,
        /// Its copy, which is made
        to: PathBuf,
    },
    /// Copy with buffers, and write records, of several sizes (what `bench copy --tables` has a release build do)
    #[command(hide = true)]
    BareTables {
        /// How much of it, in percent
        percent: u64,
        /// How often
        runs: u32,
        /// Where files can be written
        root: PathBuf,
    },
    /// Share files with the bare system calls (one of the things that `bench dedupe` measures)
    #[command(hide = true)]
    BareDedupe {
        /// Which files, as the bench has written it down
        plan: PathBuf,
    },
}

/// Options that mean the same in several benches.
#[derive(Args)]
struct Common {
    /// On these filesystems
    #[arg(long = "fs", value_delimiter = ',', default_value = "xfs,btrfs")]
    kinds: Vec<Kind>,
    /// With these caches
    #[arg(long = "cache", value_delimiter = ',', default_value = "cold,warm")]
    caches: Vec<measure::Cache>,
}

/// The same of benches that say themselves what is in memory.
#[derive(Args)]
struct Rounds {
    /// How often each way is taken; medians are given
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// With the repository on these filesystems
    #[arg(long = "fs", value_delimiter = ',', default_value = "xfs,btrfs")]
    kinds: Vec<Kind>,
}

/// The release build that is measured.
fn pleach() -> PathBuf {
    command::target_dir().join("release/pleach")
}

fn main() -> ExitCode {
    match run(&Cli::parse().bench) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(bench: &Bench) -> Result<ExitCode> {
    let options = match bench {
        Bench::Snapshot(options) => options,
        Bench::Dedupe(options) => return dedupe::run(options),
        Bench::Copy(options) => return copy::run(options),
        Bench::Fiemap(options) => return fiemap::run(options),
        Bench::Du(options) => return du::run(options),
        Bench::Moved(options) => return moved::run(options),
        Bench::Nights(options) => return nights::run(options),
        Bench::Put(options) => return put::run(options),
        Bench::Floor { from, to } => {
            floor::run(from, to)?;
            return Ok(ExitCode::SUCCESS);
        }
        Bench::Statx { tree } => {
            statx::run(tree)?;
            return Ok(ExitCode::SUCCESS);
        }
        Bench::BareCopy { threads, clone, finished, from, to } => {
            copy::bare::copy(from, to, *threads, *clone, *finished)?;
            return Ok(ExitCode::SUCCESS);
        }
        Bench::BareStream { write_only, from, to } => {
            copy::bare::stream(from, to, *write_only)?;
            return Ok(ExitCode::SUCCESS);
        }
        Bench::BareTables { percent, runs, root } => {
            copy::tables::measure(root, *percent, *runs)?;
            return Ok(ExitCode::SUCCESS);
        }
        Bench::BareDedupe { plan } => {
            dedupe::bare::run(plan)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let gather = || {
        if options.install {
            packages::install(packages::PEERS)?;
        }
        if options.tree.is_none() && !options.million {
            vendor::large_crates()?;
        }
        Ok(())
    };
    on_own_filesystems(gather, |dir| match options.million {
        true => million::run(dir, options),
        false => snapshot::run(dir, options),
    })
}

/// Builds pleach and gets ready what a bench needs, with the rights of whoever began it; then runs the bench inside the
/// namespaces, with a directory for its images.
fn on_own_filesystems(
    gather: impl FnOnce() -> Result<()>,
    bench: impl FnOnce(&Path) -> Result<()>,
) -> Result<ExitCode> {
    if let Some(dir) = namespace::inside() {
        namespace::end_on_signal()?;
        bench(&dir)?;
        return Ok(ExitCode::SUCCESS);
    }
    let missing = packages::install(packages::MOUNTING)?;
    if !missing.is_empty() {
        bail!("not installed: {}", missing.join(", "));
    }
    command::run(cargo().args(["build", "--release", "--package", "pleach"]))?;
    gather()?;
    report::begin()?;
    let rights = Rights::best();
    if let Some(reason) = namespace::obstacle(rights) {
        bail!("filesystems cannot be mounted here: {reason}");
    }
    let dir = RunDir::create("bench")?;
    namespace::enter(dir.path(), rights)
}
