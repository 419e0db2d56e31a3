//! The flags of chattr(1) and the project id of an inode: read from one open file or directory, set on another.
//!
//! The kernel calls the two together `fileattr`. On XFS one call reads both; Btrfs has no projects; other filesystems
//! have a call for each. Links and special nodes are never opened, so theirs are ignored.
//!
//! Sources: ioctl_iflags(2), ioctl_xfs_fsgetxattr(2), chattr(1), `include/uapi/linux/fs.h`.

use crate::fs::filesystem::Kind;
use crate::sys::fsxattr;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{PoisonError, RwLock};

/// The letters of chattr(1) and their flags, for all flags that are kept. Flags that a filesystem sets by itself
/// (extents, indexed, inline, encrypted, verity) are not kept, nor is casefold, which only an empty directory accepts.
const LETTERS: [(u32, char); 16] = [
    (0x0000_0001, 's'),
    (0x0000_0002, 'u'),
    (COMPRESSED, 'c'),
    (0x0000_0008, 'S'),
    (IMMUTABLE, 'i'),
    (APPEND, 'a'),
    (0x0000_0040, 'd'),
    (0x0000_0080, 'A'),
    (NOT_COMPRESSED, 'm'),
    (0x0000_4000, 'j'),
    (0x0000_8000, 't'),
    (0x0001_0000, 'D'),
    (0x0002_0000, 'T'),
    (NOCOW, 'C'),
    (0x0200_0000, 'x'),
    (PROJECT_INHERIT, 'P'),
];

/// `FS_COMPR_FL`.
const COMPRESSED: u32 = 0x4;
/// `FS_IMMUTABLE_FL`.
const IMMUTABLE: u32 = 0x10;
/// `FS_APPEND_FL`.
const APPEND: u32 = 0x20;
/// `FS_NOCOMP_FL`.
const NOT_COMPRESSED: u32 = 0x400;
/// `FS_NOCOW_FL`: Btrfs writes in place. Only an empty file can get or lose it.
pub const NOCOW: u32 = 0x80_0000;
/// `FS_PROJINHERIT_FL`: new entries of this directory inherit its project id.
pub const PROJECT_INHERIT: u32 = 0x2000_0000;
/// Flags that prevent renaming, linking and deleting an inode. The tree of a snapshot never has them, and a restore
/// sets them last.
pub const SEALS: u32 = IMMUTABLE | APPEND;
/// Flags that decide how data is stored. A file must have them before its first byte.
const STORAGE: u32 = NOCOW | COMPRESSED | NOT_COMPRESSED;
/// All kept flags.
pub(super) const FLAGS: u32 = {
    let mut flags = 0;
    let mut n = 0;
    while n < LETTERS.len() {
        flags |= LETTERS[n].0;
        n += 1;
    }
    flags
};

/// `FS_XFLAG_*` and the equivalent flags of chattr (`fileattr_fill_xflags` in `fs/file_attr.c`).
const XFLAGS: [(u32, u32); 7] = [
    (0x8, IMMUTABLE),
    (0x10, APPEND),
    (0x20, 0x8),
    (0x40, 0x80),
    (0x80, 0x40),
    (fsxattr::PROJECT_INHERIT, PROJECT_INHERIT),
    (0x8000, 0x0200_0000),
];

/// The flags and project id of an inode. `None`: unknown, or not supported by the filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileAttr {
    /// The flags, of [`FLAGS`].
    pub flags: Option<u32>,
    /// The project id of project quotas.
    pub project: Option<u32>,
}

/// The parts of a [`FileAttr`] that were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedAttr {
    /// The flags that differ.
    pub flags: u32,
    /// The project id.
    pub project: bool,
}

impl RefusedAttr {
    /// Adds the parts refused in a second step.
    pub fn add(&mut self, other: RefusedAttr) {
        self.flags |= other.flags;
        self.project |= other.project;
    }
}

/// The calls that a filesystem supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calls {
    /// `FS_IOC_FSGETXATTR` for both.
    Xfs,
    /// `FS_IOC_GETFLAGS`, without projects.
    Btrfs,
    /// One call for each.
    Both,
    /// Neither.
    None,
}

impl Calls {
    fn of(fd: impl AsFd) -> Calls {
        match Kind::of(&fd) {
            Ok(Kind::Xfs) => Calls::Xfs,
            Ok(Kind::Btrfs) => Calls::Btrfs,
            _ if has_none(ioctl_getflags(&fd)) && has_none(fsxattr::get(&fd)) => Calls::None,
            _ => Calls::Both,
        }
    }

    fn ask(self, fd: impl AsFd) -> FileAttr {
        let flags = || ioctl_getflags(&fd).ok().map(|flags| flags.bits() & FLAGS);
        let project = || fsxattr::get(&fd).ok().map(|found| found.project);
        match self {
            Calls::Xfs => match fsxattr::get(&fd) {
                Ok(found) => FileAttr { flags: Some(of_xflags(found.xflags)), project: Some(found.project) },
                Err(_) => FileAttr::default(),
            },
            Calls::Btrfs => FileAttr { flags: flags(), project: None },
            Calls::Both => FileAttr { flags: flags(), project: project() },
            Calls::None => FileAttr::default(),
        }
    }
}

fn has_none<T>(result: Result<T>) -> bool {
    matches!(result, Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL))
}

fn of_xflags(xflags: u32) -> u32 {
    XFLAGS.iter().filter(|(xflag, _)| xflags & xflag != 0).fold(0, |flags, (_, flag)| flags | flag)
}

/// Reads flags and project ids of files, and remembers which filesystems have none, by `st_dev`.
#[derive(Debug, Default)]
pub struct FileAttrs {
    calls: RwLock<HashMap<u64, Calls>>,
}

