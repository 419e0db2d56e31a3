//! The modules of a package, and which names each declares, imports and mentions.
//!
//! Files are found as the compiler finds them, from `lib.rs` and `main.rs` on. Code for tests (`#[cfg(test)]`, feature
//! `testing`) is not part of it. What a mentioned path means is decided by `resolve`.

use super::files::Files;
use super::mentions::{self, Mention, Mentions};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, UseTree};

/// The module of the library that is the command.
pub(crate) const PROGRAM: &str = "program";

/// A package of this repository.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Package {
    /// The directory of its source.
    pub(crate) source: &'static str,
    /// The name by which its binary imports its library.
    pub(crate) library: &'static str,
}

/// The package that the others serve.
pub(crate) const PLEACH: Package = Package { source: "src", library: "pleach" };

/// All packages. The last one has no library.
pub(crate) const PACKAGES: [Package; 3] = [
    PLEACH,
    Package { source: "xtask/src", library: "xtask" },
    Package { source: "xtask/bench/src", library: "pleach_bench" },
];

/// A module; the numbers of others are places in [`Modules::all`].
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) parent: Option<usize>,
    pub(crate) root: usize,
    pub(crate) children: BTreeMap<String, usize>,
    /// Types, functions, constants and the like, defined here.
    pub(crate) items: BTreeSet<String>,
    /// The names that `use` declares, and their paths.
    pub(crate) aliases: BTreeMap<String, Vec<String>>,
    /// Modules imported by `use path::*`.
    pub(crate) globs: Vec<Vec<String>>,
    pub(crate) mentions: Vec<Mention>,
}

/// All modules of a package's library and binary.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    pub(crate) package: Package,
    pub(crate) all: Vec<Module>,
    pub(crate) library: Option<usize>,
    pub(crate) binary: Option<usize>,
}

impl Modules {
    /// Parses a package's source.
    pub(crate) fn parse(files: &Files, package: Package) -> Result<Modules> {
        let mut modules = Modules { package, ..Modules::default() };
        modules.library = modules.add_root(files, "lib")?;
        modules.binary = modules.add_root(files, "main")?;
        Ok(modules)
    }

    fn add_root(&mut self, files: &Files, name: &str) -> Result<Option<usize>> {
        let source = self.package.source;
        let file = format!("{source}/{name}.rs");
        let Some(text) = files.text(&file) else { return Ok(None) };
        let root = self.all.len();
        self.all.push(Module { name: name.to_owned(), file, root, ..Module::default() });
        self.fill_from_file(files, root, source, text)?;
        Ok(Some(root))
    }

    /// Reads a module's file; its child modules are in the directory `dir`.
    fn fill_from_file(&mut self, files: &Files, module: usize, dir: &str, text: &str) -> Result<()> {
        let parsed = syn::parse_file(text).with_context(|| format!("cannot parse {}", self.all[module].file))?;
        self.fill(files, module, dir, &parsed.items)
    }

    fn fill(&mut self, files: &Files, module: usize, dir: &str, items: &[Item]) -> Result<()> {
        for item in items.iter().filter(|item| !mentions::is_test(mentions::attributes(item))) {
            if let Some(name) = defined_name(item) {
                self.all[module].items.insert(name);
            }
            if let Item::Mod(child) = item {
                self.add_child(files, module, dir, child)?;
            } else {
                let Mentions { paths, uses } = mentions::of_item(item);
                self.all[module].mentions.extend(paths);
                for tree in uses {
                    self.add_use(module, &mut Vec::new(), tree);
                }
            }
        }
        Ok(())
    }

