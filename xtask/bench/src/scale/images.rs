//! The steps on sparse images: a hundred files of a tebibyte, with blocks of data between holes.

use super::growth::Sample;
use super::steps::{self, Step};
use crate::report::thousands;
use crate::stage::Stage;
use anyhow::{Context, Result};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use xtask::image::Kind;
use xtask::noise::Noise;
use xtask::space;

const IMAGES: u64 = 100;
const TEBIBYTE: u64 = 1 << 40;
const BLOCK: usize = 4096;

/// All steps on images that have this many extents together.
pub(super) fn measure(kind: Kind, dir: &Path, extents: u64, wanted: &[Step]) -> Result<Vec<Sample>> {
    let mut stage = Stage::new(dir, (kind, (8 << 10) + extents * 12_000 / (1 << 20)), None)?;
    println!("{}: writing {} extents in {IMAGES} images of 1 TiB", kind.name(), thousands(extents));
    let tree = stage.tree();
    // The directory that is restored.
    let dir = tree.join("0000");
    fs::create_dir_all(&dir)?;
    (0..IMAGES).into_par_iter().try_for_each(|number| write(&dir, number, extents / IMAGES))?;
    space::sync(&tree)?;
    // No step of the images finds a file by its name.
    let steps: Vec<_> = wanted.iter().copied().filter(|step| *step != Step::Find).collect();
    let samples = steps::take(&mut stage, &steps, extents)?;
    stage.strike()?;
    Ok(samples)
}

/// An image with blocks at equal distances.
fn write(dir: &Path, number: u64, extents: u64) -> Result<()> {
    let path = dir.join(format!("image-{number:02}"));
    let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    file.set_len(TEBIBYTE)?;
    let mut noise = Noise::from(number + 1);
    let distance = TEBIBYTE / extents / BLOCK as u64 * BLOCK as u64;
    for extent in 0..extents {
        file.write_all_at(&noise.bytes(BLOCK), extent * distance)?;
    }
    Ok(())
}
