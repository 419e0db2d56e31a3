//! The file of the cache. Its entries stay in the file (`stored`); the changes of a run are kept beside it (`changes`).
//! A new cache is written to a temporary file and renamed over the old one, so that a killed run leaves the old cache
//! intact.
//!
//! Only a cache is ever replaced. Anything else at the path, such as a text file or a device, is refused before the run
//! begins; the path is checked again before the rename.

mod changes;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod layout;
mod merge;
mod section;
mod stored;

pub(super) use changes::Changes;
pub(super) use stored::Stored;

use self::layout::{COMMON, HEADER, MAGIC, ZEROS};
use self::section::BUFFER;
use super::entry::Change;
use crate::error::{Error, Result};
use crate::fs::pread::write_all;
use crate::fs::spill::Spill;
use crate::fs::status::Status;
use crate::monitor::CacheFault;
use crate::tree::writer::{self, TempFile, Version};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The beginning of temporary names.
const TEMPORARY: &str = ".pleach-dedupe.";

/// Where a cache is, or will be.
#[derive(Clone, Debug)]
pub(super) struct CacheFile {
    path: PathBuf,
    /// Device and inode.
    inode: Option<(u64, u64)>,
}

/// The content of a cache file.
#[derive(Debug)]
pub(super) enum Content {
    /// There is no file.
    Absent,
    /// The file is a cache but cannot be used, for this reason.
    Unusable(CacheFault),
    /// Its verified content.
    Verified(Stored),
}

/// The block index of the next cache.
pub(super) enum BlockIndex<'a> {
    /// That of the old cache, copied without being understood.
    Unchanged,
    /// The bytes that this function writes.
    Written(&'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>),
}

impl CacheFile {
    /// Opens and verifies the cache at a path.
    ///
    /// # Errors
    /// If the file at the path is not a cache of this user, or cannot be read.
    pub(super) fn open(path: PathBuf) -> Result<(CacheFile, Content)> {
        let Some((file, status)) = find(&path)? else {
            return Ok((CacheFile { path, inode: None }, Content::Absent));
        };
        let content = match status.mode & 0o022 {
            0 => match Stored::open(file, status.size) {
                Ok(Ok(stored)) => Content::Verified(stored),
                Ok(Err(fault)) => Content::Unusable(fault),
                Err(error) => Content::Unusable(reason(&error)),
            },
            _ => Content::Unusable(CacheFault::WritableByOthers),
        };
        Ok((CacheFile { path, inode: Some((status.dev, status.ino)) }, content))
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its device and inode, if it is there.
    pub(super) fn inode(&self) -> Option<(u64, u64)> {
        self.inode
    }

    /// Makes an unnamed file in its directory, or above it if that is missing; if that fails, in the directory for
    /// temporary files.
    pub(super) fn spill(&self) -> io::Result<OwnedFd> {
        let existing = self.parent().ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("."));
        let beside = open_directory(existing).and_then(|dir| Ok(Spill::into(Some(dir)).file()?));
        beside.or_else(|_| Ok(Spill::into(None).file()?))
    }

    /// Replaces the cache by one with the old entries and these changes.
    ///
    /// # Errors
    /// If the cache cannot be written, the old one has changed since it was verified, or something else is at the path
    /// by now.
    pub(super) fn replace(&self, old: Option<&Stored>, changes: Changes, index: BlockIndex<'_>) -> Result<()> {
        let failed =
            |cause: io::Error| Error::io("write the cache", &self.path, cause).hint("the next run is slower for it");
        let dir = self.directory().map_err(failed)?;
        // Leftovers of killed runs; nothing depends on them.
        let _ = writer::clear(dir.as_fd(), TEMPORARY);
        let replaces = find(&self.path)?.map(|(_, status)| Version::of(&status));
        let aside = TempFile::make(dir.as_fd(), TEMPORARY, replaces).map_err(|errno| failed(errno.into()))?;
        let file = File::from(aside.as_fd().try_clone_to_owned().map_err(failed)?);
        write(&file, old, changes, index).map_err(failed)?;
        let name = self.path.file_name().unwrap_or_default();
        aside.put(name.as_bytes()).map(|_| ()).map_err(|errno| match errno {
            Errno::EXIST | Errno::STALE => failed(io::Error::other("another run has just written it")),
            errno => failed(errno.into()),
        })
    }