    fn add_child(&mut self, files: &Files, parent: usize, dir: &str, child: &syn::ItemMod) -> Result<()> {
        let name = child.ident.to_string();
        let below = format!("{dir}/{name}");
        let number = self.all.len();
        let root = self.all[parent].root;
        let file = match &child.content {
            Some(_) => Some(self.all[parent].file.clone()),
            None => {
                let places = [format!("{below}.rs"), format!("{below}/mod.rs")];
                places.into_iter().find(|place| files.text(place).is_some())
            }
        };
        // A module without a file does not compile: the compiler's message is the better one.
        let Some(file) = file else { return Ok(()) };
        self.all.push(Module {
            name: name.clone(),
            file: file.clone(),
            parent: Some(parent),
            root,
            ..Module::default()
        });
        self.all[parent].children.insert(name, number);
        match &child.content {
            Some((_, items)) => self.fill(files, number, &below, items),
            None => self.fill_from_file(files, number, &below, files.text(&file).unwrap_or_default()),
        }
    }

    /// Notes what a `use` imports, and that it mentions it.
    fn add_use(&mut self, module: usize, prefix: &mut Vec<String>, tree: &UseTree) {
        let this = &mut self.all[module];
        let (ident, alias) = match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_use(module, prefix, &path.tree);
                prefix.pop();
                return;
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(module, prefix, tree);
                }
                return;
            }
            UseTree::Glob(star) => {
                let line = star.star_token.spans[0].start().line;
                this.globs.push(prefix.clone());
                let path = prefix.iter().cloned().chain(["*".to_owned()]).collect();
                this.mentions.push(Mention { path, line });
                return;
            }
            UseTree::Name(name) => (&name.ident, &name.ident),
            UseTree::Rename(rename) => (&rename.ident, &rename.rename),
        };
        let mut path = prefix.clone();
        let mut alias = alias.to_string();
        if ident == "self" {
            if alias == "self" {
                alias = path.last().cloned().unwrap_or_default();
            }
        } else {
            path.push(ident.to_string());
        }
        if path.len() > 1 || path.first() != Some(&alias) {
            this.aliases.insert(alias, path.clone());
        }
        this.mentions.push(Mention { path, line: ident.span().start().line });
    }

    /// The module with a layer that holds `module`: a child of the root or of the program, or the root itself.
    pub(crate) fn top(&self, mut module: usize) -> usize {
        while let Some(parent) = self.all[module].parent {
            let is_program = self.all[parent].name == PROGRAM && self.all[parent].parent == Some(self.all[parent].root);
            if parent == self.all[module].root || is_program {
                break;
            }
            module = parent;
        }
        module
    }
}

/// The name an item defines, unless it is a module.
fn defined_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(ident.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(texts: &[(&str, &str)]) -> Modules {
        Modules::parse(&Files::of(texts), PLEACH).expect("the source parses")
    }

    #[test]
    fn modules_are_found_in_files_directories_and_inline() {
        let lib = "mod a; mod b; mod c { mod d; } #[cfg(test)] mod tests; mod absent;";
        let modules = modules(&[
            ("src/lib.rs", lib),
            ("src/a.rs", ""),
            ("src/b/mod.rs", ""),
            ("src/c/d.rs", ""),
            ("src/tests.rs", ""),
        ]);
        let found: Vec<_> = modules.all.iter().map(|module| (module.name.as_str(), module.file.as_str())).collect();
        let expected =
            [("lib", "src/lib.rs"), ("a", "src/a.rs"), ("b", "src/b/mod.rs"), ("c", "src/lib.rs"), ("d", "src/c/d.rs")];
        assert_eq!(found, expected);
        assert_eq!(modules.all[modules.top(4)].name, "c");
    }

    #[test]
    fn imports_are_noted_by_their_local_names() {
        let modules = modules(&[("src/lib.rs", "use a::{self, b as c, d::{E, self as f}, g::*}; fn h() {}")]);
        let root = &modules.all[0];
        let aliases: Vec<_> = root.aliases.iter().map(|(name, path)| format!("{name}={}", path.join("::"))).collect();
        assert_eq!(aliases, ["E=a::d::E", "c=a::b", "f=a::d"]);
        assert_eq!(root.globs, [["a", "g"]]);
        assert!(root.items.contains("h"));
    }
}
