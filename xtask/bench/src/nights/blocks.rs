//! Counts the blocks of a tree that differ from an earlier version.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The unit of comparison, in bytes.
pub(crate) const BLOCK: usize = 4096;

/// The bytes of changed blocks in files below `new`: each differs from the block at the same offset in the file of the
/// same name below `old`. If the old file does not exist, all blocks count.
pub(crate) fn differing(old: &Path, new: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(new).with_context(|| format!("cannot read {}", new.display()))? {
        let entry = entry?;
        let (new, old) = (entry.path(), old.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            bytes += differing(&old, &new)?;
        } else if kind.is_file() {
            bytes += of(File::open(&old).ok().as_ref(), &File::open(&new)?)?.len() as u64 * BLOCK as u64;
        }
    }
    Ok(bytes)
}

/// The total size of all files below a directory.
pub(crate) fn size(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { size(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

/// The number of files below a directory.
pub(crate) fn files(dir: &Path) -> Result<u64> {
    let mut number = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        number += if entry.file_type()?.is_dir() { files(&entry.path())? } else { 1 };
    }
    Ok(number)
}

/// The numbers of the blocks of `new` that are not in `old`, in order.
pub(crate) fn of(old: Option<&File>, new: &File) -> Result<Vec<u64>> {
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let (mut offset, mut blocks) = (0, Vec::new());
    loop {
        let got = fill(new, &mut a, offset)?;
        if got == 0 {
            return Ok(blocks);
        }
        let there = old.map_or(Ok(0), |old| fill(old, &mut b, offset))?;
        for start in (0..got).step_by(BLOCK) {
            let end = (start + BLOCK).min(got);
            if end > there || a[start..end] != b[start..end] {
                blocks.push((offset + start as u64) / BLOCK as u64);
            }
        }
        offset += got as u64;
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], offset + got as u64)? {
            0 => break,
            more => got += more,
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_files_and_files_that_grew_count_block_by_block() {
        let dir = std::env::temp_dir().join(format!("xtask-blocks-{}", std::process::id()));
        let (old, new) = (dir.join("old"), dir.join("new"));
        for dir in [&old, &new] {
            fs::create_dir_all(dir.join("in")).unwrap();
        }
        fs::write(old.join("in/grown"), [1; 2 * BLOCK + 5]).unwrap();
        fs::write(new.join("in/grown"), [1; 4 * BLOCK]).unwrap();
        fs::write(new.join("new"), [0; BLOCK + 1]).unwrap();
        fs::write(old.join("gone"), [0; BLOCK]).unwrap();
        assert_eq!(differing(&old, &new).unwrap(), 4 * BLOCK as u64, "two of the one that grew, two of the new one");
        assert_eq!((size(&new).unwrap(), files(&new).unwrap()), (5 * BLOCK as u64 + 1, 2));
        fs::remove_dir_all(dir).unwrap();
    }
}
