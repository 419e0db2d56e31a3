//! The floor of a night: the bare writes, and nothing else. Of each file the last version is cloned, and the blocks of 4 KiB
//! that are others now are written into the clone in the order of the file, one call each, on XFS with the hint that has it set
//! aside no more than a block for each. What the filesystem takes for that, no tool can do without that keeps both
//! versions as files.
//!
//! From the repository's own filesystem each changed file is a clone of its source: then nothing has to be written at all.
//!
//! On Btrfs the tree begins as a subvolume snapshot of the last one, as pleach's does, so that unchanged files cost nothing; on XFS each
//! of them is a clone. No manifest, no times, no check.

use super::From;
use super::blocks::{self, BLOCK};
use anyhow::{Context, Result};
use pleach::sys::fsxattr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use xtask::command::{output, program};
use xtask::image::Kind;

/// Makes of `last`, a snapshot of an earlier night that is left as it is, what `source` is now. `to` is made.
pub(super) fn make(kind: Kind, from: From, last: &Path, source: &Path, to: &Path) -> Result<()> {
    let within = source.strip_prefix("/")?;
    if kind == Kind::Btrfs {
        output(program("btrfs").args(["subvolume", "snapshot"]).arg(last).arg(to))?;
    } else {
        fs::create_dir_all(to.join(within))?;
    }
    directory(from, &last.join(within), source, &to.join(within))
}

/// Makes the files of a directory. What is in `to` already is as in `last`.
fn directory(from: From, last: &Path, source: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(source).with_context(|| format!("cannot read {}", source.display()))? {
        let entry = entry?;
        let (last, source, to) = (last.join(entry.file_name()), entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !to.exists() {
                fs::create_dir(&to)?;
            }
            directory(from, &last, &source, &to)?;
        } else if kind.is_file() {
            file(from, &last, &source, &to).with_context(|| format!("cannot make {}", to.display()))?;
        }
    }
    Ok(())
}

fn file(from: From, last: &Path, source: &Path, to: &Path) -> Result<()> {
    let (old, new) = (File::open(last).ok(), File::open(source)?);
    let is_there = to.exists();
    let changed = blocks::of(old.as_ref(), &new)?;
    let size = new.metadata()?.len();
    let old_size = old.as_ref().map_or(Ok(0), |old| old.metadata().map(|meta| meta.len()))?;
    if is_there && changed.is_empty() && size == old_size {
        return Ok(());
    }
    if is_there {
        fs::remove_file(to)?;
    }
    let copy = File::options().read(true).write(true).create_new(true).open(to)?;
    let base = if from == From::Here { Some(&new) } else { old.as_ref().filter(|_| old_size > 0) };
    if let Some(base) = base {
        rustix::fs::ioctl_ficlone(&copy, base.as_fd())?;
    }
    if from == From::Here {
        return Ok(());
    }
    copy.set_len(size)?;
    let before = fsxattr::get(&copy).ok();
    if let Some(mut finely) = before {
        finely.xflags |= fsxattr::COW_EXTENT_SIZE;
        finely.cow_extent_size = BLOCK as u32;
        // Only XFS has it.
        let _ = fsxattr::set(&copy, finely);
    }
    let mut buffer = [0; BLOCK];
    for block in changed {
        let at = block * BLOCK as u64;
        let length = (size - at).min(BLOCK as u64) as usize;
        new.read_exact_at(&mut buffer[..length], at)?;
        copy.write_all_at(&buffer[..length], at)?;
    }
    if let Some(before) = before {
        let _ = fsxattr::set(&copy, before);
    }
    Ok(())
}
