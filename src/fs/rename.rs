//! Renames that never replace anything, on every filesystem, and waiting for renames by others.
//!
//! `RENAME_NOREPLACE` is missing on NFS, on many FUSE filesystems (such as bindfs) and on some overlays. There a file
//! gets its new name by a hard link, which fails if the name exists, or it replaces an empty file created for this. A
//! directory is renamed if the name is free, because rename(2) replaces only an empty directory.

use crate::fs::filesystem::Kind;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, Result};
use rustix::path::Arg;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

/// Moves `name` in `from` to `new_name` in `to`. Fails with `EXIST` if that name exists.
pub(crate) fn without_replacing(from: impl AsFd, name: impl Arg, to: impl AsFd, new_name: impl Arg) -> Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    name.into_with_c_str(|name| {
        new_name.into_with_c_str(|new_name| {
            match rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Move { from, name, to, new_name }.run(),
                result => result,
            }
        })
    })
}

/// Waits until other processes of this host have finished the renames in a directory that they have begun: the kernel
/// lists a directory and renames in it one after the other, however long each takes.
pub(crate) fn wait_for_others(dir: BorrowedFd<'_>) {
    // If it cannot be listed, there is nothing to wait for.
    let _ = Dir::read_from(dir).map(|mut listed| listed.next());
}

/// A move for a filesystem without `RENAME_NOREPLACE`.
struct Move<'a> {
    from: BorrowedFd<'a>,
    name: &'a CStr,
    to: BorrowedFd<'a>,
    new_name: &'a CStr,
}

impl Move<'_> {
    fn run(&self) -> Result<()> {
        let status = rustix::fs::statat(self.from, self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(status.st_mode) == FileType::Directory {
            return self.move_directory();
        }
        // These keep a temporary name for an open file that was unlinked, until it is closed. FUSE also reports a
        // different inode number under each name.
        if matches!(Kind::of(self.to), Ok(Kind::Fuse | Kind::Nfs)) {
            return self.move_over_placeholder();
        }
        match rustix::fs::linkat(self.from, self.name, self.to, self.new_name, AtFlags::empty()) {
            Ok(()) => rustix::fs::unlinkat(self.from, self.name, AtFlags::empty()).inspect_err(|_| {
                // It must not have both names.
                let _ = rustix::fs::unlinkat(self.to, self.new_name, AtFlags::empty());
            }),
            // Hard links are not supported here, or not for this file.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK | Errno::INVAL | Errno::ACCESS) => {
                self.move_over_placeholder()
            }
            Err(errno) => Err(errno),
        }
    }

    /// rename(2) replaces a directory only by a directory, and only if it is empty. So a race with another process can
    /// only replace an empty directory. A placeholder would be worse: after a power cut it could keep the name.
    fn move_directory(&self) -> Result<()> {
        match rustix::fs::statat(self.to, self.new_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => return Err(Errno::EXIST),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        rustix::fs::renameat(self.from, self.name, self.to, self.new_name).map_err(|errno| match errno {
            // Another process created it meanwhile.
            Errno::NOTEMPTY | Errno::NOTDIR => Errno::EXIST,
            errno => errno,
        })
    }

    /// Replaces an empty file that was created for this. Its identity is checked, but not in the same call.
    fn move_over_placeholder(&self) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = rustix::fs::openat(self.to, self.new_name, flags, Mode::RUSR | Mode::WUSR)?;
        let made = rustix::fs::fstat(&open)?;
        let is_ours = || {
            rustix::fs::statat(self.to, self.new_name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|now| (now.st_dev, now.st_ino, now.st_size) == (made.st_dev, made.st_ino, 0))
        };
        // On FUSE, an inode may get another number once nothing has it open and the kernel has dropped it from memory.
        if !is_ours() {
            return Err(Errno::EXIST);
        }
        // See `run`: an open file would keep a temporary name.
        drop(open);
        rustix::fs::renameat(self.from, self.name, self.to, self.new_name).inspect_err(|_| {
            if is_ours() {
                let _ = rustix::fs::unlinkat(self.to, self.new_name, AtFlags::empty());
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    /// The ways to move an entry, the kernel's own first.
    const WAYS: [fn(Move<'_>) -> Result<()>; 3] = [
        |way| without_replacing(way.from, way.name, way.to, way.new_name),
        |way| way.run(),
        |way| {
            let status = rustix::fs::statat(way.from, way.name, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(status.st_mode) {
                FileType::Directory => way.move_directory(),
                _ => way.move_over_placeholder(),
            }
        },
    ];

    fn moved(way: fn(Move<'_>) -> Result<()>, dir: &File, name: &str, new_name: &str) -> Result<()> {
        let (name, new_name) = (CString::new(name).unwrap(), CString::new(new_name).unwrap());
        way(Move { from: dir.as_fd(), name: &name, to: dir.as_fd(), new_name: &new_name })
    }

    #[test]
    fn every_way_moves_files_links_and_directories_and_replaces_nothing() {
        for way in WAYS {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            let open = File::open(dir.path()).unwrap();
            fs::write(at("file"), "content").unwrap();
            symlink("nowhere", at("link")).unwrap();
            fs::create_dir_all(at("directory/inner")).unwrap();
            for name in ["file", "link", "directory"] {
                moved(way, &open, name, &format!("new {name}")).unwrap();
            }
            assert_eq!(fs::read(at("new file")).unwrap(), b"content");
            assert_eq!(fs::read_link(at("new link")).unwrap().to_str(), Some("nowhere"));
            assert!(at("new directory/inner").is_dir());
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);

            fs::create_dir(at("empty")).unwrap();
            fs::write(at("nothing"), "").unwrap();
            for name in ["new file", "new link", "new directory"] {
                for taken in ["empty", "nothing", "new file", "new link", "new directory"] {
                    assert_eq!(moved(way, &open, name, taken), Err(Errno::EXIST), "{name} to {taken}");
                }
            }
            assert_eq!(moved(way, &open, "missing", "new name"), Err(Errno::NOENT));
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5);
            assert_eq!(fs::read(at("new file")).unwrap(), b"content");
        }
    }

    #[test]
    fn a_move_that_fails_leaves_no_placeholder() {
        let dir = tempfile::tempdir().unwrap();
        let open = File::open(dir.path()).unwrap();
        fs::create_dir_all(dir.path().join("directory/inner")).unwrap();
        let inner = File::open(dir.path().join("directory/inner")).unwrap();
        let way = Move { from: open.as_fd(), name: c"directory", to: inner.as_fd(), new_name: c"itself" };
        assert_eq!(way.run(), Err(Errno::INVAL));
        assert_eq!(fs::read_dir(dir.path().join("directory/inner")).unwrap().count(), 0);
    }
}
