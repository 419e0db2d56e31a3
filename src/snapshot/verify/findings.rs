//! The damage that a verification with repair found and may repair afterwards. Bounded: the rest is found again by the
//! next run.

use crate::monitor::Fault;
use crate::util::mutex::lock;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Mutex;

/// How many bytes of names and paths are held, with [`EACH`] for each entry.
const MOST: usize = 128 << 20;
/// About the memory of an entry besides its names.
const EACH: usize = 64;

/// A damaged entry of a snapshot.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) snapshot: String,
    /// The path as in the manifest, without the leading slash.
    pub(super) path: Vec<u8>,
    /// The modification time is the only damage.
    pub(super) is_mtime: bool,
}

/// The list. Shared by threads.
#[derive(Debug, Default)]
pub(super) struct Findings(Mutex<(Vec<Finding>, usize)>);

impl Findings {
    /// Adds the damage of an entry, if a repair may concern it: of the content of a file, or of the modification time
    /// of a directory, which changes when a file in it is deleted.
    pub(super) fn add(&self, snapshot: &str, path: &Path, why: Fault) {
        let is_mtime = why == Fault::Mtime;
        if !is_mtime && !matches!(why, Fault::Content | Fault::Unreadable | Fault::Size | Fault::Missing) {
            return;
        }
        let path = path.as_os_str().as_bytes();
        let path = path.strip_prefix(b"/").unwrap_or(path).to_vec();
        let (list, bytes) = &mut *lock(&self.0);
        let more = snapshot.len() + path.len() + EACH;
        if *bytes + more <= MOST {
            *bytes += more;
            list.push(Finding { snapshot: snapshot.into(), path, is_mtime });
        }
    }

    /// Takes the damage out.
    pub(super) fn take(&self) -> Vec<Finding> {
        std::mem::take(&mut *lock(&self.0)).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_repaired_is_held_and_memory_is_bounded() {
        let findings = Findings::default();
        findings.add("one", Path::new("/a"), Fault::Mode);
        findings.add("one", Path::new("/a/b"), Fault::Mtime);
        let long = "x".repeat(MOST / 3);
        (0..5).for_each(|_| findings.add("one", Path::new(&long), Fault::Content));
        let list = findings.take();
        assert_eq!(list.iter().map(|found| found.is_mtime).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(list[0].path, b"a/b");
    }
}
