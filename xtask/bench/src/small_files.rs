//! Trees of many small files, numbered, in directories of equal size.

use anyhow::{Context, Result};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use xtask::space;

/// The shape of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallFiles<'t> {
    pub(crate) tree: &'t Path,
    pub(crate) files: u64,
    pub(crate) in_directory: u64,
}

impl SmallFiles<'_> {
    /// The path of a file.
    pub(crate) fn path(&self, number: u64) -> PathBuf {
        self.directory(number / self.in_directory).join(format!("file-{number:07}"))
    }

    /// Creates the files one after the other, and syncs them. `write` writes the content of a file.
    pub(crate) fn fill(&self, mut write: impl FnMut(u64, &File) -> Result<()>) -> Result<()> {
        (0..self.directories()).try_for_each(|directory| self.fill_directory(directory, &mut write))?;
        space::sync(self.tree)
    }

    /// Like [`SmallFiles::fill`], with several directories at once.
    pub(crate) fn fill_in_parallel(&self, write: impl Fn(u64, &File) -> Result<()> + Sync) -> Result<()> {
        let fill = |directory| self.fill_directory(directory, &mut |number, file| write(number, file));
        (0..self.directories()).into_par_iter().try_for_each(fill)?;
        space::sync(self.tree)
    }

    fn directories(&self) -> u64 {
        self.files.div_ceil(self.in_directory)
    }

    fn directory(&self, number: u64) -> PathBuf {
        self.tree.join(format!("{number:04}"))
    }

    fn fill_directory(&self, number: u64, write: &mut dyn FnMut(u64, &File) -> Result<()>) -> Result<()> {
        fs::create_dir_all(self.directory(number))?;
        let first = number * self.in_directory;
        for number in first..self.files.min(first + self.in_directory) {
            let path = self.path(number);
            let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
            write(number, &file)?;
        }
        Ok(())
    }
}
