//! The part of a directory that a run looks at, and the records of the last manifest that it takes over unseen.

use crate::snapshot::manifest::{Item, RecordKey};
use crate::util::path::{is_below, split};
use std::collections::BTreeSet;

/// The part of a directory that a run looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Scope {
    /// All its entries.
    #[default]
    Whole,
    /// Entries with these names. All others are as in the last snapshot.
    Only(BTreeSet<Vec<u8>>),
}

/// The directories above the present place in the order of a manifest, with their scopes.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    chain: Vec<(Vec<u8>, Scope)>,
}

impl Scopes {
    /// Notes that the run visited the directory at `path`, which comes behind all before it in the order.
    pub(super) fn passed(&mut self, path: &[u8], scope: Scope) {
        self.leave(path);
        self.chain.push((path.to_vec(), scope));
    }

    /// Whether the run did not look at an entry or directory, which is then as in the last snapshot. `directory` is
    /// the directory of the entry. Records must come in their order.
    pub(super) fn keep(&mut self, directory: &[u8], item: &Item) -> bool {
        let (directory, name) = match item {
            Item::Entry(entry) => (directory, &entry.name[..]),
            Item::Directory(own) => split(&own.path),
        };
        self.leave(directory);
        let Some((above, scope)) = self.chain.last() else { return false };
        match scope {
            Scope::Whole => false,
            Scope::Only(names) => !names.contains(component(directory, above).unwrap_or(name)),
        }
    }

    /// Whether the run looked at no record from `from` on and before `to`, or to the end if there is no `to`. `false`
    /// if that is not obvious.
    pub(super) fn keep_all(&mut self, from: RecordKey<'_>, to: Option<RecordKey<'_>>) -> bool {
        let (directory, name) = if from.1.is_empty() { split(from.0) } else { from };
        self.leave(directory);
        for (above, scope) in self.chain.iter().rev() {
            let Scope::Only(names) = scope else { return false };
            let first = component(directory, above).unwrap_or(name);
            let within = to.filter(|(path, _)| is_below(path, above));
            let last = within.map(|(path, name)| component(path, above).unwrap_or(name));
            // The entries of a directory come before its subdirectories, each in the order of their names.
            let is_among_directories = from.1.is_empty() || directory != above;
            let is_known = match last {
                _ if names.is_empty() => true,
                Some(last) if is_among_directories || within.is_some_and(|(path, _)| path == above) => {
                    names.range(first.to_vec()..=last.to_vec()).next().is_none()
                }
                None if is_among_directories => names.range(first.to_vec()..).next().is_none(),
                _ => false,
            };
            if !is_known {
                return false;
            }
            if within.is_some() {
                return true;
            }
        }
        !self.chain.is_empty()
    }

    /// Forgets the directories that the directory at `path` does not lie in.
    fn leave(&mut self, path: &[u8]) {
        while self.chain.last().is_some_and(|(above, _)| !is_below(path, above)) {
            self.chain.pop();
        }
    }
}

