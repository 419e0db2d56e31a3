//! What is walked: the sources, and the directories on the way to them from the root; or directories as they are named.

use super::names::Names;
use super::stand_ins::StandIns;
use crate::error::{Error, Result};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sources by their absolute, resolved paths; one inside another is part of it.
#[derive(Clone, Debug)]
pub struct Sources {
    paths: Vec<PathBuf>,
    root: Node,
    stand_ins: StandIns,
}

/// A directory that a walk begins with.
#[derive(Clone, Debug, Default)]
pub struct Top {
    /// How it is opened, as its user names it. Empty: the root.
    pub(super) named: PathBuf,
    /// Whether a link in its place is followed.
    pub(super) follow: bool,
    /// Its absolute path, without the leading slash.
    pub(super) path: Vec<u8>,
    /// What of it is wanted.
    pub(super) node: Node,
}

impl Top {
    /// A directory that is wanted as a whole. A link in its place is not followed, unless its name ends in a slash.
    pub fn whole(named: &Path) -> Top {
        Top { named: named.into(), follow: false, path: absolute(named), node: Node::whole() }
    }

    /// A directory of which only these entries are wanted, each as a whole: it itself is on the way to them. It is
    /// opened as the user sees it, through links.
    pub fn some(named: &Path, names: impl IntoIterator<Item = Vec<u8>>) -> Top {
        let children = names.into_iter().map(|name| (name, Arc::new(Node::whole()))).collect();
        Top { named: named.into(), follow: true, path: absolute(named), node: Node { whole: false, children } }
    }
}

/// The absolute path without its leading slash: for messages, so nothing is resolved.
fn absolute(named: &Path) -> Vec<u8> {
    let absolute = std::path::absolute(named).unwrap_or_else(|_| named.into());
    components(&absolute).join(&b'/')
}

/// A component on the way to a source, or a source.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// All below it is wanted.
    pub(super) whole: bool,
    children: BTreeMap<Vec<u8>, Arc<Node>>,
}

impl Sources {
    /// Resolves what the user named. Links in a named path are followed, as the user sees them; none below it is.
    ///
    /// # Errors
    /// A source that is not there: a mistyped or unmounted one must not make a snapshot that looks complete.
    pub fn resolve(named: &[PathBuf]) -> Result<Sources> {
        let mut paths = Vec::new();
        for path in named {
            let resolved = path
                .canonicalize()
                .map_err(|cause| Error::io("find the source", path, cause).hint("nothing was done"))?;
            paths.push(resolved);
        }
        paths.sort();
        paths.dedup();
        let mut root = Node::default();
        for path in &paths {
            root.add(&components(path));
        }
        Ok(Sources { paths, root, stand_ins: StandIns::default() })
    }

    /// The resolved paths, sorted, without duplicates.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Those that are not there any more; none where others are read in their place.
    pub fn vanished(&self) -> impl Iterator<Item = &Path> {
        let is_gone = |path: &&Path| matches!(rustix::fs::lstat(*path), Err(Errno::NOENT | Errno::NOTDIR));
        self.paths.iter().map(PathBuf::as_path).filter(|_| self.stand_ins.is_empty()).filter(is_gone)
    }

    /// The same sources, some of their directories read elsewhere.
    #[must_use]
    pub fn with(&self, stand_ins: StandIns) -> Sources {
        Sources { stand_ins, ..self.clone() }
    }

    /// The directory that is read in the place of the one at `path` (without its leading slash), opened, if there is
    /// one.
    pub fn stand_in(&self, path: &[u8]) -> Option<OwnedFd> {
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

    /// The wanted names in the directory `fd`.
    pub(super) fn names(&self, fd: &OwnedFd) -> (Names, Option<io::Error>) {
        Names::of(fd, self.children.keys().map(Vec::as_slice))
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
