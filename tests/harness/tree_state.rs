//! The state of a whole tree as a value: what a plain copy of it would have.

use rustix::fs::{lgetxattr, llistxattr};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The state of each entry of a tree, by its path below the top. The top has the empty path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeState(BTreeMap<PathBuf, State>);

/// The state of an entry, except its inode, its ctime and its access time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    content: Content,
    mode: u32,
    owner: (u32, u32),
    /// `None` for the place of a subvolume in the snapshot of another one: it has the time of its first look-up.
    modified: Option<(i64, i64)>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first path of the same inode.
    same_as: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Directory,
    File { length: u64, hash: blake3::Hash },
    Link(PathBuf),
    Fifo,
}

impl TreeState {
    /// Reads a tree.
    #[track_caller]
    pub(crate) fn of(top: &Path) -> TreeState {
        let mut states = BTreeMap::new();
        let mut paths = super::tools::paths(top);
        paths.sort();
        let mut inodes = HashMap::new();
        for path in paths {
            let below = path.strip_prefix(top).expect("it is below").to_path_buf();
            states.insert(below.clone(), state(&path, &below, &mut inodes));
        }
        TreeState(states)
    }

    /// The first entries that differ, in words; empty if none do.
    pub(crate) fn differences(&self, now: &TreeState) -> String {
        let mut lines = Vec::new();
        for path in self.0.keys().chain(now.0.keys().filter(|path| !self.0.contains_key(*path))) {
            match (self.0.get(path), now.0.get(path)) {
                (Some(wanted), Some(is)) if !wanted.equals(is) => {
                    lines.push(format!("{}: {is:?}, not {wanted:?}", path.display()));
                }
                (Some(_), None) => lines.push(format!("{}: missing", path.display())),
                (None, Some(_)) => lines.push(format!("{}: too many", path.display())),
                _ => {}
            }
        }
        let more = lines.len().saturating_sub(5);
        lines.truncate(5);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        lines.join("\n")
    }
}

impl State {
    fn equals(&self, other: &State) -> bool {
        let modified = self.modified.and(other.modified);
        let with_time = |state: &State| State { modified: modified.and(state.modified), ..state.clone() };
        with_time(self) == with_time(other)
    }
}

fn state(path: &Path, below: &Path, inodes: &mut HashMap<(u64, u64), PathBuf>) -> State {
    let meta = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let kind = meta.file_type();
    let content = if kind.is_dir() {
        Content::Directory
    } else if kind.is_symlink() {
        Content::Link(fs::read_link(path).expect("a link can be read"))
    } else if kind.is_fifo() {
        Content::Fifo
    } else {
        Content::File { length: meta.len(), hash: blake3::hash(&fs::read(path).expect("a file can be read")) }
    };
    let first = inodes.entry((meta.dev(), meta.ino())).or_insert_with(|| below.to_path_buf());
    let is_place_of_subvolume = kind.is_dir() && meta.ino() == 2;
    State {
        content,
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        modified: (!is_place_of_subvolume).then(|| (meta.mtime(), meta.mtime_nsec())),
        attributes: attributes(path),
        same_as: (!kind.is_dir() && first != below).then(|| first.clone()),
    }
}

/// The extended attributes that a user sets.
fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 4096];
    let length = llistxattr(path, &mut names[..]).expect("attributes can be listed");
    let names = names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
    let value = |name: &[u8]| {
        let mut value = vec![0; 4096];
        let length = lgetxattr(path, std::ffi::OsStr::from_bytes(name), &mut value[..]).expect("it can be read");
        value.truncate(length);
        value
    };
    names.map(|name| (name.to_vec(), value(name))).collect()
}
