//! New files beside the file that they replace.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Creates a file in the directory of `path`, with an unused name that ends in `ending`. `mode` is as for open(2).
pub(super) fn create_beside(path: &Path, ending: &str, mode: u32) -> io::Result<(PathBuf, File)> {
    let mut tries = 0;
    loop {
        // The name does not contain that of `path`, which may already have the maximal length.
        let temporary = path.with_file_name(format!(".pleach-{}-{tries}{ending}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && tries < 100 => tries += 1,
            Err(error) => return Err(error),
        }
    }
}
