//! The path of a directory as a chain of names. Closed directories share the names above them, so a tree of any depth
//! needs memory for its names, but not for its paths.

use std::sync::Arc;

/// The name of a directory, below that of its parent.
#[derive(Debug)]
pub(crate) struct PathNode {
    parent: Option<Arc<PathNode>>,
    name: Box<[u8]>,
}

impl PathNode {
    /// The directory at this path, where a walk begins.
    pub(crate) fn top(path: &[u8]) -> Arc<PathNode> {
        Arc::new(PathNode { parent: None, name: path.into() })
    }

    /// A directory in this one.
    pub(crate) fn child(self: &Arc<Self>, name: &[u8]) -> Arc<PathNode> {
        Arc::new(PathNode { parent: Some(Arc::clone(self)), name: name.into() })
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
