//! The order of a backup: depth first, the entries of a directory by name, files among directories. A manifest has the
//! files of a directory before its subdirectories.

use crate::snapshot::manifest::{Directory, Entry, Item};
use std::collections::VecDeque;

/// A step of the walk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A directory begins. It lies in the last one that did not end.
    Directory(Directory),
    /// An entry of the last directory that did not end.
    Entry(Entry),
    /// The last directory ends.
    End,
}

/// Puts items into order. It keeps the entries of the directories on the way to the current one.
#[derive(Default)]
pub(super) struct Order {
    open: Vec<Open>,
}

struct Open {
    path: Vec<u8>,
    waiting: VecDeque<Entry>,
}

impl Order {
    /// Adds the next item of a manifest, and passes on the steps before it.
    pub(super) fn push(&mut self, item: Item, step: &mut impl FnMut(Step)) {
        match item {
            Item::Entry(entry) => match self.open.last_mut() {
                Some(open) => open.waiting.push_back(entry),
                // No manifest has it.
                None => step(Step::Entry(entry)),
            },
            Item::Directory(directory) => {
                while self.open.last().is_some_and(|open| name_below(&open.path, &directory.path).is_none()) {
                    self.close(step);
                }
                if let Some(open) = self.open.last_mut() {
                    let name = name_below(&open.path, &directory.path).unwrap_or_default();
                    while open.waiting.front().is_some_and(|entry| entry.name.as_slice() < name) {
                        open.waiting.pop_front().into_iter().for_each(|entry| step(Step::Entry(entry)));
                    }
                }
                self.open.push(Open { path: directory.path.clone(), waiting: VecDeque::new() });
                step(Step::Directory(directory));
            }
        }
    }

    /// Passes on the rest.
    pub(super) fn finish(mut self, step: &mut impl FnMut(Step)) {
        while !self.open.is_empty() {
            self.close(step);
        }
    }

    fn close(&mut self, step: &mut impl FnMut(Step)) {
        if let Some(open) = self.open.pop() {
            open.waiting.into_iter().for_each(|entry| step(Step::Entry(entry)));
            step(Step::End);
        }
    }
}

/// The name in the directory `above` that leads to `path`, or is it.
fn name_below<'p>(above: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = match above {
        [] => path,
        _ => path.strip_prefix(above)?.strip_prefix(b"/")?,
    };
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::manifest::{Body, Meta};

    fn directory(path: &str) -> Item {
        Item::Directory(Directory { path: path.into(), scaffold: false, meta: Meta::default() })
    }

    fn entry(name: &str) -> Item {
        Item::Entry(Entry { name: name.into(), meta: Meta::default(), body: Body::Fifo })
    }

    #[test]
    fn files_come_between_directories_by_name() {
        let items = [
            directory(""),
            directory("home"),
            entry("a"),
            entry("b.txt"),
            entry("z"),
            directory("home/b"),
            entry("in b"),
            directory("home/b/c"),
            directory("home/b-d"),
            entry("in b-d"),
            directory("srv"),
        ];
        let mut found = Vec::new();
        let mut step = |step| {
            found.push(match step {
                Step::Directory(directory) => format!("{}/", String::from_utf8(directory.path).unwrap()),
                Step::Entry(entry) => String::from_utf8(entry.name).unwrap(),
                Step::End => "end".into(),
            });
        };
        let mut order = Order::default();
        items.into_iter().for_each(|item| order.push(item, &mut step));
        order.finish(&mut step);
        let expected = "/ home/ a home/b/ home/b/c/ end in b end home/b-d/ in b-d end b.txt z end srv/ end end";
        assert_eq!(found.join(" "), expected);
    }
}
