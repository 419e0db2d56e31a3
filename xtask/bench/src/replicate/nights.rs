//! The repository that is replicated: ten nights, between which one file in a hundred changes, and one block of the
//! image in a hundred.

use crate::stage::Stage;
use crate::tools::{plain, pleach};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use xtask::command::{output, program};
use xtask::image::Kind;
use xtask::noise::Noise;
use xtask::space;

/// The number of snapshots.
pub(super) const COUNT: u32 = 10;
/// One of this many files and blocks changes between two snapshots.
pub(super) const CHANGING: u32 = 100;

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

/// The repository.
pub(super) struct Nights {
    /// The bytes of all changed files and blocks, with those of the first night.
    pub(super) changed: u64,
    /// The entries of all snapshots.
    pub(super) entries: u64,
}

impl Nights {
    /// Makes the tree and its snapshots.
    pub(super) fn fill(stage: &Stage, kind: Kind, files: u32, image: u64) -> Result<Nights> {
        let tree = stage.tree();
        println!("{}: writing {files} files, an image of {image} MiB and {COUNT} snapshots", kind.name());
        if kind == Kind::Btrfs {
            output(program("btrfs").args(["subvolume", "create"]).arg(&tree))?;
        }
        for directory in 0..files.div_ceil(100) {
            fs::create_dir_all(tree.join(format!("{directory:04}")))?;
        }
        let mut changed = image * MIB;
        let mut noise = Noise::from(7);
        let mut large = File::create(tree.join("image"))?;
        (0..image).try_for_each(|_| large.write_all(&noise.bytes(MIB as usize)))?;
        drop(large);
        for number in 0..files {
            changed += write_small(&tree, number, 0)?;
        }
        for night in 1..=COUNT {
            let mut snapshot = plain(Some(pleach()));
            snapshot.args(["snapshot", "--quiet", "--name", &name(night)]);
            output(snapshot.arg(&tree).arg(repository(stage)))?;
            if night < COUNT {
                changed += change(&tree, files, image, night)?;
            }
        }
        space::sync(stage.source())?;
        let entries = u64::from(COUNT) * u64::from(files + files.div_ceil(100) + 2);
        Ok(Nights { changed, entries })
    }
}

/// The repository's path.
pub(super) fn repository(stage: &Stage) -> PathBuf {
    stage.source().join("repository")
}

/// The name of a snapshot, counted from 1.
pub(super) fn name(night: u32) -> String {
    format!("n{night:02}")
}

/// Changes one in a hundred files, and one in a hundred blocks of the image. Returns the changed bytes.
fn change(tree: &Path, files: u32, image: u64, night: u32) -> Result<u64> {
    let mut noise = Noise::from(u64::from(night) + 100);
    let blocks = image * MIB / BLOCK;
    let mut chosen = BTreeSet::new();
    while (chosen.len() as u64) < blocks / u64::from(CHANGING) {
        chosen.insert(noise.number() % blocks);
    }
    let large = File::options().write(true).open(tree.join("image"))?;
    for block in &chosen {
        large.write_all_at(&noise.bytes(BLOCK as usize), block * BLOCK)?;
    }
    let mut changed = chosen.len() as u64 * BLOCK;
    for number in (0..files).filter(|number| number % CHANGING == night) {
        changed += write_small(tree, number, night)?;
    }
    Ok(changed)
}

fn write_small(tree: &Path, number: u32, night: u32) -> Result<u64> {
    let seed = (u64::from(number) << 32 | u64::from(night)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let size = 2000 + number as usize % 13 * 1000;
    fs::write(tree.join(format!("{:04}/file-{number:06}", number / 100)), Noise::from(seed).bytes(size))?;
    Ok(size as u64)
}
