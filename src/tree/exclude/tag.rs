//! Directories that contain a tag: a file that marks them as not worth keeping.

use crate::fs::openat;
use crate::fs::status::Status;
use rustix::fs::FileType;
use std::os::fd::{AsFd, OwnedFd};

/// The tag of a cache directory, from the Cache Directory Tagging Specification (bford.info/cachedir).
pub(crate) const CACHE: &[u8] = b"CACHEDIR.TAG";
/// The required beginning of that file. A file without it is not a tag.
const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// The tags to look for.
#[derive(Debug)]
pub(super) struct Tags {
    pub(super) caches: bool,
    pub(super) names: Vec<Vec<u8>>,
}

/// The tag of a directory.
pub(super) enum Tag<'a> {
    /// A file or link with this name. It is kept, so that a restored directory has the tag too.
    Kept(&'a [u8]),
    /// A directory, which is excluded with everything else.
    Gone,
}

impl Tags {
    /// The tag of an open directory, if it has one. The directory is not listed for this.
    pub(super) fn of(&self, directory: &OwnedFd) -> Option<Tag<'_>> {
        if self.caches && is_cache(directory) {
            return Some(Tag::Kept(CACHE));
        }
        self.names.iter().find_map(|name| match Status::at(directory, name) {
            Ok(status) if status.file_type() == FileType::Directory => Some(Tag::Gone),
            Ok(_) => Some(Tag::Kept(name)),
            Err(_) => None,
        })
    }
}

/// Whether a directory has the tag of a cache. A tag that cannot be read does not count: it is better to keep too much
/// than too little.
fn is_cache(directory: &OwnedFd) -> bool {
    let is_long_enough =
        |status: Status| status.file_type() == FileType::RegularFile && status.size >= SIGNATURE.len() as u64;
    if !Status::at(directory, CACHE).is_ok_and(is_long_enough) {
        return false;
    }
    let Ok(file) = openat::open_file(directory.as_fd(), CACHE) else { return false };
    // Checked again, because the file may have been replaced.
    let mut begin = [0; SIGNATURE.len()];
    Status::of(&file).is_ok_and(is_long_enough)
        && matches!(rustix::io::pread(&file, &mut begin, 0), Ok(read) if begin[..read] == *SIGNATURE)
}
