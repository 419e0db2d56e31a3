//! The file of the cache. It is read whole. A new cache is written to a temporary file and renamed over the old one, so
//! that a killed run leaves the old cache intact.
//!
//! Only a cache is ever replaced. Anything else at the path, such as a text file or a device, is refused before the run
//! begins; the path is checked again before the rename.

use super::entry::{Entry, LENGTH};
use crate::error::{Error, Result};
use crate::fs::status::Status;
use crate::monitor::CacheFault;
use crate::tree::writer::{self, TempFile, Version};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 16] = *b"pleach dedupe\n\0\0";
const VERSION: u32 = 1;
const HEADER: usize = 32;
/// Bytes of the header that are zero in every cache, because versions will not need them. A text that begins like a
/// cache has no zeros there.
const ZEROS: Range<usize> = 18..24;
const CHECKSUM: usize = 32;
/// The beginning of temporary names.
const TEMPORARY: &str = ".pleach-dedupe.";

/// Where a cache is, or will be.
#[derive(Debug)]
pub(super) struct CacheFile {
    path: PathBuf,
    /// Device and inode.
    inode: Option<(u64, u64)>,
}

/// The content of a cache file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// There is no file.
    Absent,
    /// The file is a cache but cannot be used, for this reason.
    Unusable(CacheFault),
    /// Sorted by their keys.
    Entries(Vec<Entry>),
}

