//! The trees that are deduped: real releases of large packages, and made trees that each ask one question.

use anyhow::Result;
use clap::ValueEnum;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use xtask::command::{output, program};
use xtask::noise::Noise;
use xtask::vendor::{self, Census};

/// A tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Tree {
    /// Three releases of large packages.
    Releases,
    /// Two images of 384 MiB that have 284 MiB of blocks in common.
    Images,
    /// Four copies of a tree that share everything already.
    Snapshots,
    /// 100,000 small files, each five times.
    Small,
}

impl Tree {
    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Tree::Releases => "releases",
            Tree::Images => "images",
            Tree::Snapshots => "snapshots",
            Tree::Small => "small",
        }
    }

    /// Its name in headings.
    pub(super) fn title(self) -> &'static str {
        match self {
            Tree::Releases => "three releases",
            Tree::Images => "two disk images",
            Tree::Snapshots => "four snapshots that share already",
            Tree::Small => "100,000 small files",
        }
    }

    /// Fetches the tree's sources.
    pub(super) fn gather(self) -> Result<()> {
        match self {
            Tree::Releases => vendor::releases().map(drop),
            Tree::Snapshots => vendor::own_dependencies().map(drop),
            Tree::Images | Tree::Small => Ok(()),
        }
    }

    /// Makes the tree at `path`, and returns a description of it.
    pub(super) fn fill(self, path: &Path) -> Result<String> {
        fs::create_dir_all(path)?;
        match self {
            Tree::Releases => vendor::copy_plainly(&vendor::releases()?, path)?,
            Tree::Images => images(path)?,
            Tree::Snapshots => {
                vendor::copy_plainly(&vendor::own_dependencies()?, &path.join("1"))?;
                keep_one_of_a_size(&path.join("1"), &mut HashSet::new())?;
                for number in ["2", "3", "4"] {
                    output(program("cp").args(["-a", "--reflink=always"]).arg(path.join("1")).arg(path.join(number)))?;
                }
            }
            Tree::Small => small(path)?,
        }
        let census = Census::of(path)?;
        let what = match self {
            Tree::Releases => "Sources of published crates, three releases of each",
            Tree::Images => {
                "Two files of 384 MiB with 284 MiB of 4 KiB blocks in common, in runs of 64 KiB to 4 MiB at the \
                             same and at other offsets"
            }
            Tree::Snapshots => {
                "Real files, each of another size, and three copies of their tree made by `cp -a --reflink=always`: \
                 equal files share already, and no data needs to be read to see it"
            }
            Tree::Small => "20,000 different contents of 4 to 16 KiB, five files each",
        };
        let mebibytes = census.bytes as f64 / f64::from(1 << 20);
        Ok(format!("{what}: {} files, {mebibytes:.0} MiB.", crate::report::thousands(census.files)))
    }
}

/// Keeps one file of each size, and removes all other files of that size and all empty files.
fn keep_one_of_a_size(dir: &Path, sizes: &mut HashSet<u64>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            keep_one_of_a_size(&entry.path(), sizes)?;
        } else if meta.len() == 0 || !sizes.insert(meta.len()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

const BLOCK: usize = 4096;

fn images(path: &Path) -> Result<()> {
    const COMMON: usize = (284 << 20) / BLOCK;
    const OWN: usize = (100 << 20) / BLOCK;
    let mut noise = Noise::from(0x9E37_79B9_7F4A_7C15);
    let mut first = BufWriter::with_capacity(1 << 20, File::create(path.join("first.img"))?);
    let mut second = BufWriter::with_capacity(1 << 20, File::create(path.join("second.img"))?);
    let (mut common, mut owns) = (COMMON, [OWN, OWN]);
    while common > 0 || owns != [0, 0] {
        let run = common.min(16 << (noise.number() % 7));
        let bytes = noise.bytes(run * BLOCK);
        first.write_all(&bytes)?;
        second.write_all(&bytes)?;
        common -= run;
        for (file, own) in [&mut first, &mut second].into_iter().zip(&mut owns) {
            // At the end the whole remainder, so that both images reach their size.
            let length = if common == 0 { *own } else { (*own).min((noise.number() % 64) as usize) };
            file.write_all(&noise.bytes(length * BLOCK))?;
            *own -= length;
        }
    }
    first.flush()?;
    second.flush()?;
    Ok(())
}

fn small(path: &Path) -> Result<()> {
    let mut noise = Noise::from(42);
    for content in 0..20_000_u32 {
        let length = 4096 + (noise.number() % 12_288) as usize;
        let bytes = noise.bytes(length);
        for copy in 0..5 {
            let dir = path.join(format!("{copy}/{:03}", content / 100));
            fs::create_dir_all(&dir)?;
            fs::write(dir.join(format!("{content:05}")), &bytes)?;
        }
    }
    Ok(())
}