    /// Its directory, which is made if it is missing.
    fn directory(&self) -> io::Result<OwnedFd> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.parent())?;
        open_directory(self.parent())
    }

    fn parent(&self) -> &Path {
        self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens the file at a path, if it is a cache of this user.
fn find(path: &Path) -> Result<Option<(File, Status)>> {
    if path.file_name().is_none() || path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(not_a_cache(path, "it is the name of a directory"));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let failed = |errno| Error::io("open the cache", path, errno);
    let status = match Status::at(rustix::fs::CWD, path.as_os_str().as_bytes()) {
        Ok(status) => status,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    // Not even opened: opening a device or a named pipe may have side effects.
    if status.file_type() != FileType::RegularFile {
        return Err(not_a_cache(path, "it is not a regular file"));
    }
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?);
    let status = Status::of(&file).map_err(failed)?;
    if status.file_type() != FileType::RegularFile {
        return Err(not_a_cache(path, "it is not a regular file"));
    }
    let mut header = [0; COMMON];
    let length = crate::fs::pread::read_full(&file, &mut header, 0).map_err(failed)?;
    if length < MAGIC.len() || header[..MAGIC.len()] != MAGIC || header[ZEROS] != [0; ZEROS.end - ZEROS.start] {
        return Err(not_a_cache(path, "it is not a cache of pleach"));
    }
    if status.uid != rustix::process::geteuid().as_raw() {
        return Err(not_a_cache(path, "it belongs to another user"));
    }
    Ok(Some((file, status)))
}

fn not_a_cache(path: &Path, why: &str) -> Error {
    Error::usage("keep the cache in").at(path).hint(format!("{why}, and was not changed; name another file"))
}

fn reason(error: &io::Error) -> CacheFault {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => CacheFault::Truncated,
        io::ErrorKind::InvalidData => CacheFault::Damaged,
        _ => CacheFault::Unreadable { cause: crate::util::text::cause(error) },
    }
}

/// Writes a whole cache to an empty file and syncs it.
fn write(mut file: &File, old: Option<&Stored>, changes: Changes, index: BlockIndex<'_>) -> io::Result<()> {
    // Only the files that the last such run moved are witnesses.
    let forget_moved = changes.has_moved();
    let mut lists = changes.into_lists()?;
    if let Some(old) = old {
        lists.insert(0, Box::new(old.aged(forget_moved).map(|entry| entry.map(Change::Set))));
    }
    file.seek(SeekFrom::Start(HEADER as u64))?;
    let mut entries = Hashing::to(BufWriter::with_capacity(BUFFER, file));
    let mut count = 0;
    for entry in merge::merge(lists) {
        entries.write_all(&entry?.to_bytes())?;
        count += 1;
    }
    let mut written = Hashing::to(entries.inner);
    match (index, old) {
        (BlockIndex::Written(write), _) => write(&mut written)?,
        (BlockIndex::Unchanged, Some(old)) => _ = io::copy(&mut old.index()(), &mut written)?,
        (BlockIndex::Unchanged, None) => {}
    }
    let header = layout::header(count, &entries.hasher, written.length, &written.hasher);
    written.inner.into_inner().map_err(|error| error.into_error())?;
    // Last: before, it was no cache.
    write_all(file, &header, 0)?;
    file.sync_all()
}

/// Computes the checksum of the written bytes.
struct Hashing<W> {
    inner: W,
    hasher: blake3::Hasher,
    length: u64,
}

impl<W: Write> Hashing<W> {
    fn to(inner: W) -> Self {
        Hashing { inner, hasher: blake3::Hasher::new(), length: 0 }
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod mutations;

#[cfg(test)]
mod tests;
