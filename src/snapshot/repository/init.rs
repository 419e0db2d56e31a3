//! Makes repositories, and distinguishes them from other directories.

use super::dir::Dir;
use super::layout::{CONTROL, FORMAT};
use super::lock::Lock;
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The text of the file `format` before the version.
const SENTENCE: &str = "pleach repository, format ";
/// The entries that an interrupted run may have left in the control directory before it wrote `format`, its last step.
const PARTS: [&str; 5] = ["format.new", "lock", "manifests", "partial", "trash"];

/// How long another run may take to make the repository, and how often this is checked.
const PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(10);

/// The kinds of directories that a path may name.
pub(super) enum Found {
    /// A repository, perhaps of another format.
    Repository,
    /// An incomplete repository, which an interrupted run left.
    HalfMade,
    /// Empty, except for `lost+found`, which mkfs makes.
    Empty,
    /// A directory of somebody else.
    Foreign,
}

/// Finds the kind of a directory, and changes nothing.
pub(super) fn look(root: &Dir) -> Result<Found> {
    if root.has_dir(CONTROL)? {
        let control = root.dir(CONTROL)?;
        if control.stat("format")?.is_some() {
            return Ok(Found::Repository);
        }
        let ours = control.names()?.iter().all(|name| PARTS.iter().any(|part| part.as_bytes() == name));
        return Ok(match ours && is_empty(root)? {
            true => Found::HalfMade,
            // Another run may have completed it meanwhile.
            false if control.stat("format")?.is_some() => Found::Repository,
            false => Found::Foreign,
        });
    }
    match is_empty(root)? {
        true => Ok(Found::Empty),
        // Another run may have begun to make it meanwhile.
        false if root.has_dir(CONTROL)? => look(root),
        false => Ok(Found::Foreign),
    }
}

fn is_empty(root: &Dir) -> Result<bool> {
    let mut others = 0_u64;
    root.for_each(|name, _| {
        let ours = name.to_bytes() == CONTROL.as_bytes() || name.to_bytes() == b"lost+found";
        others += u64::from(!ours);
        Ok(())
    })?;
    Ok(others == 0)
}

/// Makes the directory of a repository. Its parent must exist: a missing parent more likely means that a disk is not
/// mounted.
pub(super) fn make_root(path: &Path) -> Result<Dir> {
    match fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => {
            let error = Error::io("make the repository", path, errno);
            let no_parent = errno == Errno::NOENT;
            return Err(if no_parent {
                error.hint("its parent directory is missing: is the disk mounted?")
            } else {
                error
            });
        }
    }
    Dir::open(path).map_err(|errno| unusable(path, errno))
}

/// Makes a repository in an empty directory, or completes one that an interrupted run began. Returns false if another
/// run has made it meanwhile.
pub(super) fn make(root: &Dir) -> Result<bool> {
    root.make_private()?;
    let control = root.make_dir(CONTROL)?;
    control.make_private()?;
    let Some(_lock) = alone(&control)? else { return Ok(false) };
    for part in ["manifests", "partial", "trash"] {
        control.make_dir(part)?.make_private()?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let mut file = control.file("format.new", flags, Mode::RUSR | Mode::WUSR)?;
    writeln!(file, "{SENTENCE}{FORMAT}")
        .and_then(|()| file.sync_all())
        .map_err(|cause| Error::io("write", control.join("format.new"), cause))?;
    fs::renameat(&control, "format.new", &control, "format")
        .map_err(|errno| Error::io("write", control.join("format"), errno))?;
    control.sync()?;
    root.sync()?;
    // Syncs the directory's own name, if possible: some parents cannot be opened.
    if let Some(Ok(parent)) = root.path().parent().map(Dir::open) {
        let _ = parent.sync();
    }
    Ok(true)
}

/// Waits until no other run makes the repository. `None`: another run has made it.
fn alone(control: &Dir) -> Result<Option<Lock>> {
    let begun = Instant::now();
    loop {
        let lock = Lock::take(control);
        match lock {
            _ if control.stat("format")?.is_some() => return Ok(None),
            Ok(lock) => return Ok(Some(lock)),
            Err(error) if error.kind() == ErrorKind::Locked && begun.elapsed() < PATIENCE => sleep(TICK),
            Err(error) => return Err(error),
        }
    }
}

/// Refuses every format except the supported one.
pub(super) fn check_format(control: &Dir) -> Result<()> {
    let path = control.join("format");
    let repository = control.path().parent().unwrap_or(control.path());
    let mut text = String::new();
    control
        .file("format", OFlags::RDONLY, Mode::empty())?
        .take(4096)
        .read_to_string(&mut text)
        .map_err(|cause| Error::io("read", &path, cause))?;
    let version = text.trim_end().strip_prefix(SENTENCE).and_then(|version| version.parse::<u32>().ok());
    match version {
        Some(FORMAT) => Ok(()),
        Some(other) => Err(Error::failed(format!("use format {other}, only format {FORMAT}, of the repository"))
            .at(repository)
            .hint("another version of pleach made it; use that one")),
        None => Err(Error::failed("read the format of the repository")
            .at(path)
            .because(io::Error::new(io::ErrorKind::InvalidData, "it is not what pleach writes there"))),
    }
}

/// The error for a path that is not a usable directory.
pub(super) fn unusable(path: &Path, errno: Errno) -> Error {
    let error = Error::io("open the repository", path, errno);
    if errno == Errno::NOTDIR { error.hint("a repository is a directory") } else { error }
}