impl FileAttrs {
    /// Reads an open regular file or directory on the device `dev`.
    pub fn of(&self, fd: impl AsFd, dev: u64) -> FileAttr {
        let known = self.calls.read().unwrap_or_else(PoisonError::into_inner).get(&dev).copied();
        let calls = known.unwrap_or_else(|| {
            let calls = Calls::of(&fd);
            self.calls.write().unwrap_or_else(PoisonError::into_inner).insert(dev, calls);
            calls
        });
        calls.ask(fd)
    }
}

impl FileAttr {
    /// Reads an open regular file or directory.
    pub fn of(fd: impl AsFd) -> FileAttr {
        Calls::of(&fd).ask(fd)
    }

    /// The same without some flags.
    pub fn without(self, flags: u32) -> FileAttr {
        FileAttr { flags: self.flags.map(|own| own & !flags), ..self }
    }

    /// Whether an inode with `present` has all known parts. Unsupported parts count as zero.
    pub fn is_met_by(self, present: FileAttr) -> bool {
        let is_met = |wanted: Option<u32>, present: Option<u32>| wanted.is_none_or(|bits| bits == present.unwrap_or(0));
        is_met(self.flags, present.flags) && is_met(self.project, present.project)
    }

    /// Whether an inode with these flags cannot be deleted or moved.
    pub fn prevents_deletion(self) -> bool {
        self.flags.unwrap_or(0) & SEALS != 0
    }

    /// Whether a file needs some of these flags before its first byte.
    pub fn decides_storage(self) -> bool {
        self.flags.is_some_and(|flags| flags & STORAGE != 0)
    }

    /// Sets the flags that decide how data is stored on an empty file, and clears the others of that kind.
    pub(super) fn give_storage(self, fd: impl AsFd) {
        if let Some(flags) = self.flags {
            set_flags(fd, flags, STORAGE);
        }
    }

    /// Sets all parts except the [`SEALS`] on an open file or directory.
    pub(super) fn give(self, fd: impl AsFd) -> RefusedAttr {
        let project = self.give_project(&fd);
        let flags = self.flags.map_or(0, |flags| set_flags(fd, flags, FLAGS & !SEALS));
        RefusedAttr { flags, project }
    }

    /// Sets the project id and the [`SEALS`].
    pub fn seal(self, fd: impl AsFd) -> RefusedAttr {
        let project = self.give_project(&fd);
        let wanted = self.flags.unwrap_or(0) & SEALS;
        let flags = if wanted == 0 { 0 } else { set_flags(fd, wanted, SEALS) };
        RefusedAttr { flags, project }
    }

    /// Sets the project id. Returns whether it was refused.
    fn give_project(self, fd: impl AsFd) -> bool {
        self.project.is_some_and(|project| set_project(fd, project).is_err() && project != 0)
    }
}

/// Clears all flags of a directory that new entries would inherit, except that of its project.
pub(super) fn clear_inherited_flags(dir: impl AsFd) {
    set_flags(dir, 0, FLAGS & !SEALS & !PROJECT_INHERIT);
}

/// Whether new entries of a directory inherit its project.
pub fn has_project(dir: impl AsFd) -> bool {
    fsxattr::get(dir).is_ok_and(|found| found.project != 0 || found.xflags & fsxattr::PROJECT_INHERIT != 0)
}

/// Sets the flags in `mask` as in `wanted`, as far as the filesystem accepts. Returns the refused flags.
fn set_flags(fd: impl AsFd, wanted: u32, mask: u32) -> u32 {
    let Ok(present) = ioctl_getflags(&fd).map(|flags| flags.bits()) else { return wanted & mask };
    let goal = (present & !mask) | (wanted & mask);
    if goal == present {
        return 0;
    }
    let set = |flags| ioctl_setflags(&fd, IFlags::from_bits_retain(flags)).is_ok();
    if !set(goal) {
        // An unknown or forbidden flag makes the kernel refuse all.
        let mut present = present;
        for bit in (0..u32::BITS).map(|n| 1 << n).filter(|bit| (goal ^ present) & bit != 0).collect::<Vec<_>>() {
            if set(present ^ bit) {
                present ^= bit;
            }
        }
    }
    // Btrfs silently ignores NOCOW for a file with content.
    ioctl_getflags(&fd).map_or(0, |now| (now.bits() ^ goal) & mask)
}

fn set_project(fd: impl AsFd, project: u32) -> Result<()> {
    let mut attributes = fsxattr::get(&fd)?;
    if attributes.project == project {
        return Ok(());
    }
    attributes.project = project;
    fsxattr::set(fd, attributes)
}

/// Flags as lsattr(1) shows them.
pub fn letters(flags: u32) -> String {
    LETTERS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, letter)| letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_the_letters_of_lsattr_and_the_same_meaning_on_xfs() {
        assert_eq!(letters(IMMUTABLE | APPEND | NOCOW), "iaC");
        assert_eq!(letters(of_xflags(0x8 | 0x10 | 0x20 | 0x40 | 0x80 | 0x200)), "SiadAP");
        assert_eq!(FLAGS.count_ones() as usize, LETTERS.len());
        assert_eq!(FLAGS & SEALS, SEALS);
    }

    #[test]
    fn what_is_not_known_is_met_by_anything_and_zero_by_nothing_at_all() {
        let attr = |flags, project| FileAttr { flags, project };
        assert!(FileAttr::default().is_met_by(attr(Some(IMMUTABLE), Some(7))));
        assert!(attr(Some(0), Some(0)).is_met_by(FileAttr::default()));
        assert!(!attr(Some(0), None).is_met_by(attr(Some(APPEND), None)));
        assert!(!attr(None, Some(1)).is_met_by(attr(None, Some(2))));
    }
}
