//! From which filesystem to which: two images, or one, filled and emptied between runs.

use super::trees::{self, Tree};
use crate::measure::Cache;
use anyhow::Result;
use clap::ValueEnum;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::command::{output, program};
use xtask::image::{Kind, Mounted};
use xtask::space;

/// Sizes of the images, which are sparse files: all trees fit, also where a program fills their holes.
const SOURCE_MEBIBYTES: u64 = 14 << 10;
const DESTINATION_MEBIBYTES: u64 = 40 << 10;

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Pair {
    /// From ext4 to XFS.
    Ext4Xfs,
    /// From XFS to Btrfs.
    XfsBtrfs,
    /// Within one XFS, where files can be cloned.
    XfsSame,
    /// From one XFS to another.
    XfsOther,
}

impl Pair {
    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Pair::Ext4Xfs => "ext4-xfs",
            Pair::XfsBtrfs => "xfs-btrfs",
            Pair::XfsSame => "xfs-same",
            Pair::XfsOther => "xfs-other",
        }
    }

    /// Its name in prose.
    pub(super) fn title(self) -> &'static str {
        match self {
            Pair::Ext4Xfs => "ext4 → XFS",
            Pair::XfsBtrfs => "XFS → Btrfs",
            Pair::XfsSame => "within one XFS",
            Pair::XfsOther => "XFS → another XFS",
        }
    }

    /// Whether files can be cloned.
    pub(super) fn clones(self) -> bool {
        self == Pair::XfsSame
    }

    fn kinds(self) -> (Kind, Option<Kind>) {
        match self {
            Pair::Ext4Xfs => (Kind::Ext4, Some(Kind::Xfs)),
            Pair::XfsBtrfs => (Kind::Xfs, Some(Kind::Btrfs)),
            Pair::XfsSame => (Kind::Xfs, None),
            Pair::XfsOther => (Kind::Xfs, Some(Kind::Xfs)),
        }
    }
}

/// A pair, mounted, with the tree on the first.
pub(super) struct Stage {
    source: Mounted,
    /// Nothing where it is the same.
    destination: Option<Mounted>,
    images: Vec<PathBuf>,
    /// What the tree is.
    pub(super) about: String,
}

impl Stage {
    /// Makes the filesystems below `dir`, and the tree.
    pub(super) fn set(pair: Pair, tree: Tree, percent: u64, dir: &Path) -> Result<Stage> {
        let (source, destination) = pair.kinds();
        let size = if destination.is_some() { SOURCE_MEBIBYTES } else { DESTINATION_MEBIBYTES };
        let source = Mounted::create(source, dir, "source", size)?;
        let make = |kind| Mounted::create(kind, dir, "destination", DESTINATION_MEBIBYTES);
        let destination = destination.map(make).transpose()?;
        let images = ["source.img", "destination.img"].map(|name| dir.join(name)).to_vec();
        let mut stage = Stage { source, destination, images, about: String::new() };
        stage.about = tree.fill(&stage.tree(), percent)?;
        tree.fill_sample(&stage.sample(), percent)?;
        if !pair.clones() && tree != Tree::Large {
            trees::stream(&stage.tree(), &stage.root().join("stream"))?;
        }
        space::sync(stage.root())?;
        Ok(stage)
    }

    fn root(&self) -> &Path {
        self.source.path()
    }

    /// The tree that is copied.
    pub(super) fn tree(&self) -> PathBuf {
        self.root().join("tree")
    }

    /// A small part of it, or one like it.
    pub(super) fn sample(&self) -> PathBuf {
        self.root().join("sample")
    }

    /// As many bytes as the tree has, in one file or a few large ones.
    pub(super) fn stream(&self) -> PathBuf {
        let stream = self.root().join("stream");
        if stream.exists() { stream } else { self.tree().join("000") }
    }

    /// Where the copy is made; nothing is there before.
    pub(super) fn fresh(&self) -> PathBuf {
        self.written().join("fresh")
    }

    /// The filesystem that is written to.
    pub(super) fn written(&self) -> &Path {
        self.destination.as_ref().map_or(self.root(), Mounted::path)
    }

    /// Makes the destination as it was before: a new filesystem, or, where it is the source's, with the copy removed and
    /// its space given back.
    pub(super) fn clear(&mut self) -> Result<()> {
        match &mut self.destination {
            Some(destination) => destination.remake(),
            None => {
                output(program("rm").arg("-rf").arg(self.source.path().join("fresh")))?;
                self.source.remount()
            }
        }
    }

    /// Brings the caches into a state.
    pub(super) fn prepare(&self, cache: Cache) -> Result<()> {
        space::sync(self.written())?;
        cache.prepare(self.root(), &self.tree(), &[])
    }

    /// Checks the filesystems, and gives their space back.
    pub(super) fn strike(self) -> Result<()> {
        self.source.check()?;
        self.destination.map(Mounted::check).transpose()?;
        for image in self.images.iter().filter(|image| image.exists()) {
            fs::remove_file(image)?;
        }
        Ok(())
    }
}
