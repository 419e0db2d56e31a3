//! The paths to walk: the sources and the directories on the path to them from the root, or directories as they are
//! named.

use super::names::Names;
use super::stand_ins::StandIns;
use crate::error::{Error, Result};
use crate::util::path::join;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sources by their absolute, resolved paths. A source inside another source is part of it.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    paths: Vec<PathBuf>,
    root: Node,
    stand_ins: StandIns,
}

/// A directory where a walk begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Top {
    /// The path to open, as the user named it. Empty: the root.
    pub(super) named: PathBuf,
    /// Whether a link in its place is followed.
    pub(super) follow: bool,
    /// Its absolute path, without the leading slash.
    pub(super) path: Vec<u8>,
    /// The wanted part of it.
    pub(super) node: Node,
}

impl Top {
    /// A directory that is wanted completely. A link in its place is not followed, unless its name ends in a slash.
    pub(crate) fn whole(named: &Path) -> Top {
        Top { named: named.into(), follow: false, path: absolute(named), node: Node::whole() }
    }

    /// A directory with only these wanted entries, each wanted completely. The directory itself is only on the path to
    /// them. Links in its path are followed, as the user sees it.
    pub(crate) fn some(named: &Path, names: impl IntoIterator<Item = Vec<u8>>) -> Top {
        let children = names.into_iter().map(|name| (name, Arc::new(Node::whole()))).collect();
        Top { named: named.into(), follow: true, path: absolute(named), node: Node { whole: false, children } }
    }
}

/// The absolute path without its leading slash. It is for messages, so links are not resolved.
fn absolute(named: &Path) -> Vec<u8> {
    let absolute = std::path::absolute(named).unwrap_or_else(|_| named.into());
    components(&absolute).join(&b'/')
}

/// A name on the path to a source, or the last name of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Everything below it is wanted.
    pub(super) whole: bool,
    children: BTreeMap<Vec<u8>, Arc<Node>>,
}

impl Sources {
    /// Resolves the paths that the user named. Links in a named path are followed, as the user sees them. Links below
    /// it are not followed.
    ///
    /// # Errors
    /// A source does not exist. A mistyped or unmounted source must not result in a snapshot that looks complete.
    pub(crate) fn resolve(named: &[PathBuf]) -> Result<Sources> {
        let mut paths = Vec::new();
        for path in named {
            let resolved = path
                .canonicalize()
                .map_err(|cause| Error::io("find the source", path, cause).hint("nothing was done"))?;
            paths.push(resolved);
        }
        Ok(Self::exact(paths))
    }

    /// These absolute paths as they are: no link is followed, and those that do not exist are reported by the walk.
    pub(crate) fn exact(mut paths: Vec<PathBuf>) -> Sources {
        paths.sort();
        paths.dedup();
        let mut root = Node::default();
        for path in &paths {
            root.add(&components(path));
        }
        Sources { paths, root, stand_ins: StandIns::default() }
    }

    /// The resolved paths, sorted, without duplicates.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The sources that do not exist now. Empty if other directories are read in place of some.
    pub(crate) fn vanished(&self) -> impl Iterator<Item = &Path> {
        let is_gone = |path: &&Path| matches!(rustix::fs::lstat(*path), Err(Errno::NOENT | Errno::NOTDIR));
        self.paths.iter().map(PathBuf::as_path).filter(|_| self.stand_ins.is_empty()).filter(is_gone)
    }

    /// The same sources, but some directories are replaced.
    #[must_use]
    pub(crate) fn with(&self, stand_ins: StandIns) -> Sources {
        Sources { stand_ins, ..self.clone() }
    }

    /// Opens the directory that replaces the one at `path` (without its leading slash), if there is one.
    pub(crate) fn stand_in(&self, path: &[u8]) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.stand_ins.open(path, flags)?.ok()
    }

    pub(super) fn stand_ins(&self) -> &StandIns {
        &self.stand_ins
    }

    /// The root, with all the sources below it.
    pub(super) fn top(&self) -> Top {
        Top { node: self.root.clone(), ..Top::default() }
    }
}

fn components(path: &Path) -> Vec<Vec<u8>> {
    let names = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    names.filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}

impl Node {
    fn whole() -> Node {
        Node { whole: true, children: BTreeMap::new() }
    }

    fn add(&mut self, components: &[Vec<u8>]) {
        if self.whole {
            return;
        }
        match components.split_first() {
            None => *self = Node::whole(),
            Some((first, rest)) => Arc::make_mut(self.children.entry(first.clone()).or_default()).add(rest),
        }
    }

    pub(super) fn child(&self, name: &[u8]) -> Option<&Arc<Node>> {
        self.children.get(name)
    }

    /// The wanted names in the directory `fd`, and those that cannot be found there, each with the reason.
    pub(super) fn names(&self, fd: &OwnedFd) -> (Names, Vec<(&[u8], Errno)>) {
        Names::each(fd, self.children.keys().map(Vec::as_slice))
    }

    /// The paths of the sources in the part of this node with the path `path`.
    pub(super) fn sources(&self, path: &[u8]) -> Vec<Vec<u8>> {
        if self.whole {
            return vec![path.to_vec()];
        }
        self.children.iter().flat_map(|(name, child)| child.sources(&join(path, name))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_inside_another_is_part_of_it() {
        let mut root = Node::default();
        for path in ["/a/b/c", "/a/b", "/x"] {
            root.add(&components(Path::new(path)));
        }
        let b = root.child(b"a").and_then(|a| a.child(b"b")).unwrap();
        assert!(b.whole && b.children.is_empty());
        assert!(!root.whole && root.child(b"x").unwrap().whole);
    }
}
