//! The trees that are copied: many small files, fewer larger ones, some very large ones, a sparse one, and a real
//! tree.

use crate::report::thousands;
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use xtask::noise::Noise;
use xtask::vendor::{self, Census};

/// Files in one directory.
const IN_A_DIRECTORY: u64 = 250;
/// The length of the data in a sparse file: one such piece at the beginning of each hundred.
const PIECE: u64 = 64 << 10;

/// A tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tree {
    /// 100,000 files of 4 KiB.
    Small,
    /// 20,000 files of 100 KiB.
    Medium,
    /// 8 files of 1 GiB.
    Large,
    /// One file of 16 GiB with 1 % of data.
    Sparse,
    /// Sources of published crates.
    Real,
}

/// Number and size of the files of a made tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    files: u64,
    size: u64,
}

impl Tree {
    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Tree::Small => "small",
            Tree::Medium => "medium",
            Tree::Large => "large",
            Tree::Sparse => "sparse",
            Tree::Real => "real",
        }
    }

    /// Fetches the tree's sources.
    pub(super) fn gather(self, percent: u64) -> Result<()> {
        match self {
            Tree::Real if percent == 100 => vendor::large_crates().and(vendor::own_dependencies()).map(drop),
            Tree::Real => vendor::own_dependencies().map(drop),
            _ => Ok(()),
        }
    }

    /// The shape at this percentage of the full tree: of the number of files if there are many, else of their size.
    fn shape(self, percent: u64) -> Shape {
        let part = |whole: u64| (whole * percent / 100).max(1);
        match self {
            Tree::Small => Shape { files: part(100_000), size: 4 << 10 },
            Tree::Medium => Shape { files: part(20_000), size: 100 << 10 },
            Tree::Large => Shape { files: 8, size: part(1 << 30).next_multiple_of(1 << 20) },
            Tree::Sparse | Tree::Real => Shape { files: 1, size: part(16 << 30).next_multiple_of(100 * PIECE) },
        }
    }

    /// Makes the tree at `path`, and returns a description of it.
    pub(crate) fn fill(self, path: &Path, percent: u64) -> Result<String> {
        match self {
            Tree::Real => {
                let source = if percent == 100 { vendor::large_crates()? } else { vendor::own_dependencies()? };
                vendor::copy_plainly(&source, path)?;
                let census = Census::of(path)?;
                let gibibytes = census.bytes as f64 / f64::from(1 << 30);
                Ok(format!("{} files of published crates, {gibibytes:.2} GiB", thousands(census.files)))
            }
            _ => {
                let shape = self.shape(percent);
                self.make(path, shape)?;
                Ok(match self {
                    Tree::Sparse => format!("one sparse file of {} with 1 % data", size(shape.size)),
                    _ => format!("{} files of {}", thousands(shape.files), size(shape.size)),
                })
            }
        }
    }

    fn make(self, path: &Path, shape: Shape) -> Result<()> {
        let mut noise = Noise::from(0x9E37_79B9_7F4A_7C15);
        for number in 0..shape.files {
            let dir = path.join(format!("{:03}", number / IN_A_DIRECTORY));
            if number % IN_A_DIRECTORY == 0 {
                fs::create_dir_all(&dir)?;
            }
            let name = dir.join(format!("file-{number:06}"));
            let file = File::create(&name).with_context(|| format!("cannot make {}", name.display()))?;
            match self {
                Tree::Sparse => sparse(&file, shape.size, &mut noise)?,
                _ => full(&file, shape.size, &mut noise)?,
            }
        }
        Ok(())
    }
}

/// Makes this number of files of one size, filled with unique data.
pub(crate) fn regular(path: &Path, files: u64, size: u64) -> Result<()> {
    Tree::Small.make(path, Shape { files, size })
}

fn full(mut file: &File, size: u64, noise: &mut Noise) -> Result<()> {
    let mut left = size;
    while left > 0 {
        let now = left.min(1 << 20);
        file.write_all(&noise.bytes(now as usize))?;
        left -= now;
    }
    Ok(())
}

fn sparse(file: &File, size: u64, noise: &mut Noise) -> Result<()> {
    file.set_len(size)?;
    for at in (0..size).step_by(100 * PIECE as usize) {
        file.write_all_at(&noise.bytes(PIECE as usize), at)?;
    }
    Ok(())
}

/// Makes a directory with one file that has as many bytes as the tree has data, to measure the device alone. A tree
/// that consists only of large files is used itself.
pub(super) fn stream(tree: &Path, beside: &Path) -> Result<()> {
    let bytes = data(tree)?.next_multiple_of(1 << 12);
    fs::create_dir(beside)?;
    full(&File::create(beside.join("stream"))?, bytes, &mut Noise::from(3))
}

/// Bytes of data in a tree, without holes, as far as block counts show.
pub(super) fn data(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += match meta.is_dir() {
            true => data(&entry.path())?,
            false => meta.len().min(meta.blocks() * 512),
        };
    }
    Ok(bytes)
}

fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_tree_has_fewer_files_or_smaller_ones() {
        assert_eq!(Tree::Small.shape(100), Shape { files: 100_000, size: 4096 });
        assert_eq!(Tree::Medium.shape(5), Shape { files: 1000, size: 100 << 10 });
        assert_eq!(Tree::Large.shape(50), Shape { files: 8, size: 512 << 20 });
        assert_eq!(Tree::Sparse.shape(1).size % (100 * PIECE), 0);
        assert_eq!([size(4096), size(512 << 20), size(16 << 30)], ["4 KiB", "512 MiB", "16 GiB"]);
    }
}
