//! The pairs of filesystems: from which to which a tree is copied.

use super::trees::{self, Tree};
use crate::stage::Stage;
use anyhow::Result;
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use xtask::image::Kind;
use xtask::space;

/// Sizes of the images, which are sparse files: all trees fit, even if a program fills their holes.
const SOURCE_MEBIBYTES: u64 = 14 << 10;
const DESTINATION_MEBIBYTES: u64 = 40 << 10;

/// The source and the destination of a copy.
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

    /// Makes the filesystems, with the tree on the first one; also returns a description of the tree.
    pub(super) fn stage(self, tree: Tree, percent: u64, dir: &Path) -> Result<(Stage, String)> {
        let (source, destination) = match self {
            Pair::Ext4Xfs => (Kind::Ext4, Some(Kind::Xfs)),
            Pair::XfsBtrfs => (Kind::Xfs, Some(Kind::Btrfs)),
            Pair::XfsSame => (Kind::Xfs, None),
            Pair::XfsOther => (Kind::Xfs, Some(Kind::Xfs)),
        };
        let size = if destination.is_some() { SOURCE_MEBIBYTES } else { DESTINATION_MEBIBYTES };
        let mut stage = Stage::new(dir, (source, size), destination.map(|kind| (kind, DESTINATION_MEBIBYTES)))?;
        let about = tree.fill(&stage.tree(), percent)?;
        if !self.clones() && tree != Tree::Large {
            trees::stream(&stage.tree(), &stage.source().join("stream"))?;
        }
        stage.warm = vec![stage.tree()];
        space::sync(stage.source())?;
        Ok((stage, about))
    }
}

/// A directory with the same number of bytes as the tree, in one file or a few large ones.
pub(super) fn stream(stage: &Stage) -> PathBuf {
    let stream = stage.source().join("stream");
    if stream.exists() { stream } else { stage.tree().join("000") }
}
