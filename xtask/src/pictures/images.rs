//! The picture of shared extents, which `pleach fiemap --svg` draws: three versions of a disk image, and an excerpt.

use super::root::Root;
use anyhow::Result;

const MIB: u64 = 1 << 20;

/// Makes the images, and returns the picture.
pub(crate) fn draw(root: &Root) -> Result<String> {
    root.write("/data/images/monday.img", 0, 160 << 20, 11)?;
    root.shell("cd /data/images; cp --reflink=always monday.img tuesday.img")?;
    change(root, "tuesday.img", 36, 22, 12)?;
    change(root, "tuesday.img", 104, 8, 13)?;
    root.shell("cd /data/images; cp --reflink=always tuesday.img wednesday.img")?;
    change(root, "wednesday.img", 64, 30, 14)?;
    root.write("/data/images/excerpt.img", 0, 8 << 20, 15)?;
    let excerpt = format!("xfs_io -c 'reflink tuesday.img {} {} {}'", 24 * MIB, 8 * MIB, 56 * MIB);
    root.shell(&format!("cd /data/images; {excerpt} excerpt.img; sync"))?;
    root.shell("cd /data/images; pleach fiemap --svg - monday.img tuesday.img wednesday.img excerpt.img")
}

/// Overwrites a part of an image.
fn change(root: &Root, name: &str, mebibyte: u64, mebibytes: usize, seed: u64) -> Result<()> {
    root.write(&format!("/data/images/{name}"), mebibyte * MIB, mebibytes << 20, seed)
}
