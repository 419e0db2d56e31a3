//! The picture's file. It is written as a whole or not at all. It replaces only an empty file, or a picture that pleach
//! drew for this user: a slip such as `--svg a.img b.img` must not destroy a file, nor somebody's own drawing.

use crate::error::{Error, Result};
use crate::program::output::beside::create_beside;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The second line of each picture. The next picture may replace a file that has it.
pub(super) const MARK: &str = "<!-- Drawn by pleach fiemap, which replaces this file when it draws it again. -->";

/// Refuses a path where no picture can be written, before any work is done.
///
/// # Errors
/// If something else is there, or the directory does not exist.
pub(crate) fn check(path: &Path) -> Result<()> {
    if path.file_name().is_none() {
        return Err(Error::failed("write the picture").at(path).because(Errno::ISDIR).hint("name a file"));
    }
    match fs::symlink_metadata(path) {
        Ok(status) if FileType::from_raw_mode(status.mode()).is_file() => {
            let begins = beginning(path).map_err(|error| Error::io("look at", path, error))?;
            let cause = if !begins.is_empty() && !is_picture(&begins) {
                "a file exists there that pleach did not draw"
            } else if status.uid() != rustix::process::geteuid().as_raw() {
                "the file there belongs to another user"
            } else {
                return Ok(());
            };
            let error = Error::io("write the picture", path, io::Error::other(cause));
            Err(error.hint("it was not changed; name another file, or remove it"))
        }
        Ok(_) => {
            let cause = io::Error::other("something that is no regular file is there");
            Err(Error::io("write the picture", path, cause).hint("it stays as it is; name another file"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let dir = directory(path);
            match fs::metadata(dir) {
                Ok(status) if status.is_dir() => Ok(()),
                Ok(_) => Err(Error::io("write the picture", path, Errno::NOTDIR)),
                Err(error) => Err(Error::io("write the picture", path, error)),
            }
        }
        Err(error) => Err(Error::io("write the picture", path, error)),
    }
}

/// Writes the picture under a temporary name, then renames it.
///
/// # Errors
/// Like [`check`], or if the picture cannot be written; the previous file stays.
pub(crate) fn save(path: &Path, picture: &str) -> Result<()> {
    check(path)?;
    let failed = |error: io::Error| Error::io("write the picture", path, error);
    let (temporary, mut file) = create_beside(path, ".svg.part", 0o666).map_err(failed)?;
    let written = file.write_all(picture.as_bytes()).and_then(|()| file.sync_all());
    // Check again: another file may have appeared meanwhile.
    let written =
        written.map_err(failed).and_then(|()| check(path)).and_then(|()| fs::rename(&temporary, path).map_err(failed));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Whether a file with this beginning is a picture that pleach drew.
fn is_picture(begins: &[u8]) -> bool {
    let mut lines = begins.split(|byte| *byte == b'\n');
    lines.next().is_some_and(|first| first.starts_with(b"<svg ")) && lines.next() == Some(MARK.as_bytes())
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
