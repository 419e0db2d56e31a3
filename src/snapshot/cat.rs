//! The content of one file of a snapshot, checked against its hash while it is read.

use super::manifest::{Body, FileBody};
use super::repository::Repository;
use super::source_path::normal;
use super::unreadable::stored;
use crate::content::hash::StreamHash;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::openat;
use crate::fs::pread;
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::tree::walk::absolute;
use crate::util::path::split;
use crate::util::text;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

/// How much is read at once.
const BUFFER: usize = 256 << 10;

/// Options of [`cat`].
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {}

/// The result.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The snapshot's name.
    pub snapshot: String,
    /// The size of the content.
    pub bytes: u64,
    /// Whether the content was checked. A manifest made without hashes has none to check.
    pub is_verified: bool,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Passes the content of the file at the absolute path `path` in the snapshot `id` to `sink`, piece by piece.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{cat, create};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// create::create(&[source.clone()], &repo, &create::Options::default(), &Silent)?;
///
/// let (letter, mut content) = (source.canonicalize()?.join("letter"), Vec::new());
/// let mut sink = |piece: &[u8]| {
///     content.extend_from_slice(piece);
///     Ok(())
/// };
/// cat::cat(&repo, "latest", &letter, &cat::Options::default(), &Silent, &mut sink)?;
/// assert_eq!(content, b"Dear Ann");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the snapshot does not have the path, it is not a regular file, it cannot be read, the run is cancelled, or `sink`
/// returns an error. Kind `Damage` if the device lost the content, or it differs from the manifest. `sink` may already
/// have the content then, but never more than the size in the manifest.
pub fn cat(
    repo: &Path,
    id: &str,
    path: &Path,
    _: &Options,
    monitor: &dyn Monitor,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<Stats> {
    let begun = Instant::now();
    let wanted = normal("print", path)?;
    let shown = absolute(&wanted);
    let repository = Repository::open(repo)?;
    let info = repository.resolve_for(id, std::slice::from_ref(&shown), monitor)?;
    let body = file(&repository, &info.name, &wanted)?;
    let failed = |errno| stored(&format!("read the file of the snapshot {}", info.name), &shown, errno);
    let damage = |what: &str| {
        Error::new(ErrorKind::Damage, format!("print the right content from the snapshot {}", info.name))
            .at(&shown)
            .hint(what)
    };
    let tree = repository.tree(&info.name)?;
    let file = openat::open_regular_at(tree.as_fd(), &wanted).map_err(|errno| match errno {
        // A link, a socket or a device without a driver.
        Errno::LOOP | Errno::NOTDIR | Errno::NXIO => damage("something else is in its place or on its path"),
        Errno::NOENT if repository.has_tree(&info.name, &tree) => damage("the snapshot lacks it"),
        errno => failed(errno),
    })?;
    if Status::of(&file).map_err(failed)?.file_type() != FileType::RegularFile {
        return Err(damage("something else is in its place"));
    }
    monitor.phase("printing", Some(Amount { files: 1, bytes: body.size }));
    let mut found = StreamHash::default();
    let mut buffer = vec![0; BUFFER];
    let mut bytes = 0;
    while bytes < body.size {
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        // Whoever writes to the file meanwhile does not prolong it.
        let wanted = (body.size - bytes).min(BUFFER as u64) as usize;
        let length = pread::read_full(&file, &mut buffer[..wanted], bytes).map_err(failed)?;
        if length == 0 {
            break;
        }
        let piece = &buffer[..length];
        if body.hash.is_some() {
            found.append(piece);
        }
        sink(piece)?;
        bytes += length as u64;
        monitor.advance(Amount { files: 0, bytes: length as u64 });
    }
    let printed = "the content was already printed: do not use it";
    if bytes != body.size || Status::of(&file).map_err(failed)?.size != body.size {
        return Err(damage("its size differs from that in the manifest").hint_also(printed));
    }
    if body.hash.is_some_and(|hash| hash != found.finish()) {
        return Err(damage("it does not match the hash in the manifest").hint_also(printed));
    }
    let is_verified = body.hash.is_some();
    Ok(Stats { snapshot: info.name, bytes, is_verified, seconds: begun.elapsed().as_secs_f64() })
}

/// The record of a regular file.
fn file(repository: &Repository, snapshot: &str, path: &[u8]) -> Result<FileBody> {
    let manifest = repository.manifest(snapshot)?;
    let shown = absolute(path);
    let refused = |why: String| Err(Error::failed("print").at(&shown).hint(why));
    let (directory, name) = split(path);
    match manifest.entry(directory, name)?.map(|entry| entry.body) {
        Some(Body::File(file)) => Ok(file),
        Some(Body::Symlink(target)) => {
            refused(format!("it is a symbolic link to {}", text::path(OsStr::from_bytes(&target).as_ref())))
        }
        Some(Body::Device(..)) => refused("it is a device".into()),
        Some(Body::Fifo) => refused("it is a named pipe".into()),
        Some(Body::Socket) => refused("it is a socket".into()),
        None if path.is_empty() || manifest.directory(path)?.is_some() => refused("it is a directory".into()),
        None => {
            let action = format!("find {} in the snapshot {snapshot}", text::path(&shown));
            Err(Error::failed(action).hint("give an absolute path, as in the sources"))
        }
    }
}
