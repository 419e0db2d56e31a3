//! Syncs a tree file by file, on filesystems where syncfs(2) is not enough: see [`Kind::has_reliable_syncfs`].

use crate::fs::filesystem::Kind;
use crate::fs::openat;
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Writes every file and directory of a staged tree to the disk, if its filesystem needs a request for each.
pub(super) fn sync_tree(tree: impl AsFd, filesystem: impl AsFd) -> Result<()> {
    if Kind::of(filesystem)?.has_reliable_syncfs() { Ok(()) } else { sync_below(tree.as_fd()) }
}

fn sync_below(tree: BorrowedFd<'_>) -> Result<()> {
    let mut directories = vec![Vec::new()];
    while let Some(path) = directories.pop() {
        let directory = match openat::open_dir(tree, &path) {
            Err(Errno::ACCESS) => continue,
            directory => directory?,
        };
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            match file_type(&directory, &entry)? {
                FileType::Directory if path.is_empty() => directories.push(name.to_vec()),
                FileType::Directory => directories.push([&path[..], name].join(&b'/')),
                FileType::RegularFile => match openat::open_file(directory.as_fd(), name) {
                    // Its owner may not read it, as with some directories. syncfs(2) has written it; only an error of
                    // syncfs(2) could go unnoticed.
                    Err(Errno::ACCESS) => {}
                    file => sync(&file?)?,
                },
                _ => {}
            }
        }
        sync(&directory)?;
    }
    Ok(())
}

/// Writes a file or a directory to the disk. A server without that call reports that there is nothing to do.
fn sync(fd: &OwnedFd) -> Result<()> {
    match rustix::fs::fsync(fd) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        result => result,
    }
}

fn file_type(directory: &OwnedFd, entry: &rustix::fs::DirEntry) -> Result<FileType> {
    match entry.file_type() {
        FileType::Unknown => {
            let status = rustix::fs::statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(FileType::from_raw_mode(status.st_mode))
        }
        known => Ok(known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mknodat};

    #[test]
    fn a_tree_with_all_types_of_entries_is_synced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("a/link")).unwrap();
        mknodat(CWD, dir.path().join("a/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        sync_below(std::fs::File::open(dir.path()).unwrap().as_fd()).unwrap();
    }
}
