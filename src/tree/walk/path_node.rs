//! The path of a directory as a chain of names. Closed directories share the names above them, so a tree of any depth
//! needs memory for its names, but not for its paths.

use crate::fs::status::{Status, Time};
use std::sync::Arc;

/// The name of a directory, below that of its parent.
#[derive(Debug)]
pub(crate) struct PathNode {
    parent: Option<Arc<PathNode>>,
    name: Box<[u8]>,
    identity: Option<Identity>,
}

/// The numbers of a directory, and its birth: a new inode may have the number of a deleted one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    inode: (u64, u64),
    btime: Option<Time>,
}

impl Identity {
    pub(crate) fn of(status: &Status) -> Identity {
        Identity { inode: (status.dev, status.ino), btime: status.btime }
    }

    /// Whether this is the identity of an inode with this status.
    pub(crate) fn is(&self, status: &Status) -> bool {
        let is_same_birth = self.btime.is_none() || status.btime.is_none() || self.btime == status.btime;
        self.inode == (status.dev, status.ino) && is_same_birth
    }
}

impl PathNode {
    /// The directory at this path, where a walk begins.
    pub(crate) fn top(path: &[u8]) -> Arc<PathNode> {
        Self::new(None, path, None)
    }

    /// A directory in this one.
    pub(crate) fn child(self: &Arc<Self>, name: &[u8]) -> Arc<PathNode> {
        Self::new(Some(self), name, None)
    }

    /// The open directory with this name or path, in `parent` or at the top.
    pub(super) fn new(parent: Option<&Arc<PathNode>>, name: &[u8], identity: Option<Identity>) -> Arc<PathNode> {
        Arc::new(PathNode { parent: parent.cloned(), name: name.into(), identity })
    }

    pub(super) fn parent(&self) -> Option<&Arc<PathNode>> {
        self.parent.as_ref()
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Which directory it was when it was opened. `None`: it was never open.
    pub(super) fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// The whole path, with slashes between the names.
    pub(crate) fn path(&self) -> Vec<u8> {
        let chain = || std::iter::successors(Some(self), |node| node.parent.as_deref());
        let names: Vec<&[u8]> = chain().map(|node| &*node.name).filter(|name| !name.is_empty()).collect();
        let mut path = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        for name in names.iter().rev() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        path
    }
}

/// Drops the nodes one after the other, without recursion: a chain is as long as the tree is deep.
impl Drop for PathNode {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(node) = next.and_then(Arc::into_inner) {
            let mut node = node;
            next = node.parent.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_any_length_is_a_path_and_is_dropped() {
        let mut node = PathNode::top(b"");
        for _ in 0..200_000 {
            node = node.child(b"d");
        }
        assert_eq!(node.path().len(), 2 * 200_000 - 1);
        assert_eq!(PathNode::top(b"a/b").child(b"c").path(), b"a/b/c");
    }
}
