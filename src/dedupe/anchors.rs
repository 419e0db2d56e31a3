//! Directories that stay open on the way to deep files. Without them, opening a file takes as many lookups as it has
//! directories above it, and opening every file in a chain of directories takes the square of the chain's length.

use super::catalogue::{Catalogue, FileId};
use crate::fs::openat;
use crate::util::mutex::lock;
use rustix::fs::{Mode, OFlags};
use rustix::io::Result;
use rustix::process::{Resource, getrlimit};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// A path with more directories than this is shortened by an open directory.
const LONG: usize = 64;
/// The number of directories that stay open, at most. More are useful only in trees deeper than [`LONG`] times this.
const MOST: u64 = 128;
/// The part of the descriptors that they may take: the files of a group are open at the same time.
const PART: u64 = 16;

/// Open directories, by their number in the catalogue.
#[derive(Debug)]
pub(super) struct Anchors {
    root: Arc<OwnedFd>,
    open: Mutex<Open>,
    most: usize,
}

#[derive(Debug, Default)]
struct Open {
    by_number: HashMap<u32, Arc<OwnedFd>>,
    oldest_first: VecDeque<u32>,
}

impl Anchors {
    /// Only the root is open.
    pub(super) fn new() -> Result<Anchors> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = Arc::new(rustix::fs::open(c"/", flags, Mode::empty())?);
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Ok(Anchors { root, open: Mutex::default(), most: (limit / PART).clamp(1, MOST) as usize })
    }

    /// Opens something in the directory of a file. `open` gets an open directory and the path from there to the file's
    /// directory, which ends with a slash unless it is empty.
    pub(super) fn open<T>(
        &self,
        catalogue: &Catalogue,
        file: FileId,
        open: impl FnOnce(BorrowedFd<'_>, Vec<u8>) -> Result<T>,
    ) -> Result<T> {
        let directory = catalogue.directory(file);
        let (anchor, path, names) = self.nearest(catalogue, directory);
        if names <= LONG {
            return open(anchor.as_fd(), path);
        }
        let way = path.strip_suffix(b"/").unwrap_or(&path);
        let anchor = Arc::new(openat::open_way(anchor.as_fd(), way)?);
        self.keep(directory, anchor.clone());
        open(anchor.as_fd(), Vec::new())
    }

    /// The nearest open directory (the directory itself or one above it), the path from there, and the number of names
    /// in that path.
    fn nearest(&self, catalogue: &Catalogue, directory: u32) -> (Arc<OwnedFd>, Vec<u8>, usize) {
        let open = lock(&self.open);
        let (anchor, path, names) = catalogue.path_from(directory, |number| open.by_number.get(&number).cloned());
        (anchor.unwrap_or_else(|| self.root.clone()), path, names)
    }

    fn keep(&self, directory: u32, fd: Arc<OwnedFd>) {
        let open = &mut *lock(&self.open);
        if open.by_number.insert(directory, fd).is_none() {
            open.oldest_first.push_back(directory);
        }
        if open.oldest_first.len() > self.most
            && let Some(oldest) = open.oldest_first.pop_front()
        {
            open.by_number.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedupe::catalogue::NO_PARENT;
    use crate::fs::status::Status;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn no_file_of_a_deep_chain_is_opened_by_a_long_path() {
        const DEPTH: usize = 9 * LONG;
        let top = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut catalogue = Catalogue::default();
        let mut number = catalogue.add_directory(NO_PARENT, &top.path().as_os_str().as_bytes()[1..]).unwrap();
        let mut dir = OwnedFd::from(std::fs::File::open(top.path()).unwrap());
        let mut files = Vec::new();
        for _ in 0..DEPTH {
            let create = OFlags::CREATE | OFlags::RDONLY;
            let file = rustix::fs::openat(&dir, c"file", create, Mode::RUSR).unwrap();
            let status = Status::of(&file).unwrap();
            files.push((catalogue.add_file(number, b"file", 0, &status).unwrap(), status.ino));
            rustix::fs::mkdirat(&dir, c"d", Mode::RWXU).unwrap();
            dir = openat::open_subdir(&dir, c"d").unwrap();
            number = catalogue.add_directory(number, b"d").unwrap();
        }
        let anchors = Anchors::new().unwrap();
        // From both ends in turn, an order that no walk would use.
        for at in (0..DEPTH).map(|at| if at % 2 == 0 { at / 2 } else { DEPTH - 1 - at / 2 }) {
            let (file, ino) = files[at];
            let opened = anchors.open(&catalogue, file, |anchor, mut path| {
                assert!(path.iter().filter(|byte| **byte == b'/').count() <= LONG + 10);
                path.extend_from_slice(b"file");
                openat::open_file_at(anchor, &path)
            });
            assert_eq!(Status::of(opened.unwrap()).unwrap().ino, ino);
        }
        let open = lock(&anchors.open);
        assert!((1..=anchors.most).contains(&open.by_number.len()), "{}", open.by_number.len());
        assert_eq!(open.by_number.len(), open.oldest_first.len());
    }
}
