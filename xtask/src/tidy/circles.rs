//! Check `circles`: no files of a package import each other in a circle.
//!
//! An import leads to the file that defines the name, through re-exports. So a parent module that re-exports what its
//! children define, and nothing more, is in no circle; one that also defines what they import is. A `use` of a module
//! alone is not an arrow: the paths below that module are.

use super::files::Files;
use super::finding::Finding;
use super::module_tree::{Modules, PACKAGES};
use super::resolve::{Target, everything_in, resolve};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// For each file the files it imports from, and which names, with the line of the first.
type Imports = BTreeMap<String, BTreeMap<String, (usize, BTreeSet<String>)>>;

/// Finds circles of files, with the imports that tie each.
pub(crate) fn check(files: &Files) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for package in PACKAGES {
        found.extend(circles(&imports(&Modules::parse(files, package)?)));
    }
    Ok(found)
}

fn circles(imports: &Imports) -> Vec<Finding> {
    let reach: BTreeMap<_, _> = imports.keys().map(|file| (file.as_str(), reachable(imports, file))).collect();
    let mut found = Vec::new();
    for (first, from_first) in &reach {
        let back = from_first.iter().filter(|other| reach.get(**other).is_some_and(|from| from.contains(first)));
        let circle: BTreeSet<&str> = back.copied().collect();
        // Each circle is reported at its first file.
        if circle.first() == Some(first) {
            let (line, details) = ties(imports, &circle);
            let message = format!(
                "{} files import each other in a circle: move what ties them to a file below all, or pass it in",
                circle.len()
            );
            found.push(Finding::new(first, line, message).with_details(details));
        }
    }
    found
}

fn imports(modules: &Modules) -> Imports {
    let mut imports = Imports::new();
    for (number, module) in modules.all.iter().enumerate() {
        for mention in &module.mentions {
            let is_glob = mention.path.last().is_some_and(|name| name == "*");
            let target = match resolve(modules, number, &mention.path) {
                Some(Target::Item(target)) if !imports_module(modules, number, &mention.path) => target,
                Some(Target::Module(target)) if is_glob => target,
                _ => continue,
            };
            let file = &modules.all[target].file;
            if *file != module.file {
                let from = imports.entry(module.file.clone()).or_default();
                let (line, names) = from.entry(file.clone()).or_insert((mention.line, BTreeSet::new()));
                *line = mention.line.min(*line);
                names.insert(item_name(modules, number, target, &mention.path));
            }
        }
    }
    imports
}

/// Whether a `use` of an item is there for the module of the same name: paths below that module follow.
fn imports_module(modules: &Modules, from: usize, path: &[String]) -> bool {
    let (module, Some(name)) = (&modules.all[from], path.last()) else { return false };
    module.aliases.get(name).is_some_and(|alias| alias == path)
        && matches!(resolve(modules, from, &everything_in(path)), Some(Target::Module(_)))
        && module.mentions.iter().any(|mention| mention.path.len() > 1 && mention.path[0] == *name)
}

/// The name of the item in a path that may continue to its variants and functions.
fn item_name(modules: &Modules, from: usize, target: usize, path: &[String]) -> String {
    let ends = 1..=path.len();
    let is_item = |end: &usize| resolve(modules, from, &path[..*end]) == Some(Target::Item(target));
    let end = ends.clone().find(is_item).unwrap_or(path.len());
    path[end - 1].clone()
}

/// The files that `file` imports from, directly or not; itself only if a circle leads back.
fn reachable<'a>(imports: &'a Imports, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&str> = imports.get(file).into_iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
    while let Some(next) = waiting.pop() {
        if reached.insert(next) {
            waiting.extend(imports.get(next).into_iter().flat_map(BTreeMap::keys).map(String::as_str));
        }
    }
    reached
}

/// The line of the first import inside a circle, and all of these imports.
fn ties(imports: &Imports, circle: &BTreeSet<&str>) -> (usize, Vec<String>) {
    let mut ties = Vec::new();
    let mut first = None;
    for from in circle {
        for (to, (line, names)) in imports.get(*from).into_iter().flatten() {
            if circle.contains(to.as_str()) {
                let names = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                ties.push(format!("{from}:{line} -> {to}: {names}"));
                first.get_or_insert(*line);
            }
        }
    }
    (first.unwrap_or(1), ties)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[(&str, &str)]) -> Vec<Finding> {
        check(&Files::of(texts)).expect("the source parses")
    }

    #[test]
    fn a_circle_is_printed_with_what_ties_it() {
        let found = found(&[
            ("src/lib.rs", "mod a; mod b; mod c; mod d;"),
            ("src/a.rs", "use crate::b;\nfn f() { b::g(); crate::b::G::new() }"),
            ("src/b.rs", "pub fn g() { crate::c::h() } pub struct G;"),
            ("src/c.rs", "pub fn h() { crate::a::f() }"),
            ("src/d.rs", "use crate::a::f;"),
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("src/a.rs", 2));
        assert!(found[0].message.starts_with("3 files"));
        assert_eq!(
            found[0].details,
            ["src/a.rs:2 -> src/b.rs: G, g", "src/b.rs:1 -> src/c.rs: h", "src/c.rs:1 -> src/a.rs: f"]
        );
    }

    #[test]
    fn a_parent_that_re_exports_is_in_no_circle_unless_it_defines_what_children_import() {
        let lib = ("src/lib.rs", "mod a;");
        let two = ("src/a/two.rs", "pub struct Two;");
        let one = ("src/a/one.rs", "use super::Two; pub fn one() {}");
        let parent = ("src/a/mod.rs", "mod one; mod two; pub use one::one; pub use two::Two;");
        assert_eq!(found(&[lib, two, one, parent]), []);
        let parent = ("src/a/mod.rs", "mod one; pub use one::one; struct Two;");
        let found = found(&[lib, one, parent]);
        assert_eq!(found[0].details, ["src/a/mod.rs:1 -> src/a/one.rs: one", "src/a/one.rs:1 -> src/a/mod.rs: Two"]);
    }

    #[test]
    fn a_parents_function_with_the_name_of_a_module_is_no_arrow() {
        let lib = ("src/lib.rs", "mod a; mod b; pub fn b() { a::a() }");
        let a = ("src/a.rs", "use super::b; pub fn a() { b::c() }");
        assert_eq!(found(&[lib, a, ("src/b.rs", "pub fn c() {}")]), []);
        let a = ("src/a.rs", "use super::b; pub fn a() { b() }");
        assert_eq!(found(&[lib, a, ("src/b.rs", "")]).len(), 1);
    }

    #[test]
    fn each_package_is_checked() {
        let found = found(&[
            ("xtask/src/main.rs", "mod a; mod b;"),
            ("xtask/src/a.rs", "pub struct A; use crate::b::B;"),
            ("xtask/src/b.rs", "pub struct B; use crate::a::A;"),
        ]);
        assert_eq!(
            found[0].details,
            ["xtask/src/a.rs:1 -> xtask/src/b.rs: B", "xtask/src/b.rs:1 -> xtask/src/a.rs: A"]
        );
    }

    #[test]
    fn tests_may_import_what_they_test() {
        let a = "use crate::b::B; pub struct A;";
        let b = "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }";
        assert_eq!(found(&[("src/lib.rs", "mod a; mod b;"), ("src/a.rs", a), ("src/b.rs", b)]), []);
    }
}
