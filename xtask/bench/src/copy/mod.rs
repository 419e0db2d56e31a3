//! `cargo xtask bench copy`: trees copied from one filesystem to another by pleach with each of its engines, and by its peers.
//!
//! All of them take turns: each round runs every one once, from another one on and every other round backwards, each onto a freshly made
//! filesystem (or, where source and destination are one, with the last copy removed). The first copy of all is not counted: the
//! images get their blocks by it. A sync of the destination is part of everyone's time.

pub(super) mod bare;
mod contenders;
mod pairs;
mod section;
pub(super) mod tables;
mod trees;

use super::calls::Calls;
use super::measure::{Cache, Sample, sample, turns};
use super::report;
use anyhow::{Context, Result, ensure};
use clap::Args;
use contenders::{ALL, CRATES, Conditions, Contender};
use pairs::{Pair, Stage};
use section::section;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use trees::Tree;
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
    /// Only these take part, and docs/benchmarks.md is left alone; all of them, if none is named
    #[arg(long, value_delimiter = ',')]
    only: Vec<Contender>,
    /// How large the trees are, in percent; with others than 100 docs/benchmarks.md is left alone
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    scale: u64,
    /// Count no system calls, and compare no copies: these are runs of their own
    #[arg(long)]
    no_calls: bool,
    /// Install the tools to compare with, where they are missing
    #[arg(long)]
    install: bool,
    /// Instead: how much buffers and records of other sizes take
    #[arg(long)]
    tables: bool,
}

impl Options {
    /// Whether the figures are those that the page is to have.
    fn is_whole(&self) -> bool {
        self.scale == 100 && self.only.is_empty()
    }
}

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.tables {
        return super::on_own_filesystems(|| Ok(()), |dir| tables::run(dir, options.scale, options.runs));
    }
    let gather = || {
        if options.install {
            packages::install(packages::COPIERS)?;
            CRATES.iter().try_for_each(|(name, version)| packages::install_crate(name, version))?;
        }
        options.trees.iter().try_for_each(|tree| tree.gather(options.scale))
    };
    super::on_own_filesystems(gather, |dir| on_all(dir, options))
}

fn on_all(dir: &Path, options: &Options) -> Result<()> {
    let wanted = if options.only.is_empty() { ALL.to_vec() } else { options.only.clone() };
    for &tree in &options.trees {
        for &pair in &options.pairs {
            let present: Vec<_> = wanted.iter().copied().filter(|who| who.fits(pair) && who.is_present()).collect();
            let missing = wanted.iter().filter(|who| !who.is_present());
            missing.for_each(|who| println!("skipped: {who:?}: not installed"));
            println!("{} {}: making the tree", tree.name(), pair.title());
            let mut stage = Stage::set(pair, tree, options.scale, dir)?;
            on(&mut stage, tree, pair, &present, options)?;
            stage.strike()?;
        }
    }
    Ok(())
}

/// What was measured of one contender.
struct Row {
    who: Contender,
    runs: Vec<Sample>,
    /// System calls for each file.
    calls: Option<f64>,
    /// Why it takes part no more.
    failure: Option<String>,
}

fn on(stage: &mut Stage, tree: Tree, pair: Pair, present: &[Contender], options: &Options) -> Result<()> {
    let census = Census::of(&stage.tree())?;
    let data = trees::data(&stage.tree())?;
    for &cache in &options.caches {
        let of = Conditions { pair, tree, cache };
        let mut rows: Vec<_> =
            present.iter().map(|&who| Row { who, runs: Vec::new(), calls: None, failure: None }).collect();
        if !options.no_calls {
            rows.iter_mut().try_for_each(|row| look_at(row, stage, &of))?;
        }
        // Not counted: the image gets its blocks.
        output(program("cp").arg("-a").arg(stage.tree()).arg(stage.fresh()))?;
        for round in 0..options.runs {
            for index in order(round, options.runs, rows.len()) {
                let row = &mut rows[index];
                if row.failure.is_some() {
                    continue;
                }
                stage.clear()?;
                stage.prepare(cache)?;
                // With cold caches the program itself is none of what is measured.
                row.who.version();
                let mut command = row.who.command(&stage.tree(), &stage.fresh(), &stage.stream(), &of);
                match sample(&mut command, stage.written()) {
                    Ok(taken) => {
                        let (wall, synced) = (taken.wall.as_secs_f64(), taken.synced.as_secs_f64());
                        println!(
                            "{} {} {} {}: {wall:.2} s, synced {synced:.2} s",
                            tree.name(),
                            pair.name(),
                            cache.name(),
                            row.who.name(&of)
                        );
                        row.runs.push(taken);
                    }
                    Err(error) => fails(row, &of, &error),
                }
            }
        }
        stage.clear()?;
        let section = section(&of, &stage.about, &census, data, options.runs, &rows);
        println!("\n{section}");
        if options.is_whole() {
            report::write(&format!("copy {} {} {}", tree.name(), pair.name(), cache.name()), &section)?;
        }
    }
    if options.is_whole() {
        report::write("copy", &section::about(&Conditions { pair, tree, cache: Cache::Cold }, present))?;
    }
    Ok(())
}

/// The order of a round. Forth and back alone, whoever is first would run twice in a row, and what disturbs the machine for
/// a minute would be in two of three runs.
fn order(round: u32, runs: u32, contenders: usize) -> Vec<usize> {
    let mut order = turns(round, contenders);
    order.rotate_left(contenders * round as usize / runs as usize);
    let before = round.checked_sub(1).and_then(|round| self::order(round, runs, contenders).pop());
    if contenders > 1 && order.first() == before.as_ref() {
        order.rotate_left(1);
    }
    order
}

/// Who fails is told of, here and in the section, and left out from then on.
fn fails(row: &mut Row, of: &Conditions, error: &anyhow::Error) {
    println!("failed: {}: {error:#}", row.who.name(of));
    row.failure = Some(error.to_string().lines().next().unwrap_or_default().to_string());
}

/// Counts the calls of a run on a small tree, and compares what it made.
fn look_at(row: &mut Row, stage: &mut Stage, of: &Conditions) -> Result<()> {
    let (sample, fresh) = (stage.sample(), stage.fresh());
    stage.clear()?;
    let command = row.who.command(&sample, &fresh, &stage.stream(), of);
    let log = stage.written().join("strace.log");
    match Calls::count(&command, &log) {
        Ok(calls) => {
            let files = Census::of(&sample)?.files;
            row.calls = calls.map(|calls| calls.total() as f64 / files as f64);
        }
        Err(error) => {
            fails(row, of, &error);
            return Ok(());
        }
    }
    if row.who == Contender::Device {
        // It copies another thing.
        row.calls = None;
        return Ok(());
    }
    ensure!(fresh.is_dir(), "{} has made nothing", row.who.name(of));
    let compared = output(program("diff").args(["-rq", "--no-dereference"]).arg(&sample).arg(&fresh));
    // The bare calls make no links.
    let is_bare = matches!(row.who, Contender::BareCalls | Contender::FinishedCalls);
    if !is_bare || of.tree != Tree::Real {
        compared.with_context(|| format!("{} has made something else", row.who.name(of)))?;
    }
    let _ = fs::remove_file(log);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_runs_twice_in_a_row() {
        for (runs, contenders) in [(2, 5), (3, 15), (3, 16), (5, 12)] {
            let all: Vec<_> = (0..runs).flat_map(|round| order(round, runs, contenders)).collect();
            assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{runs} {contenders}: {all:?}");
            assert_eq!(all.iter().filter(|who| **who == 0).count(), runs as usize);
        }
    }
}
