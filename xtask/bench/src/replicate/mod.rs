//! `cargo xtask bench replicate`: ten nights of a tree with many small files and a large image, replicated to another
//! filesystem. First the whole repository: its trees, its space and the bytes of the stream are checked. Then, in turns
//! with other tools, the last night alone.

mod contenders;
mod nights;

use crate::record::{About, finish};
use crate::report;
use crate::runner::{self, Plan};
use crate::session::{self, ensure_usual};
use crate::stage::{Cache, Stage};
use anyhow::{Result, bail};
use clap::Args;
use contenders::{Night, Tool, Whole};
use nights::Nights;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use xtask::image::Kind;
use xtask::packages;

/// The sizes for recorded figures.
const FILES: u32 = 50_000;
const IMAGE: u64 = 4096;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often the last night is replicated in each way; medians are given
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// From and to these filesystems
    #[arg(
        long,
        value_name = "FROM:TO",
        value_delimiter = ',',
        default_value = "xfs:xfs,btrfs:btrfs,xfs:btrfs,btrfs:xfs"
    )]
    pairs: Vec<Pair>,
    /// Small files in the tree
    #[arg(long, default_value_t = FILES, value_parser = clap::value_parser!(u32).range(100..))]
    files: u32,
    /// The size of the image, in MiB
    #[arg(long, default_value_t = IMAGE, value_parser = clap::value_parser!(u64).range(16..))]
    image: u64,
}

/// The filesystems of both repositories.
#[derive(Clone, Copy, Debug)]
struct Pair(Kind, Kind);

impl FromStr for Pair {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Pair> {
        let kind = |name: &str| match name {
            "xfs" => Ok(Kind::Xfs),
            "btrfs" => Ok(Kind::Btrfs),
            _ => bail!("a filesystem is xfs or btrfs"),
        };
        match text.split_once(':') {
            Some((from, to)) => Ok(Pair(kind(from)?, kind(to)?)),
            None => bail!("write FROM:TO"),
        }
    }
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.files == FILES && options.image == IMAGE)?;
    let gather = || {
        packages::install(packages::PEERS)?;
        Ok(())
    };
    session::on_own_filesystems(gather, |dir| options.pairs.iter().try_for_each(|&pair| on(pair, dir, options, save)))
}

fn on(Pair(from, to): Pair, dir: &Path, options: &Options, save: bool) -> Result<()> {
    let size = 4 * options.image + u64::from(options.files) / 10 + 2048;
    let mut stage = Stage::new(dir, (from, size), Some((to, size)))?;
    let nights = Nights::fill(&stage, from, options.files, options.image)?;
    let sizes = format!(
        "{} snapshots of {} files of 2 to 14 KB and an image of {} MiB; one in {} of both changed between two",
        nights::COUNT,
        report::thousands(options.files.into()),
        options.image,
        nights::CHANGING,
    );
    let title = |what: &str| format!("{} to {}, {what}", from.title(), to.title());

    let plan = Plan { label: title("all"), rounds: 1, cache: Cache::Cold };
    let rows = runner::run(&mut stage, &[Whole { nights: &nights }], &plan)?;
    let checked = "equal trees by rsync's check, equal space by `btrfs filesystem du` or the blocks in use, the bytes \
                   of the stream, and a second run that sends nothing";
    let about = About { question: "replicate", title: plan.label.clone(), sizes: &sizes, checked };
    finish(about, &plan, &rows, save)?;

    let mut tools = vec![Tool::Pleach, Tool::Rsync];
    if (from, to) == (Kind::Btrfs, Kind::Btrfs) {
        tools.push(Tool::Send);
    }
    let all = crate::contender::present(tools.into_iter().map(Night).collect());
    for night in &all {
        night.begin(&stage)?;
    }
    let plan = Plan { label: title("the last night"), rounds: options.runs, cache: Cache::Cold };
    let rows = runner::run(&mut stage, &all, &plan)?;
    let checked = "the tree of the last night equals the original by rsync's check";
    let about = About { question: "replicate", title: plan.label.clone(), sizes: &sizes, checked };
    finish(about, &plan, &rows, save)?;
    stage.strike()
}
