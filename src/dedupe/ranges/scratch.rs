//! Unnamed files beside those in scope: one that is only a hole, to share zeros with, and new files for the rest of
//! extents. They have no name and disappear with their descriptors, whatever happens.

use crate::dedupe::catalogue::FileId;
use crate::dedupe::run::Run;
use crate::fs::filesystem::unnamed;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How many directories of a subvolume are tried.
const MOST_TRIES: u32 = 100;

/// How a file's data is stored, as far as it matters for sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// Written in place (Btrfs): shares only with files of the same kind.
    pub(super) nocow: bool,
    /// Will be compressed (Btrfs).
    pub(super) compressed: bool,
}

/// Makes unnamed files.
pub(super) struct Scratch<'a> {
    run: &'a Run<'a>,
    /// A directory in which a file could be created.
    proven: Option<OwnedFd>,
    /// A file could not be created anywhere.
    hopeless: bool,
    hole: [Option<OwnedFd>; 2],
}

impl<'a> Scratch<'a> {
    pub(super) fn new(run: &'a Run<'a>) -> Self {
        Scratch { run, proven: None, hopeless: false, hole: [None, None] }
    }

    /// A file of `length` bytes that is one hole. `nocow`: it can share with files that are written in place; otherwise
    /// with all others.
    pub(super) fn hole(&mut self, near: u32, nocow: bool, length: u64) -> Result<BorrowedFd<'_>> {
        if self.hole[usize::from(nocow)].is_none() {
            let file = self.file(near, Manner { nocow, compressed: false })?;
            rustix::fs::ftruncate(&file, length)?;
            self.hole[usize::from(nocow)] = Some(file);
        }
        self.hole[usize::from(nocow)].as_ref().map(AsFd::as_fd).ok_or(Errno::NOENT)
    }

    /// Checks that a file can be created.
    pub(super) fn check(&mut self, near: u32) -> Result<()> {
        self.anywhere(near).map(drop)
    }

    /// An empty file on the filesystem of `near`: in its directory, or otherwise where one could be created before.
    pub(super) fn file(&mut self, near: u32, manner: Manner) -> Result<OwnedFd> {
        let file = self.anywhere(near)?;
        let flags = ioctl_getflags(&file).unwrap_or(IFlags::empty());
        let mut wanted = flags;
        wanted.set(IFlags::NOCOW, manner.nocow);
        if !manner.nocow && manner.compressed {
            wanted.insert(IFlags::COMPRESSED);
        } else if manner.nocow {
            wanted.remove(IFlags::COMPRESSED);
        }
        if wanted != flags {
            ioctl_setflags(&file, wanted)?;
        }
        Ok(file)
    }

    /// An empty file with the filesystem's default attributes.
    fn anywhere(&mut self, near: u32) -> Result<OwnedFd> {
        let mut refused = match self.beside(near) {
            Err(errno) => errno,
            made => return made,
        };
        if let Some(directory) = &self.proven {
            return unnamed(directory);
        }
        if self.hopeless {
            return Err(refused);
        }
        // The directory of `near` is in a read-only snapshot or belongs to somebody else. The directories of other
        // files are tried next, some of each subvolume.
        let catalogue = self.run.catalogue;
        let volume = catalogue.volume_number(FileId(near));
        let mut tried = HashMap::<u16, u32>::new();
        for file in catalogue.ids().filter(|&file| catalogue.volume_number(file) == volume) {
            let tries = tried.entry(catalogue.record(file).subvolume).or_default();
            *tries += 1;
            if catalogue.subvolume(file).read_only || *tries > MOST_TRIES {
                continue;
            }
            match self.beside(file.0) {
                Err(errno) => refused = errno,
                made => return made,
            }
        }
        self.hopeless = true;
        Err(refused)
    }

    fn beside(&mut self, near: u32) -> Result<OwnedFd> {
        let directory = self.run.opener.directory(FileId(near))?;
        let file = unnamed(&directory)?;
        self.proven = Some(directory);
        Ok(file)
    }
}