impl CacheFile {
    /// Reads the cache at a path.
    ///
    /// # Errors
    /// If the file at the path is not a cache of this user, or cannot be read.
    pub(super) fn open(path: PathBuf) -> Result<(CacheFile, Content)> {
        let Some((file, status)) = find(&path)? else {
            return Ok((CacheFile { path, inode: None }, Content::Absent));
        };
        let content = match status.mode & 0o022 {
            0 => read(file, status.size).unwrap_or_else(|error| Content::Unusable(reason(&error))),
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

    /// Replaces the cache by one with these entries. If both lists have a key, the new entry is kept.
    ///
    /// # Errors
    /// If the cache cannot be written, or something else is at the path by now.
    pub(super) fn replace(&self, old: &[Entry], new: &[Entry]) -> Result<()> {
        let failed =
            |cause: io::Error| Error::io("write the cache", &self.path, cause).hint("the next run is slower for it");
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(parent, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        // Leftovers of killed runs; nothing depends on them.
        let _ = writer::clear(dir.as_fd(), TEMPORARY);
        let replaces = find(&self.path)?.map(|(_, status)| Version::of(&status));
        let aside = TempFile::make(dir.as_fd(), TEMPORARY, replaces).map_err(|errno| failed(errno.into()))?;
        let file = File::from(aside.as_fd().try_clone_to_owned().map_err(failed)?);
        write(&file, old, new).map_err(failed)?;
        let name = self.path.file_name().unwrap_or_default();
        aside.put(name.as_bytes()).map(|_| ()).map_err(|errno| match errno {
            Errno::EXIST | Errno::STALE => failed(io::Error::other("another run has just written it")),
            errno => failed(errno.into()),
        })
    }
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
    let mut header = [0; HEADER];
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
        _ => CacheFault::Unreadable { cause: crate::util::text::cause(error) },
    }
}

fn read(file: File, size: u64) -> io::Result<Content> {
    let unusable = |fault| Ok(Content::Unusable(fault));
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut header = [0; HEADER];
    reader.read_exact(&mut header)?;
    if header[16..20] != VERSION.to_le_bytes() {
        return unusable(CacheFault::OtherVersion);
    }
    let count = header[24..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let expected = count.checked_mul(LENGTH as u64).and_then(|bytes| bytes.checked_add((HEADER + CHECKSUM) as u64));
    if expected != Some(size) {
        return unusable(CacheFault::Truncated);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header);
    // A sparse file may claim any size, so memory is allocated only as entries are read.
    let mut entries: Vec<Entry> = Vec::new();
    let mut bytes = [0; LENGTH];
    for _ in 0..count {
        reader.read_exact(&mut bytes)?;
        hasher.update(&bytes);
        let entry = Entry::from_bytes(&bytes);
        // Checked for each entry: of a forged file no more than its first entries are kept in memory.
        if entries.last().is_some_and(|last| last.key >= entry.key) {
            return unusable(CacheFault::Damaged);
        }
        entries.push(entry);
    }
    let mut checksum = [0; CHECKSUM];
    reader.read_exact(&mut checksum)?;
    if hasher.finalize() != checksum { unusable(CacheFault::Damaged) } else { Ok(Content::Entries(entries)) }
}

/// Writes a whole cache to an empty file and syncs it.
fn write(file: &File, old: &[Entry], new: &[Entry]) -> io::Result<()> {
    let count = merged(old, new).count() as u64;
    let mut hasher = blake3::Hasher::new();
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    let mut put = |bytes: &[u8]| {
        hasher.update(bytes);
        writer.write_all(bytes)
    };
    put(&MAGIC)?;
    put(&VERSION.to_le_bytes())?;
    put(&[0; 4])?;
    put(&count.to_le_bytes())?;
    for entry in merged(old, new) {
        put(&entry.to_bytes())?;
    }
    writer.write_all(hasher.finalize().as_bytes())?;
    writer.into_inner().map_err(|error| error.into_error())?.sync_all()
}

/// Both lists merged, sorted; if both have a key, the new entry.
fn merged<'a>(old: &'a [Entry], new: &'a [Entry]) -> impl Iterator<Item = Entry> + 'a {
    let mut new = new.iter().copied().peekable();
    let mut old = old.iter().copied().peekable();
    std::iter::from_fn(move || match (old.peek(), new.peek()) {
        (Some(a), Some(b)) if a.key < b.key => old.next(),
        (Some(a), Some(b)) => {
            if a.key == b.key {
                old.next();
            }
            new.next()
        }
        (Some(_), None) => old.next(),
        (None, _) => new.next(),
    })
}

#[cfg(test)]
mod mutations;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedupe::entry::Key;
    use crate::dedupe::facts::Facts;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn entry(number: u8, layout: u64, age: u8) -> Entry {
        Entry { key: Key([number; 16]), facts: Facts { layout, ..Facts::default() }, age }
    }

    fn replace(path: &Path, old: &[Entry], new: &[Entry]) -> Result<()> {
        CacheFile { path: path.to_path_buf(), inode: None }.replace(old, new)
    }

    fn content(path: &Path) -> Content {
        CacheFile::open(path.to_path_buf()).unwrap().1
    }

    #[test]
    fn a_cache_is_read_as_it_was_written_and_damage_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/cache");
        assert_eq!(content(&path), Content::Absent);
        replace(&path, &[entry(1, 1, 0), entry(2, 2, 5)], &[entry(1, 7, 0), entry(3, 3, 0)]).unwrap();
        let all = Content::Entries(vec![entry(1, 7, 0), entry(2, 2, 5), entry(3, 3, 0)]);
        assert_eq!(content(&path), all);
        let whole = fs::read(&path).unwrap();
        for (at, fault) in [
            (17, CacheFault::OtherVersion),
            (30, CacheFault::Truncated),
            (40, CacheFault::Damaged),
            (whole.len() - 1, CacheFault::Damaged),
        ] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            assert_eq!(content(&path), Content::Unusable(fault), "{at}");
        }
        for length in [MAGIC.len(), HEADER, HEADER + 5, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(content(&path), Content::Unusable(CacheFault::Truncated), "{length}");
        }
        let text = [&MAGIC[..], b" is how a cache begins, and this is a text about caches\n"].concat();
        fs::write(&path, &text).unwrap();
        assert!(CacheFile::open(path.clone()).is_err() && replace(&path, &[], &[]).is_err());
        assert_eq!(fs::read(&path).unwrap(), text);
        fs::write(&path, &whole).unwrap();
        replace(&path, &[], &[entry(1, 1, 0)]).unwrap();
        assert_eq!(content(&path), Content::Entries(vec![entry(1, 1, 0)]));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert_eq!(content(&path), Content::Unusable(CacheFault::WritableByOthers));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_sparse_file_with_a_forged_count_takes_no_memory() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("cache");
        let count = 1_u64 << 33;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(count.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        let size = count * LENGTH as u64 + (HEADER + CHECKSUM) as u64;
        File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
        assert_eq!(content(&path), Content::Unusable(CacheFault::Damaged));
    }

    #[test]
    fn nothing_but_a_cache_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        replace(&at("cache"), &[], &[entry(1, 1, 0)]).unwrap();
        fs::write(at("text"), "a text").unwrap();
        fs::write(at("empty"), "").unwrap();
        fs::create_dir(at("directory")).unwrap();
        symlink("cache", at("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for name in ["text", "empty", "directory", "link", "pipe", "cache/", ".."] {
            assert!(CacheFile::open(at(name)).is_err(), "{name}");
            assert!(replace(&at(name), &[], &[]).is_err(), "{name}");
        }
        assert_eq!(fs::read(at("text")).unwrap(), b"a text");
        assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("cache"));
        assert_eq!(content(&at("cache")), Content::Entries(vec![entry(1, 1, 0)]));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6);
    }
}
