//! `cargo xtask bench dedupe`: equal content shared by pleach and by its peers, on real and on made trees.
//!
//! Each run gets a fresh copy of the same filesystem image, so everyone finds the same tree in the same place on the disk.
//! What was given back is read off the filesystem's own free space, before and after, each time freshly mounted.

pub(super) mod bare;
mod census;
mod contenders;
mod million;
mod section;
mod trees;

use super::measure::{Cache, Sample, sample_into, temporary_file};
use super::{Common, report};
use anyhow::{Context, Result};
use census::Census;
use clap::Args;
use contenders::{ALL, Contender, Told};
use section::{Conditions, section};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::ExitCode;
use trees::Tree;
use xtask::command::{output, program};
use xtask::image::{Kind, Mounted};
use xtask::packages;
use xtask::space;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each command runs; medians are given
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    common: Common,
    /// On these trees
    #[arg(long = "tree", value_delimiter = ',', default_value = "releases,images,snapshots,small")]
    trees: Vec<Tree>,
    /// Only these take part; all of them, if none is named
    #[arg(long, value_delimiter = ',')]
    only: Vec<Contender>,
    /// Install the tools to compare with, where they are missing
    #[arg(long)]
    install: bool,
    /// Instead: the memory that a dedupe of 1,000,000 small files takes
    #[arg(long)]
    million: bool,
}

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.million {
        return super::on_own_filesystems(|| Ok(()), |dir| million::run(dir, options));
    }
    let gather = || {
        if options.install {
            packages::install(packages::DEDUPERS)?;
            packages::install_crate("fclones", contenders::FCLONES)?;
        }
        options.trees.iter().try_for_each(|tree| tree.gather())
    };
    super::on_own_filesystems(gather, |dir| on_all(dir, options))
}

fn on_all(dir: &Path, options: &Options) -> Result<()> {
    let wanted = if options.only.is_empty() { ALL.to_vec() } else { options.only.clone() };
    let present: Vec<_> = wanted.iter().copied().filter(|who| who.is_present()).collect();
    for who in wanted.iter().filter(|who| !present.contains(who)) {
        println!("skipped: {}: not installed", who.name());
    }
    for &kind in &options.common.kinds {
        for &tree in &options.trees {
            let pristine = dir.join("pristine.img");
            let (about, census) = make(kind, tree, dir, &pristine)?;
            for &cache in &options.common.caches {
                let rows = measure(kind, tree, cache, dir, &pristine, &present, options.runs)?;
                let section = section(&Conditions { kind, tree, cache, runs: options.runs }, &about, &census, &rows);
                println!("\n{section}");
                report::write(&format!("dedupe {} {} {}", tree.name(), kind.name(), cache.name()), &section)?;
            }
            fs::remove_file(pristine)?;
        }
    }
    Ok(())
}

/// Makes the image that every run gets a copy of, describes its tree, and tells what there is to find in it.
fn make(kind: Kind, tree: Tree, dir: &Path, pristine: &Path) -> Result<(String, Census)> {
    println!("{}: making the tree \"{}\"", kind.name(), tree.name());
    let made = Mounted::create(kind, dir, "pristine", 8 << 10)?;
    let about = tree.fill(&made.path().join("tree"))?;
    let census = Census::of(&made.path().join("tree"))?;
    space::sync(made.path())?;
    made.check().with_context(|| format!("{} is not clean", pristine.display()))?;
    Ok((about, census))
}

/// What was measured of one contender.
struct Row {
    who: Contender,
    first: Vec<Run>,
    second: Vec<Run>,
}

/// One run.
struct Run {
    sample: Sample,
    /// Bytes that the device gave out.
    device: u64,
    /// Bytes that df shows more free than before.
    freed: i64,
    /// What it said itself, where it says so.
    told: Option<Told>,
}

fn measure(
    kind: Kind,
    tree: Tree,
    cache: Cache,
    dir: &Path,
    pristine: &Path,
    present: &[Contender],
    runs: u32,
) -> Result<Vec<Row>> {
    let mut rows: Vec<_> = present.iter().map(|&who| Row { who, first: Vec::new(), second: Vec::new() }).collect();
    for round in 0..runs {
        for index in super::measure::turns(round, rows.len()) {
            let who = rows[index].who;
            let (image, own) = (dir.join("run.img"), dir.join("own"));
            output(program("cp").args(["--sparse=always", "--reflink=auto"]).arg(pristine).arg(&image))?;
            fs::create_dir_all(&own)?;
            let mut mounted = Mounted::open(kind, &image, &dir.join("run"))?;
            let first = once(who, &mut mounted, &own, cache)?;
            let second = once(who, &mut mounted, &own, cache)?;
            for (which, run) in [("first", &first), ("second", &second)] {
                println!(
                    "{} {} {} {}: {which} {:.2} s, freed {} MiB",
                    kind.name(),
                    tree.name(),
                    cache.name(),
                    who.name(),
                    run.sample.wall.as_secs_f64(),
                    report::mebibytes(run.freed as f64)
                );
            }
            rows[index].first.push(first);
            rows[index].second.push(second);
            mounted.check()?;
            fs::remove_file(&image)?;
            fs::remove_dir_all(&own)?;
        }
    }
    Ok(rows)
}

fn once(who: Contender, fs: &mut Mounted, own: &Path, cache: Cache) -> Result<Run> {
    let tree = fs.path().join("tree");
    who.prepare(&tree, own)?;
    fs.remount()?;
    let before = space::used_now(fs.path())?;
    cache.prepare(fs.path(), &tree, &[])?;
    let mut said = temporary_file()?;
    let read = device_bytes(fs)?;
    let sample = sample_into(&mut who.command(&tree, own), fs.path(), said.try_clone()?.into())?;
    let device = device_bytes(fs)? - read;
    fs.remount()?;
    let freed = before as i64 - space::used_now(fs.path())? as i64;
    let mut text = String::new();
    said.seek(SeekFrom::Start(0))?;
    said.read_to_string(&mut text)?;
    Ok(Run { sample, device, freed, told: who.told(&text) })
}

/// Bytes that a device has given out since it was made: the third field of its `stat`, in sectors.
fn device_bytes(fs: &Mounted) -> Result<u64> {
    let device = fs.device()?;
    let path = format!("/sys/class/block/{}/stat", device.trim_start_matches("/dev/"));
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let sectors = text.split_whitespace().nth(2).and_then(|field| field.parse::<u64>().ok());
    Ok(sectors.with_context(|| format!("{path} is not as expected"))? * 512)
}
