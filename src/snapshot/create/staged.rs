//! The staging tree of a run, and all that is needed to write to it: its filesystem, hard links, lists of hashes.

use super::link_map::LinkMap;
use super::resume::Resume;
use crate::content::copy::{Reason, Strategy};
use crate::error::{Error, Result};
use crate::fs::filesystem::Filesystem;
use crate::fs::metadata::{self, Creator, FileAttr, PROJECT_INHERIT, SEALS};
use crate::fs::reopener::Reopener;
use crate::fs::spill::Spill;
use crate::fs::writeback::Writeback;
use crate::snapshot::repository::{BlockHashes, Staging};
use crate::util::semaphore::Semaphore;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, OnceLock};

/// Where a snapshot is made.
pub(super) struct Staged {
    pub(super) tree: OwnedFd,
    pub(super) links: LinkMap,
    /// Whether the tree began as a snapshot of the last one.
    pub(super) based: bool,
    pub(super) filesystem: Filesystem,
    pub(super) creator: Creator,
    pub(super) strategy: Strategy,
    /// Lists of hashes of large files.
    pub(super) blocks: BlockHashes,
    /// Held for a large file, which keeps the device busy by itself.
    pub(super) large: Mutex<()>,
    /// Files that killed runs had finished, and the list of this run.
    pub(super) resume: Resume,
    /// Whether files of the tree may have the project ids of the source. Only root may set them, and a repository with
    /// a project id of its own keeps it for quotas.
    projects: bool,
    writers: Semaphore,
    /// Opens directories of the tree again.
    pub(super) reopener: Reopener,
    /// Starts the writeback of new data early.
    pub(super) writeback: Writeback,
    /// Why a sync failed, once one has. The kernel reports lost data only once, so a later sync proves nothing.
    lost: OnceLock<Errno>,
}

impl Staged {
    pub(super) fn new(staging: &Staging, blocks: BlockHashes, filesystem: Filesystem) -> Result<Self> {
        let duplicate =
            |fd: &OwnedFd| fd.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause));
        let Staging { tree, links, is_subvolume, is_based, .. } = staging;
        let creator = Creator::current();
        creator.make_private(tree).map_err(|errno| Error::failed("prepare the staging area").because(errno))?;
        let spill = Spill::into(Some(duplicate(links)?));
        Ok(Staged {
            tree: duplicate(tree)?,
            // Hard links cannot leave a subvolume.
            links: if *is_subvolume {
                LinkMap::in_tree(duplicate(tree)?, spill)
            } else {
                LinkMap::in_directory(duplicate(links)?, spill)
            },
            based: *is_based,
            filesystem,
            creator,
            strategy: Strategy::new(),
            blocks,
            large: Mutex::new(()),
            resume: Resume::default(),
            projects: creator.is_root() && !metadata::has_project(tree),
            reopener: Reopener::new(tree).map_err(|errno| Error::failed("open the staging area").because(errno))?,
            writers: Semaphore::new(filesystem.kind.writers()),
            writeback: Writeback::default(),
            lost: OnceLock::new(),
        })
    }

    /// Why files from this device cannot be cloned, if that is known.
    pub(super) fn refusal(&self, dev: u64) -> Option<Reason> {
        if !self.filesystem.reflink {
            return Some(Reason::NoReflink);
        }
        self.strategy.known(dev).and_then(std::result::Result::err)
    }

    /// The flags and the project id of a source that its copy in the tree may have. Flags that would make the tree
    /// impossible to delete are only in the manifest, which has all flags.
    pub(super) fn takes(&self, fileattr: FileAttr) -> FileAttr {
        let FileAttr { flags, project } = fileattr.without(SEALS);
        match self.projects {
            true => FileAttr { flags, project },
            false => FileAttr { flags, project: None }.without(PROJECT_INHERIT),
        }
    }

    /// Writes the tree to the disk. If that fails, neither this run nor the next one uses anything of it.
    pub(super) fn sync(&self) -> Result<()> {
        if let Err(errno) = rustix::fs::syncfs(&self.tree) {
            let _ = self.lost.set(errno);
            self.resume.withdraw();
        }
        self.check_synced()
    }

    /// # Errors
    /// The error of the first sync that failed.
    pub(super) fn check_synced(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(errno) => {
                let hint = match *errno {
                    Errno::NOSPC | Errno::DQUOT => {
                        "no snapshot was made; earlier snapshots are complete; free some space and run again"
                    }
                    _ => {
                        "the disk did not take all data: no snapshot was made; earlier snapshots are complete; \
                         check the disk"
                    }
                };
                Err(Error::failed("sync the repository").because(*errno).hint(hint))
            }
        }
    }

    /// Runs calls that create and clone, on a bounded number of threads at once.
    pub(super) fn write(&self, write: impl FnOnce()) {
        self.writers.with(write);
    }
}
