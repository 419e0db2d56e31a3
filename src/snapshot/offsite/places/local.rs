//! A store in a directory. A file gets its name when all of it is on the disk, and the name is on the disk too before
//! the library hears of it.

use super::error::too_long;
use super::layout::{Found, length, longest, path};
use crate::fs::openat::open_regular;
use crate::fs::pread::read_exact;
use crate::fs::shutdown::sync_directory;
use crate::fs::status::Status;
use bytes::Bytes;
use rustic_core::{ALL_FILE_TYPES, FileType, Id, ReadBackend, RusticError, RusticResult, WriteBackend};
use rustix::fs::CWD;
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The end of the name of a file that is being written, as rustic has it. A kill leaves it behind.
pub(super) const TEMPORARY: &str = "-tmp-";

/// The store.
#[derive(Debug)]
pub struct Local {
    root: PathBuf,
}

fn failed(action: &str, path: &Path, cause: impl Into<io::Error>) -> Box<RusticError> {
    super::error::failed(&format!("{action} {}", path.display()), cause.into())
}

impl Local {
    /// The store in this directory.
    pub fn new(root: &Path) -> Local {
        Local { root: root.into() }
    }

    fn path(&self, tpe: FileType, id: &Id) -> PathBuf {
        self.root.join(path(tpe, id))
    }

    /// Reads a file, or the part of it from an offset.
    fn read(&self, tpe: FileType, id: &Id, part: Option<(u32, u32)>) -> RusticResult<Bytes> {
        let path = self.path(tpe, id);
        let read = || {
            let fd = open_regular(CWD, path.as_os_str().as_bytes()).map_err(|errno| match errno {
                Errno::LOOP => io::Error::other("it is not a regular file"),
                errno => errno.into(),
            })?;
            let size = Status::of(&fd)?.size;
            let (at, length) = part.map_or((0, size), |(at, length)| (at.into(), length.into()));
            if part.is_none() && length > longest(tpe) {
                return Err(too_long(longest(tpe)));
            }
            if at + length > size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut content = vec![0; length as usize];
            read_exact(&fd, &mut content, at)?;
            Ok(content.into())
        };
        read().map_err(|cause: io::Error| failed("read", &path, cause))
    }

    fn write(&self, to: &Path, content: &[u8]) -> io::Result<()> {
        let above = to.parent().unwrap_or(&self.root);
        let mut unfinished = to.as_os_str().to_os_string();
        unfinished.push(TEMPORARY);
        let written = make_dirs(above, &self.root).and_then(|()| {
            let mut file = File::create(&unfinished)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&unfinished, to)?;
            Ok(sync_directory(File::open(above)?)?)
        });
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    fn list(&self, tpe: FileType) -> io::Result<Vec<(Id, u32)>> {
        if tpe == FileType::Config {
            return match self.root.join(path(tpe, &Id::default())).metadata() {
                Ok(found) => Ok(vec![(Id::default(), length(found.len())?)]),
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
                Err(cause) => Err(cause),
            };
        }
        let mut found = Found::default();
        let above = self.root.join(tpe.dirname());
        each_entry(&above, |entry| match tpe {
            FileType::Pack if entry.file_type()?.is_dir() => each_entry(&entry.path(), |file| add(&mut found, file)),
            _ => add(&mut found, entry),
        })?;
        Ok(found.all())
    }
}

/// Makes a directory and those above it, down from the root. Their names are on the disk afterwards.
fn make_dirs(dir: &Path, root: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let above = dir.parent().filter(|_| dir != root);
    if let Some(above) = above {
        make_dirs(above, root)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    match above {
        Some(above) => Ok(sync_directory(File::open(above)?)?),
        None => Ok(()),
    }
}

/// Looks at the entries of a directory, if it exists. Entries that vanish meanwhile do not count.
fn each_entry(dir: &Path, mut look: impl FnMut(&fs::DirEntry) -> io::Result<()>) -> io::Result<()> {
    let is_gone = |cause: &io::Error| cause.kind() == io::ErrorKind::NotFound;
    let entries = match fs::read_dir(dir) {
        Err(cause) if is_gone(&cause) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        match look(&entry?) {
            Err(cause) if !is_gone(&cause) => return Err(cause),
            _ => {}
        }
    }
    Ok(())
}

fn add(found: &mut Found, entry: &fs::DirEntry) -> io::Result<()> {
    match entry.file_name().to_str() {
        Some(name) if entry.file_type()?.is_file() => found.add(name, Some(entry.metadata()?.len())),
        _ => Ok(()),
    }
}

impl ReadBackend for Local {
    fn location(&self) -> String {
        format!("local:{}", self.root.display())
    }

    fn list_with_size(&self, tpe: FileType) -> RusticResult<Vec<(Id, u32)>> {
        self.list(tpe).map_err(|cause| failed("list", &self.root.join(tpe.dirname()), cause))
    }

    fn read_full(&self, tpe: FileType, id: &Id) -> RusticResult<Bytes> {
        self.read(tpe, id, None)
    }

    fn read_partial(&self, tpe: FileType, id: &Id, _: bool, offset: u32, length: u32) -> RusticResult<Bytes> {
        self.read(tpe, id, Some((offset, length)))
    }

    fn warmup_path(&self, tpe: FileType, id: &Id) -> String {
        self.path(tpe, id).display().to_string()
    }
}

impl WriteBackend for Local {
    fn create(&self) -> RusticResult<()> {
        let packs = self.root.join(FileType::Pack.dirname());
        let dirs = ALL_FILE_TYPES.map(|tpe| self.root.join(tpe.dirname()));
        let parts = (0..=u8::MAX).map(|first| packs.join(format!("{first:02x}")));
        for dir in [self.root.clone()].into_iter().chain(dirs).chain(parts) {
            make_dirs(&dir, &self.root).map_err(|cause| failed("make", &dir, cause))?;
        }
        Ok(())
    }

    fn write_bytes(&self, tpe: FileType, id: &Id, _: bool, content: Bytes) -> RusticResult<()> {
        let to = self.path(tpe, id);
        self.write(&to, &content).map_err(|cause| failed("write", &to, cause))
    }

    fn remove(&self, tpe: FileType, id: &Id, _: bool) -> RusticResult<()> {
        let path = self.path(tpe, id);
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path, cause)),
            _ => Ok(()),
        }
    }
}