/// The first name of `path` below the directory `above`, which `path` lies in. `None` if they are equal.
fn component<'p>(path: &'p [u8], above: &[u8]) -> Option<&'p [u8]> {
    let rest = path.get(above.len()..)?;
    let rest = rest.strip_prefix(b"/").unwrap_or(rest);
    rest.split(|byte| *byte == b'/').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::manifest::{Body, Directory, Entry, Meta, compare_paths};
    use proptest::prelude::*;

    fn only(names: &[&str]) -> Scope {
        Scope::Only(names.iter().map(|name| name.as_bytes().to_vec()).collect())
    }

    fn entry(name: &str) -> Item {
        Item::Entry(Entry { name: name.into(), meta: Meta::default(), body: Body::Fifo })
    }

    fn directory(path: &str) -> Item {
        Item::Directory(Directory { path: path.into(), scaffold: false, meta: Meta::default() })
    }

    #[test]
    fn what_lies_below_a_directory_that_was_not_visited_is_kept() {
        let mut scopes = Scopes::default();
        scopes.passed(b"", Scope::Whole);
        scopes.passed(b"srv", only(&["b", "f"]));
        assert!(scopes.keep(b"srv", &entry("a")) && !scopes.keep(b"srv", &entry("f")));
        assert!(scopes.keep(b"srv", &directory("srv/a")) && scopes.keep(b"srv/a/x", &entry("b")));
        assert!(!scopes.keep(b"srv", &directory("srv/b")) && !scopes.keep(b"srv/b", &entry("z")), "it is gone");
        assert!(!scopes.keep(b"", &directory("sr")), "the top was looked at as a whole");
    }

    #[test]
    fn a_range_is_kept_if_no_visited_name_lies_in_it() {
        let scopes = || {
            let mut scopes = Scopes::default();
            scopes.passed(b"", Scope::Whole);
            scopes.passed(b"srv", only(&["m"]));
            scopes
        };
        let kept = |from: (&str, &str), to: (&str, &str)| {
            let key = |(path, name): (&'static str, &'static str)| (path.as_bytes(), name.as_bytes());
            let leak = |(path, name): (&str, &str)| (&*path.to_string().leak(), &*name.to_string().leak());
            scopes().keep_all(key(leak(from)), Some(key(leak(to))))
        };
        assert!(kept(("srv/a", "x"), ("srv/b", "")) && kept(("srv/n", ""), ("srv/z/y", "")));
        assert!(!kept(("srv/a", "x"), ("srv/m", "")) && !kept(("srv/m/a", ""), ("srv/n", "")));
        assert!(!kept(("srv/n", ""), ("usr", "")), "the range leads out of the directory");
        assert!(kept(("srv", "a"), ("srv", "b")) && !kept(("srv", "a"), ("srv", "n")));
        assert!(!kept(("srv", "n"), ("srv/b", "")), "a name may be that of a subdirectory");
    }

    /// All records of a small tree, in their order.
    fn records() -> Vec<(Vec<u8>, Vec<u8>)> {
        let names = ["a", "b", "c"];
        let mut paths = vec![String::new()];
        for a in names {
            paths.push(a.to_string());
            paths.extend(names.map(|b| format!("{a}/{b}")));
        }
        let mut records: Vec<_> = paths
            .iter()
            .flat_map(|path| ["", "a", "d", "e"].map(|name| (path.clone().into_bytes(), name.as_bytes().to_vec())))
            .collect();
        records.sort_by(|a, b| compare_paths(&a.0, &b.0).then_with(|| a.1.cmp(&b.1)));
        records
    }

    fn item(record: &(Vec<u8>, Vec<u8>)) -> Item {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        if record.1.is_empty() { directory(&text(&record.0)) } else { entry(&text(&record.1)) }
    }

    proptest! {
        /// Whatever was visited: a range that is kept as a whole has only records that are kept one by one.
        #[test]
        fn a_kept_range_has_only_kept_records(
            names in prop::collection::vec(prop::option::of(prop::collection::btree_set("[a-e]", 0..3)), 13),
            at in 0usize..52,
            length in 1usize..20,
        ) {
            let records = records();
            let mut scopes: Vec<Scope> = names
                .into_iter()
                .map(|names| names.map_or(Scope::Whole, |names| {
                    Scope::Only(names.into_iter().map(String::into_bytes).collect())
                }))
                .collect();
            let mut plain = Scopes::default();
            // A directory is visited if the scope of the one above leads there.
            let mut visited = Vec::new();
            for record in records.iter().filter(|record| record.1.is_empty()) {
                let (above, name) = split(&record.0);
                let parent = visited.iter().rfind(|(path, _): &&(Vec<u8>, Scope)| path == above);
                let leads = match parent {
                    _ if record.0.is_empty() => true,
                    Some((_, Scope::Whole)) => true,
                    Some((_, Scope::Only(names))) => names.contains(name),
                    None => false,
                };
                if leads {
                    visited.push((record.0.clone(), scopes.pop().unwrap_or_default()));
                }
            }
            let at = at.min(records.len() - 1);
            let end = (at + length).min(records.len());
            let is_visited = |record: &(Vec<u8>, Vec<u8>)| {
                record.1.is_empty() && visited.iter().any(|(path, _)| *path == record.0)
            };
            // No visited directory lies in the range: the caller sees to that.
            prop_assume!(!records[at..end].iter().any(is_visited));
            let mut ranged = Scopes::default();
            for record in &records[..at] {
                if let Some((path, scope)) = visited.iter().find(|(path, _)| record.1.is_empty() && *path == record.0) {
                    ranged.passed(path, scope.clone());
                    plain.passed(path, scope.clone());
                }
            }
            let key = |number: usize| records.get(number).map(|(path, name)| (&path[..], &name[..]));
            if ranged.keep_all(key(at).unwrap(), key(end)) {
                for record in &records[at..end] {
                    prop_assert!(plain.keep(&record.0, &item(record)), "{record:?}");
                }
            }
        }
    }
}
