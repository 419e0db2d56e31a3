//! Which module or item a path means, through `use`, re-exports and `super`.

use super::module_tree::{Module, Modules};

/// The meaning of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A module.
    Module(usize),
    /// Something defined in this module.
    Item(usize),
}

impl Target {
    /// The module itself, or the one that defines the item.
    pub(crate) fn module(self) -> usize {
        match self {
            Target::Module(module) | Target::Item(module) => module,
        }
    }
}

/// Chains of re-exports longer than this are circular.
const MAX_DEPTH: usize = 32;

/// What `path` means in module `from`; `None` when it belongs to another crate.
pub(crate) fn resolve(modules: &Modules, from: usize, path: &[String]) -> Option<Target> {
    find(modules, from, path, 0)
}

fn find(modules: &Modules, from: usize, path: &[String], depth: usize) -> Option<Target> {
    if depth > MAX_DEPTH {
        return None;
    }
    let this = &modules.all[from];
    let (first, rest) = path.split_first()?;
    let start = match first.as_str() {
        "crate" => this.root,
        "self" => from,
        "super" => this.parent?,
        name if name == modules.package.library && Some(this.root) == modules.binary => modules.library?,
        _ => return find_below(modules, from, path, depth),
    };
    find_below(modules, start, rest, depth)
}

/// What `path` means below the module `at`.
fn find_below(modules: &Modules, at: usize, path: &[String], depth: usize) -> Option<Target> {
    let Some((name, rest)) = path.split_first() else { return Some(Target::Module(at)) };
    let this = &modules.all[at];
    if name == "super" {
        return find_below(modules, this.parent?, rest, depth);
    }
    if name == "*" {
        return Some(Target::Module(at));
    }
    if let (false, Some(child)) = (rest.is_empty(), this.children.get(name)) {
        return find_below(modules, *child, rest, depth);
    }
    // A function and an imported module may have the same name; only a module has something below it.
    let imported = this.aliases.get(name).and_then(|path| follow(modules, at, path, rest, depth));
    if this.items.contains(name) && (rest.is_empty() || imported.is_none()) {
        return Some(Target::Item(at));
    }
    if this.aliases.contains_key(name) {
        return imported;
    }
    if let Some(child) = this.children.get(name) {
        return Some(Target::Module(*child));
    }
    find_in_globs(modules, at, this, path, depth)
}

/// What a `use` of `path` in module `at`, and then `rest` below it, mean.
fn follow(modules: &Modules, at: usize, path: &[String], rest: &[String], depth: usize) -> Option<Target> {
    if rest.is_empty() {
        return find(modules, at, path, depth + 1);
    }
    match find(modules, at, &everything_in(path), depth + 1)? {
        Target::Module(module) => find_below(modules, module, rest, depth + 1),
        item => Some(item),
    }
}

/// `path::*`: the module of that name, where an item has the same name.
pub(crate) fn everything_in(path: &[String]) -> Vec<String> {
    path.iter().cloned().chain(["*".to_owned()]).collect()
}

fn find_in_globs(modules: &Modules, at: usize, this: &Module, path: &[String], depth: usize) -> Option<Target> {
    // Other globs belong to other crates, or to enums.
    let is_own = |glob: &&Vec<String>| ["crate", "self", "super", modules.package.library].contains(&glob[0].as_str());
    this.globs.iter().filter(is_own).find_map(|glob| match find(modules, at, &everything_in(glob), depth + 1)? {
        Target::Module(module) if module != at => find_below(modules, module, path, depth + 1),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files::Files;
    use crate::tidy::module_tree::PLEACH;

    fn meaning(texts: &[(&str, &str)], from: &str, path: &str) -> String {
        let modules = Modules::parse(&Files::of(texts), PLEACH).expect("the source parses");
        let from = modules.all.iter().position(|module| module.file == from).expect("a module");
        let path: Vec<_> = path.split("::").map(str::to_owned).collect();
        match resolve(&modules, from, &path) {
            Some(Target::Module(module)) => format!("module {}", modules.all[module].file),
            Some(Target::Item(module)) => modules.all[module].file.clone(),
            None => "other".to_owned(),
        }
    }

    const TEXTS: &[(&str, &str)] = &[
        ("src/lib.rs", "pub mod a; mod b; pub use b::B;"),
        ("src/main.rs", "mod cli; use pleach::a;"),
        ("src/cli.rs", ""),
        ("src/a/mod.rs", "mod one; pub(crate) use self::one::One; mod two; use crate::b::*; fn own() {}"),
        ("src/a/one.rs", "pub struct One;"),
        ("src/a/two.rs", "use super::One; use crate::a; use super::Loop; pub use self::Loop as Again;"),
        ("src/b.rs", "pub struct B;"),
    ];

    #[test]
    fn names_lead_through_re_exports_to_the_file_that_defines_them() {
        assert_eq!(meaning(TEXTS, "src/a/two.rs", "super::One::new"), "src/a/one.rs");
        assert_eq!(meaning(TEXTS, "src/a/two.rs", "One::new"), "src/a/one.rs");
        assert_eq!(meaning(TEXTS, "src/a/two.rs", "a::One"), "src/a/one.rs");
        assert_eq!(meaning(TEXTS, "src/a/two.rs", "super::own"), "src/a/mod.rs");
        assert_eq!(meaning(TEXTS, "src/a/two.rs", "super::super::B"), "src/b.rs");
        assert_eq!(meaning(TEXTS, "src/a/two.rs", "super::B"), "src/b.rs");
    }

    #[test]
    fn the_binary_imports_the_library_by_its_name() {
        assert_eq!(meaning(TEXTS, "src/cli.rs", "pleach::a::One"), "src/a/one.rs");
        assert_eq!(meaning(TEXTS, "src/cli.rs", "crate::a::One"), "src/a/one.rs");
        assert_eq!(meaning(TEXTS, "src/a/two.rs", "pleach::a::One"), "other");
    }

    #[test]
    fn a_module_and_a_function_may_have_one_name() {
        let texts = [
            ("src/lib.rs", "mod a; mod share; pub fn share() {}"),
            ("src/a.rs", "use super::share; use crate::share as other;"),
            ("src/share.rs", "pub fn plan() {}"),
        ];
        assert_eq!(meaning(&texts, "src/a.rs", "share"), "src/lib.rs");
        assert_eq!(meaning(&texts, "src/a.rs", "share::plan"), "src/share.rs");
        assert_eq!(meaning(&texts, "src/a.rs", "other::plan"), "src/share.rs");
    }

    #[test]
    fn modules_other_crates_and_circles_of_names_are_no_items() {
        assert_eq!(meaning(TEXTS, "src/a/two.rs", "crate::b"), "module src/b.rs");
        assert_eq!(meaning(TEXTS, "src/a/two.rs", "std::fs::File"), "other");
        assert_eq!(meaning(TEXTS, "src/a/two.rs", "Again"), "other");
    }
}
