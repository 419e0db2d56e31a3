//! Files that a command writes where the user says: pictures and reports. Such a file is written as a whole or not at
//! all. It replaces only an empty file, or one that pleach wrote for this user: a slip such as `--svg a.img b.img` must
//! not destroy a file, nor somebody's own drawing.

use crate::error::{Error, Result};
use crate::program::output::beside::create_beside;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// A kind of files.
pub(super) struct OwnFile {
    /// What it is, as in "the picture".
    pub noun: &'static str,
    /// How pleach makes it, as in "pleach did not draw".
    pub verb: &'static str,
    /// The ending of the name until it is complete.
    pub ending: &'static str,
    /// Whether a file with this beginning is one that pleach wrote.
    pub is_own: fn(&[u8]) -> bool,
}

impl OwnFile {
    fn write(&self) -> String {
        format!("write the {}", self.noun)
    }
    /// Refuses a path where no such file can be written, before any work is done.
    ///
    /// # Errors
    /// If something else is there, or the directory does not exist.
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        if path.file_name().is_none() {
            return Err(Error::failed(self.write()).at(path).because(Errno::ISDIR).hint("name a file"));
        }
        match fs::symlink_metadata(path) {
            Ok(status) if FileType::from_raw_mode(status.mode()).is_file() => {
                let begins = beginning(path).map_err(|error| Error::io("read", path, error))?;
                let cause = if !begins.is_empty() && !(self.is_own)(&begins) {
                    format!("a file exists there that pleach did not {}", self.verb)
                } else if status.uid() != rustix::process::geteuid().as_raw() {
                    "the file there belongs to another user".to_string()
                } else {
                    return Ok(());
                };
                let error = Error::io(self.write(), path, io::Error::other(cause));
                Err(error.hint("it was not changed; name another file, or remove it"))
            }
            Ok(_) => {
                let cause = io::Error::other("not a regular file");
                Err(Error::io(self.write(), path, cause).hint("it was not changed; name another file"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let dir = directory(path);
                match fs::metadata(dir) {
                    Ok(status) if status.is_dir() => Ok(()),
                    Ok(_) => Err(Error::io(self.write(), path, Errno::NOTDIR)),
                    Err(error) => Err(Error::io(self.write(), path, error)),
                }
            }
            Err(error) => Err(Error::io(self.write(), path, error)),
        }
    }

    /// Writes the file under a temporary name, then renames it.
    ///
    /// # Errors
    /// Like [`OwnFile::check`], or if the file cannot be written; the previous file stays.
    pub(super) fn save(&self, path: &Path, content: &str) -> Result<()> {
        self.check(path)?;
        let failed = |error: io::Error| Error::io(self.write(), path, error);
        let (temporary, mut file) = create_beside(path, self.ending, 0o666).map_err(failed)?;
        let written = file.write_all(content.as_bytes()).and_then(|()| file.sync_all());
        // Check again: another file may have appeared meanwhile.
        let written = written
            .map_err(failed)
            .and_then(|()| self.check(path))
            .and_then(|()| fs::rename(&temporary, path).map_err(failed));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// The first bytes of a file.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    // It was a regular file when it was checked. If something replaced it since, opening must neither block nor follow
    // a link.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    let mut bytes = Vec::new();
    file.take(4096).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
