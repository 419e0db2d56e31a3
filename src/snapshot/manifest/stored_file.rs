//! The file of an open manifest. It can be closed between two reads, because a repository may have more snapshots than
//! a process may have open files.

use super::layout::unreadable;
use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The file.
pub(super) struct StoredFile {
    state: State,
    path: PathBuf,
}

enum State {
    Open(File),
    /// Each read opens it. The device and the inode show whether it is still the same file.
    Closed(u64, u64),
}

impl StoredFile {
    pub(super) fn new(file: File, path: &Path) -> StoredFile {
        StoredFile { state: State::Open(file), path: path.to_path_buf() }
    }

    /// The path that it was opened with.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file until it is read again. This also ends the lock on it, so the snapshot can be removed.
    pub(super) fn close(&mut self) -> Result<()> {
        if let State::Open(file) = &self.state {
            let metadata = file.metadata().map_err(|cause| Error::io("read the status of", &self.path, cause))?;
            self.state = State::Closed(metadata.dev(), metadata.ino());
        }
        Ok(())
    }

    /// Passes the open file to `read`.
    ///
    /// # Errors
    /// If the file was closed, and is now missing or another one.
    pub(super) fn read<T>(&self, read: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        let (device, inode) = match &self.state {
            State::Open(file) => return read(file),
            State::Closed(device, inode) => (*device, *inode),
        };
        let failed = |errno| {
            let error = Error::io("open", &self.path, errno);
            if errno == Errno::NOENT { error.hint("the snapshot was just removed") } else { error }
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&self.path, flags, Mode::empty()).map_err(failed)?);
        let metadata = file.metadata().map_err(|cause| unreadable("status", &self.path, cause))?;
        if (metadata.dev(), metadata.ino()) != (device, inode) {
            return Err(Error::failed("read").at(&self.path).hint("it was replaced meanwhile"));
        }
        read(&file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_file_is_opened_again_unless_it_is_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest");
        std::fs::write(&path, "first").unwrap();
        let mut stored = StoredFile::new(File::open(&path).unwrap(), &path);
        let length = |file: &File| Ok(file.metadata().unwrap().len());
        stored.close().unwrap();
        stored.close().unwrap();
        assert_eq!(stored.read(length).unwrap(), 5);
        std::fs::write(dir.path().join("other"), "second").unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        assert!(stored.read(length).unwrap_err().to_string().contains("replaced"));
        std::fs::remove_file(&path).unwrap();
        assert!(stored.read(length).unwrap_err().to_string().contains("just removed"));
    }
}
