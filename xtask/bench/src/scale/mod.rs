//! `cargo xtask bench scale`: how time, memory and files of pleach's own grow with the number of files, and with the
//! number of extents in sparse images.
//!
//! Every step runs once at each size, cold. `steps` has the steps on many small files, `images` those on sparse images,
//! and `growth` compares the sizes. The figures of `docs/scale.md` come from here.

mod growth;
mod images;
mod steps;

use crate::report::thousands;
use crate::session::{self, ensure_usual};
use crate::small_files::SmallFiles;
use crate::stage::Stage;
use anyhow::Result;
use clap::{Args, ValueEnum};
use growth::{Growth, Sample};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use steps::Step;
use xtask::image::Kind;
use xtask::noise::Noise;

/// Files in each directory.
const IN_DIRECTORY: u64 = 500;
/// One file in this many has a block of data; the others are one hole.
const WITH_DATA: u64 = 10;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// On these filesystems
    #[arg(long = "fs", value_delimiter = ',', default_value = "xfs")]
    kinds: Vec<Kind>,
    /// The numbers of files, in rising order; none for 0
    #[arg(long, value_delimiter = ',', default_value = "1000000,10000000")]
    files: Vec<u64>,
    /// The numbers of extents in all images together, in rising order; none for 0
    #[arg(long, value_delimiter = ',', default_value = "200000,2000000")]
    extents: Vec<u64>,
    /// Only these steps; all of them, if none is named
    #[arg(long, value_delimiter = ',')]
    steps: Vec<Step>,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    // The figures go into a page that is written by hand.
    ensure_usual(save, false)?;
    session::on_each(&options.kinds, || Ok(()), |kind, dir| on(kind, dir, options))
}

fn on(kind: Kind, dir: &Path, options: &Options) -> Result<()> {
    let all = Step::value_variants().iter().copied();
    let wanted: Vec<_> = all.filter(|step| options.steps.is_empty() || options.steps.contains(step)).collect();
    let mut growth = Growth::new("files");
    for &files in options.files.iter().filter(|files| **files > 0) {
        growth.add(files, many_files(kind, dir, files, &wanted)?);
    }
    println!("{}", growth.tables());
    let mut growth = Growth::new("extents");
    for &extents in options.extents.iter().filter(|extents| **extents > 0) {
        growth.add(extents, images::measure(kind, dir, extents, &wanted)?);
    }
    println!("{}", growth.tables());
    Ok(())
}

/// All steps on a tree of small files.
fn many_files(kind: Kind, dir: &Path, files: u64, steps: &[Step]) -> Result<Vec<Sample>> {
    // Room for the inodes of the tree, of two snapshots and of a restored tree; the image is sparse.
    let mut stage = Stage::new(dir, (kind, (8 << 10) + files * 12_000 / (1 << 20)), None)?;
    println!("{}: writing {} files", kind.name(), thousands(files));
    let tree = stage.tree();
    SmallFiles { tree: &tree, files, in_directory: IN_DIRECTORY }.fill_in_parallel(write)?;
    let samples = steps::take(&mut stage, steps, files)?;
    stage.strike()?;
    Ok(samples)
}

/// The content of a file: every block of data occurs in two files, and sizes repeat.
fn write(number: u64, file: &File) -> Result<()> {
    if number.is_multiple_of(WITH_DATA) {
        let pair = number / WITH_DATA / 2;
        let size = 3000 + pair % 1000;
        return Ok(file.write_all_at(&Noise::from(pair + 1).bytes(size as usize), 0)?);
    }
    Ok(file.set_len(1 + number % 8192)?)
}
