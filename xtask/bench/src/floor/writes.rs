//! The floor of a snapshot of a tree with few changed blocks: only the writes.
//!
//! The last version of each changed file is cloned. The differing blocks of 4 KiB are written into the clone in file
//! order, one call each; on XFS with the hint that reserves no more than one block per write. Every tool that keeps
//! both versions as files needs at least this space.
//!
//! On the repository's own filesystem, each changed file is a clone of its source, and nothing must be written at all.
//!
//! With `--in-place`, existing files of the subvolume are written to. No tool that has to survive a crash of its own
//! writes like this into a published file, but a staging tree is private.
//!
//! On Btrfs the tree begins as a subvolume snapshot of the last one, like pleach's, so unchanged files cost nothing; on
//! XFS each unchanged file is a clone. No manifest, no times, no verification.

use crate::nights::blocks::{self, BLOCK};
use anyhow::{Context, Result};
use clap::Args;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xtask::command::{output, program};

/// What to write.
#[derive(Args)]
pub(crate) struct Options {
    /// Begin with a subvolume snapshot
    #[arg(long)]
    subvolume: bool,
    /// Write into the existing files
    #[arg(long, requires = "subvolume")]
    in_place: bool,
    /// The source is on the same filesystem
    #[arg(long)]
    here: bool,
    /// The last snapshot, which stays as it is
    last: PathBuf,
    /// What the tree is now
    source: PathBuf,
    /// The new snapshot, which is made
    to: PathBuf,
}

/// Makes the new snapshot.
pub(super) fn make(options: &Options) -> Result<()> {
    let within = options.source.strip_prefix("/")?;
    if options.subvolume {
        output(program("btrfs").args(["subvolume", "snapshot"]).arg(&options.last).arg(&options.to))?;
    } else {
        fs::create_dir_all(options.to.join(within))?;
    }
    directory(options, &options.last.join(within), &options.source, &options.to.join(within))
}

/// Makes the files of a directory. Existing entries of `to` equal those of `last`.
fn directory(options: &Options, last: &Path, source: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(source).with_context(|| format!("cannot read {}", source.display()))? {
        let entry = entry?;
        let (last, source, to) = (last.join(entry.file_name()), entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !to.exists() {
                fs::create_dir(&to)?;
            }
            directory(options, &last, &source, &to)?;
        } else if kind.is_file() {
            file(options, &last, &source, &to).with_context(|| format!("cannot make {}", to.display()))?;
        }
    }
    Ok(())
}

fn file(options: &Options, last: &Path, source: &Path, to: &Path) -> Result<()> {
    let (old, new) = (File::open(last).ok(), File::open(source)?);
    let is_there = to.exists();
    let changed = blocks::of(old.as_ref(), &new)?;
    let size = new.metadata()?.len();
    let old_size = old.as_ref().map_or(Ok(0), |old| old.metadata().map(|meta| meta.len()))?;
    if is_there && changed.is_empty() && size == old_size {
        return Ok(());
    }
    let is_in_place = is_there && options.in_place;
    if is_there && !is_in_place {
        fs::remove_file(to)?;
    }
    let copy = File::options().read(true).write(true).create_new(!is_in_place).open(to)?;
    let base = if options.here { Some(&new) } else { old.as_ref().filter(|_| old_size > 0 && !is_in_place) };
    if let Some(base) = base {
        rustix::fs::ioctl_ficlone(&copy, base.as_fd())?;
    }
    if options.here {
        return Ok(());
    }
    copy.set_len(size)?;
    let is_finely = !options.subvolume && !changed.is_empty();
    let reserve = |bytes: usize| output(program("xfs_io").args(["-c", &format!("cowextsize {bytes}")]).arg(to));
    if is_finely {
        reserve(BLOCK)?;
    }
    let mut buffer = [0; BLOCK];
    for block in changed {
        let at = block * BLOCK as u64;
        let length = (size - at).min(BLOCK as u64) as usize;
        new.read_exact_at(&mut buffer[..length], at)?;
        copy.write_all_at(&buffer[..length], at)?;
    }
    if is_finely {
        reserve(0)?;
    }
    Ok(())
}
