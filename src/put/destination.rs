//! The destination: the directory and the name that the new file will be renamed to, and the present file.
//!
//! A symbolic link stays and its target is replaced, as with a shell's `>`. The kernel follows the link, with its own
//! rules on links in directories that anybody may write to. The file that it reaches is then looked up by name.

use crate::error::{Error, Result};
use crate::fs::metadata::{FileAttr, SEALS, letters};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::{Event, Monitor};
use crate::util::text;
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Where the new file goes.
#[derive(Debug)]
pub(super) struct Destination {
    /// The directory that contains the name.
    pub(super) dir: OwnedFd,
    pub(super) name: Vec<u8>,
    /// The path as the user gave it.
    pub(super) shown: PathBuf,
    /// The present file.
    pub(super) present: Option<Present>,
}

/// A file that will be replaced.
#[derive(Debug)]
pub(super) struct Present {
    /// Open for reading.
    pub(super) fd: OwnedFd,
    pub(super) status: Status,
}

impl Destination {
    /// Finds the destination, and refuses anything that cannot be replaced.
    pub(super) fn open(path: &Path, monitor: &dyn Monitor) -> Result<Destination> {
        let usage = |why: &str| Error::usage("put a stream in the place of").at(path).hint(why.to_string());
        let failed = |action: &str, errno: Errno| Error::io(action, path, errno);
        let ends_as_directory = [&b"/"[..], b"/.", b"/.."].iter().any(|end| path.as_os_str().as_bytes().ends_with(end));
        let name = path.file_name().filter(|_| !ends_as_directory);
        let name = name.ok_or_else(|| usage("it is a directory; name a file in it"))?;
        let dir = open_dir(path.parent().unwrap_or(Path::new("")));
        let dir = dir.map_err(|errno| failed("open the directory of", errno))?;
        let node = match rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(node) => node,
            Err(Errno::NOENT) => {
                if Status::at(&dir, name.as_bytes()).is_ok() {
                    return Err(usage("it is a symbolic link that leads to nothing; name the file itself"));
                }
                return Ok(Destination { dir, name: name.as_bytes().to_vec(), shown: path.into(), present: None });
            }
            Err(errno) => return Err(failed("open", errno)),
        };
        let status = Status::of(&node).map_err(|errno| failed("read the status of", errno))?;
        match status.file_type() {
            FileType::RegularFile => {}
            FileType::Directory => return Err(usage("it is a directory; name a file in it")),
            FileType::Fifo => return Err(usage("it is a named pipe, and only a file can be replaced")),
            FileType::Socket => return Err(usage("it is a socket, and only a file can be replaced")),
            _ => return Err(usage("it is a device, and only a file can be replaced")),
        }
        let (dir, name) = if is_named(&dir, name, &status) {
            (dir, name.to_owned())
        } else {
            let real = real_path(&node).map_err(|errno| failed("find the target of the symbolic link", errno))?;
            let found = real.parent().map(open_dir).zip(real.file_name());
            let found = found.and_then(|(dir, name)| Some((dir.ok()?, name.to_owned())));
            let found = found.filter(|(dir, name)| is_named(dir, name, &status));
            let found = found.ok_or_else(|| {
                let error = failed("find the target of the symbolic link", Errno::NOENT);
                error.hint(format!("it should be {}", text::path(&real)))
            })?;
            monitor.event(Event::LinkFollowed { link: path, target: &real });
            found
        };
        let fd = openat::open_file(dir.as_fd(), name.as_bytes()).map_err(|errno| failed("read", errno))?;
        if !Status::of(&fd).is_ok_and(|opened| opened.is_same_inode(&status)) {
            return Err(failed("read", Errno::STALE).hint("something else was put in its place meanwhile; run again"));
        }
        let present = Present { fd, status };
        present.assert_replaceable(path, &dir, name.as_bytes())?;
        if status.nlink > 1 {
            monitor.event(Event::OtherNames { path, names: status.nlink - 1 });
        }
        Ok(Destination { dir, name: name.as_bytes().to_vec(), shown: path.into(), present: Some(present) })
    }
}

impl Present {
    /// Whether it may be written, and so replaced. Checked before a long stream is read for nothing.
    fn assert_replaceable(&self, path: &Path, dir: &OwnedFd, name: &[u8]) -> Result<()> {
        let failed = |errno| Error::io("replace", path, errno);
        let seals = FileAttr::of(&self.fd).flags.unwrap_or(0) & SEALS;
        if seals != 0 {
            let hint = format!("it has the chattr flags {}, which forbid it", letters(seals));
            return Err(failed(Errno::PERM).hint(hint));
        }
        let flags = AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW;
        match rustix::fs::accessat(dir, name, Access::WRITE_OK, flags) {
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY)) => {
                Err(failed(errno).hint("only a file that may be written is replaced"))
            }
            // Kernels before 5.8 lack this call; the rename then decides.
            _ => Ok(()),
        }
    }
}

fn open_dir(path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Whether a name in a directory is exactly this inode, and not a link to it.
fn is_named(dir: &OwnedFd, name: &OsStr, status: &Status) -> bool {
    Status::at(dir, name.as_bytes()).is_ok_and(|found| found.is_same_inode(status))
}

/// The path of an open file.
fn real_path(node: &OwnedFd) -> rustix::io::Result<PathBuf> {
    let link = format!("/proc/self/fd/{}", node.as_raw_fd());
    let path = rustix::fs::readlinkat(CWD, link, Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(path.as_bytes())))
}
