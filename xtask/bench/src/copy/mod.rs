//! `cargo xtask bench copy`: pleach with each of its engines, and its peers, copy trees from one filesystem to another.
//!
//! Each run writes to a freshly made filesystem. If source and destination are the same filesystem, the last copy is
//! removed first. The very first copy is not counted, because the images get their blocks with it. The first copy of
//! each contender is compared with its source.

mod contenders;
mod pairs;
mod trees;

use crate::contender::present;
use crate::record::{About, finish};
use crate::report::thousands;
use crate::runner::{self, Plan};
use crate::session::{self, ensure_usual};
use crate::stage::{Cache, Stage};
use anyhow::Result;
use clap::Args;
use contenders::{ALL, CRATES, Tool, Way};
use pairs::Pair;
use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;
pub(crate) use trees::{Tree, regular};
use xtask::command::{output, program};
use xtask::packages;
use xtask::vendor::Census;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each command runs; medians are given
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// These trees
    #[arg(long = "tree", value_delimiter = ',', default_value = "small,medium,large,sparse,real")]
    trees: Vec<Tree>,
    /// From where to where
    #[arg(long = "pair", value_delimiter = ',', default_value = "ext4-xfs,xfs-btrfs,xfs-same,xfs-other")]
    pairs: Vec<Pair>,
    /// With these caches
    #[arg(long = "cache", value_delimiter = ',', default_value = "cold,warm")]
    caches: Vec<Cache>,
    /// Only these take part, which cannot be recorded; all of them, if none is named
    #[arg(long, value_delimiter = ',')]
    only: Vec<Tool>,
    /// How large the trees are, in percent; only 100 can be recorded
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    scale: u64,
    /// Install the tools to compare with, where they are missing
    #[arg(long)]
    install: bool,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.scale == 100 && options.only.is_empty())?;
    let gather = || {
        if options.install {
            packages::install(packages::COPIERS)?;
            CRATES.iter().try_for_each(|tool| tool.install().map(drop))?;
        }
        options.trees.iter().try_for_each(|tree| tree.gather(options.scale))
    };
    session::on_own_filesystems(gather, |dir| on_all(dir, options, save))
}

fn on_all(dir: &Path, options: &Options, save: bool) -> Result<()> {
    for &tree in &options.trees {
        for &pair in &options.pairs {
            println!("{} {}: making the tree", tree.name(), pair.title());
            let (mut stage, about) = pair.stage(tree, options.scale, dir)?;
            on(&mut stage, tree, pair, &about, options, save)?;
            stage.strike()?;
        }
    }
    Ok(())
}

fn on(stage: &mut Stage, tree: Tree, pair: Pair, about: &str, options: &Options, save: bool) -> Result<()> {
    let census = Census::of(&stage.tree())?;
    let mebibytes = trees::data(&stage.tree())? >> 20;
    let sizes = format!("{} files, {mebibytes} MiB of data", thousands(census.files));
    let wanted = if options.only.is_empty() { ALL.to_vec() } else { options.only.clone() };
    for &cache in &options.caches {
        let fitting = wanted.iter().filter(|tool| tool.fits(pair));
        let all =
            present(fitting.map(|&tool| Way { tool, pair, tree, cache, is_compared: Cell::new(false) }).collect());
        // Not counted: the image gets its blocks with this copy.
        output(program("cp").arg("-a").arg(stage.tree()).arg(stage.fresh()))?;
        let label = format!("{} {} {}", tree.name(), pair.name(), cache.name());
        let plan = Plan { label, rounds: options.runs, cache };
        let rows = runner::run(stage, &all, &plan)?;
        stage.clear()?;
        let question = if cache == Cache::Cold { "copy-cold" } else { "copy-warm" };
        let title = format!("{about}, {}", pair.title());
        finish(
            About { question, title, sizes: &sizes, checked: "the first copy of each contender equals its source" },
            &plan,
            &rows,
            save,
        )?;
    }
    Ok(())
}
