//! How much of a tree differs from an earlier version of it, in blocks.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

const BLOCK: usize = 4096;

/// The bytes of the blocks of files below `new` that are not in the file of the same name below `old` at the same offset.
pub(super) fn differing(old: &Path, new: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(new).with_context(|| format!("cannot read {}", new.display()))? {
        let entry = entry?;
        let (new, old) = (entry.path(), old.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            bytes += differing(&old, &new)?;
        } else if kind.is_file() {
            bytes += in_file(&old, &new)?;
        }
    }
    Ok(bytes)
}

/// The size of all files below a directory.
pub(super) fn size(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { size(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

fn in_file(old: &Path, new: &Path) -> Result<u64> {
    let mut new = File::open(new)?;
    let mut old = File::open(old).ok();
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut bytes = 0;
    loop {
        let got = fill(&mut new, &mut a)?;
        if got == 0 {
            return Ok(bytes);
        }
        let there = match &mut old {
            Some(old) => fill(old, &mut b)?,
            None => 0,
        };
        for start in (0..got).step_by(BLOCK) {
            let end = (start + BLOCK).min(got);
            if end > there || a[start..end] != b[start..end] {
                bytes += BLOCK as u64;
            }
        }
    }
}

fn fill(file: &mut File, buffer: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read(&mut buffer[got..])? {
            0 => break,
            more => got += more,
        }
    }
    Ok(got)
}
