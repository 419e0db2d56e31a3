//! The wanted parts of a snapshot, in its order.

use super::damage::{Unread, damaged, unread};
use super::job::Job;
use super::prepare_target::Room;
use crate::error::{Error, Result};
use crate::snapshot::offsite::store::Store;
use crate::snapshot::offsite::stored::Stored;
use crate::snapshot::offsite::verified;
use crate::util::text;
use rustic_core::repofile::{Metadata, Node, NodeType};
use rustic_core::{ErrorKind, RusticError, RusticResult};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::vec::IntoIter;

/// The parts to restore.
pub(super) struct Selection {
    /// The path of each part, without the slash at its beginning, and its node.
    parts: Vec<(PathBuf, Node)>,
    /// The directories on the way to them, and whether they were there before.
    ways: Vec<(PathBuf, Node, bool)>,
}

/// Which directories on the way to a part are wanted.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Parts {
    /// All.
    All,
    /// Those that the restore makes.
    Own,
}

/// Whether an entry is wanted. An unwanted directory is skipped with everything in it.
type Admit<'w> = &'w dyn Fn(&Path, &Node) -> bool;

impl Selection {
    pub(super) fn of(job: &Job<'_>, stored: &Stored) -> Result<Selection> {
        let target = &job.options.target;
        let mut paths: Vec<PathBuf> = job.options.paths.iter().map(|path| relative(path)).collect::<Result<_>>()?;
        if paths.is_empty() || paths.iter().any(|path| path.as_os_str().is_empty()) {
            paths = vec![PathBuf::new()];
        }
        paths.sort();
        // What lies in another part comes with it.
        paths.dedup_by(|path, before| path.starts_with(before));
        let mut selection = Selection { parts: Vec::new(), ways: Vec::new() };
        for path in paths {
            let mut node = Node::new_node(OsStr::new(""), NodeType::Dir, Metadata::default());
            node.subtree = Some(stored.file.tree);
            let mut way = PathBuf::new();
            for component in path.components() {
                if !way.as_os_str().is_empty() && selection.ways.iter().all(|(known, ..)| *known != way) {
                    let was_there = target.join(&way).is_dir();
                    selection.ways.push((way.clone(), node.clone(), was_there));
                }
                let tree = node.subtree.ok_or_else(|| absent(&path, job.store))?;
                let tree = verified::tree(job.repository, &tree).map_err(|error| match unread(job.store, &error) {
                    Unread::Damaged(cause) => damaged(&Path::new("/").join(&way), &cause),
                    Unread::Over(error) => error,
                })?;
                let mut nodes = tree.into_iter().filter(|node| *node.name() == *component.as_os_str());
                node = nodes.next().ok_or_else(|| absent(&path, job.store))?;
                way.push(component);
                if nodes.next().is_some() {
                    return Err(damaged(&Path::new("/").join(&way), "two entries have the same name"));
                }
            }
            selection.parts.push((path, node));
        }
        Ok(selection)
    }

    /// The nodes that `admit` wants.
    pub(super) fn nodes<'w>(&self, job: &'w Job<'w>, room: &'w Room<'w>, parts: Parts, admit: Admit<'w>) -> Nodes<'w> {
        let mut tops = Vec::new();
        let mut ways = self.ways.iter().filter(|(_, _, was_there)| parts == Parts::All || !was_there).peekable();
        for (path, node) in &self.parts {
            while let Some((way, node, _)) = ways.next_if(|(way, ..)| path.starts_with(way)) {
                tops.push(Top { path: way.clone(), node: node.clone(), is_way: true });
            }
            tops.push(Top { path: path.clone(), node: node.clone(), is_way: false });
        }
        Nodes { job, room, admit, tops: tops.into_iter(), open: Vec::new() }
    }
}

/// A part, or a directory on the way to one.
struct Top {
    path: PathBuf,
    node: Node,
    is_way: bool,
}

/// Nodes with their paths, in the order of a tree. A directory that cannot be read is reported once, and then empty.
pub(super) struct Nodes<'w> {
    job: &'w Job<'w>,
    room: &'w Room<'w>,
    admit: Admit<'w>,
    tops: IntoIter<Top>,
    /// The directories on the way to the last node, and the rest of their nodes.
    open: Vec<(PathBuf, IntoIter<Node>)>,
}

impl Nodes<'_> {
    /// Goes into a directory.
    fn enter(&mut self, path: &Path, node: &Node) {
        let Some(tree) = node.subtree.filter(|_| self.room.is_readable(path)) else { return };
        match verified::tree(self.job.repository, &tree) {
            Ok(tree) => self.open.push((path.to_path_buf(), self.sound(path, tree.nodes).into_iter())),
            Err(error) => match unread(self.job.store, &error) {
                Unread::Damaged(cause) => self.room.is_unreadable(path, damaged(&self.room.target(path), &cause)),
                Unread::Over(error) => self.room.fail(error),
            },
        }
    }

    /// The nodes of a directory without those that no directory can have. If two have the same name, and the first
    /// is a link, the other would be written through it.
    fn sound(&self, path: &Path, mut nodes: Vec<Node>) -> Vec<Node> {
        let mut names = HashSet::with_capacity(nodes.len());
        nodes.retain(|node| {
            let name = node.name().into_owned();
            if !is_name(&name) {
                self.room.refuse(path.to_path_buf(), name, "an entry has an impossible name");
                return false;
            }
            let is_first = names.insert(name.clone());
            if !is_first {
                self.room.refuse(path.join(&name), name, "two entries have the same name");
            }
            is_first
        });
        nodes
    }
}

impl Iterator for Nodes<'_> {
    type Item = RusticResult<(PathBuf, Node)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.room.has_failed() || self.job.store.counts.is_cancelled() {
                return Some(Err(RusticError::new(ErrorKind::Other, "the run has ended")));
            }
            let (path, node, is_way) = match self.open.last_mut() {
                Some((above, nodes)) => match nodes.next() {
                    None => {
                        self.open.pop();
                        continue;
                    }
                    Some(node) => (above.join(node.name()), node, false),
                },
                None => self.tops.next().map(|top| (top.path, top.node, top.is_way))?,
            };
            if path.as_os_str().is_empty() {
                self.enter(&path, &node);
                continue;
            }
            if !(self.admit)(&path, &node) {
                continue;
            }
            if node.is_dir() && !is_way {
                self.enter(&path, &node);
            }
            return Some(Ok((path, node)));
        }
    }
}

/// Whether a name leads nowhere else.
fn is_name(name: &OsStr) -> bool {
    let mut components = Path::new(name).components();
    matches!(components.next(), Some(Component::Normal(first)) if first == name)
}

/// A path without the slash at its beginning.
fn relative(path: &Path) -> Result<PathBuf> {
    let mut relative = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => relative.push(name),
            Component::RootDir | Component::CurDir => {}
            _ => return Err(Error::usage(format!("restore {}", text::path(path))).hint("it goes through '..'")),
        }
    }
    Ok(relative)
}

fn absent(path: &Path, store: &Store) -> Error {
    let error = Error::failed("find in the snapshot").at(Path::new("/").join(path));
    error.because(io::Error::other(format!("{} has no such path", store.url))).with_code("not-found")
}
