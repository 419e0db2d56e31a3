//! Check `layers`: a module imports only modules of lower layers, and there are not too many of them.
//!
//! [`LAYERS`] and [`ALLOWED`] are the table to change when a module comes or goes.

use super::files::Files;
use super::finding::Finding;
use super::module_tree::{Module, Modules, PLEACH, PROGRAM};
use super::resolve::{Target, resolve};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// The top-level modules from the bottom to the top; those on one line may not import each other.
///
/// `lib` and `main` are the files `src/lib.rs` and `src/main.rs` themselves. The modules of `program` have layers of
/// their own.
const LAYERS: &[&[&str]] = &[
    &["sys"],
    &["util"],
    &["error", "monitor"],
    &["fs"],
    &["extents"],
    &["content"],
    &["tree"],
    &["usage"],
    &["snapshot", "dedupe", "copy_tree", "put", "probe", "fiemap"],
    &["lib"],
    &["exit_status", "profile"],
    &["output"],
    &["cli"],
    &["commands"],
    &["program"],
    &["main"],
];

/// Pairs within a layer: the first module may import the second, for the reason that follows.
const ALLOWED: &[(&str, &str, &str)] = &[("monitor", "error", "events carry errors")];

/// The most top-level modules that the library, and the binary, may have.
const MOST_MODULES: usize = 16;

/// Finds imports that point up, and top-level modules that the table does not know.
pub(crate) fn check(files: &Files) -> Result<Vec<Finding>> {
    let modules = Modules::parse(files, PLEACH)?;
    let mut found = check_tops(&modules, MOST_MODULES);
    for arrow in arrows(&modules) {
        let Some(problem) = problem(&arrow.from, &arrow.to) else { continue };
        let names = arrow.names.into_iter().collect::<Vec<_>>().join(", ");
        found.push(Finding::new(&arrow.file, arrow.line, format!("{problem} ({names}): move it below both")));
    }
    Ok(found)
}

/// The problem with one module importing another.
fn problem(from: &str, to: &str) -> Option<String> {
    let (below, above) = (layer(to)?, layer(from)?);
    let is_allowed = ALLOWED.iter().any(|(one, other, _)| (*one, *other) == (from, to));
    if below < above || is_allowed {
        None
    } else if below == above {
        Some(format!("`{from}` imports `{to}` of its own layer"))
    } else {
        Some(format!("`{from}` imports `{to}`, a layer above it"))
    }
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Finds modules without a layer, layers without a module, and too many modules.
fn check_tops(modules: &Modules, most: usize) -> Vec<Finding> {
    const TABLE: &str = "the table in xtask/src/tidy/layers.rs";
    let mut found = Vec::new();
    let mut known: BTreeSet<_> = ["lib", "main"].into();
    for root in [modules.library, modules.binary].into_iter().flatten().map(|root| &modules.all[root]) {
        if root.children.len() > most {
            let message = format!("{} top-level modules, {most} are allowed: join some", root.children.len());
            found.push(Finding::new(&root.file, 1, message));
        }
        let program = root.children.get(PROGRAM).map(|program| &modules.all[*program].children);
        for (name, module) in root.children.iter().chain(program.into_iter().flatten()) {
            known.insert(name);
            if layer(name).is_none() {
                let message = format!("`{name}` has no layer: add it to {TABLE}");
                found.push(Finding::new(&modules.all[*module].file, 1, message));
            }
        }
    }
    for name in LAYERS.iter().copied().flatten().filter(|name| !known.contains(*name)) {
        let message = format!("there is no module `{name}`: remove it from {TABLE}");
        found.push(Finding::new("src/lib.rs", 1, message));
    }
    found
}

/// Imports of one top-level module by a file of another.
struct Arrow {
    file: String,
    from: String,
    to: String,
    line: usize,
    names: BTreeSet<String>,
}

fn arrows(modules: &Modules) -> Vec<Arrow> {
    let mut arrows: BTreeMap<(&str, usize), Arrow> = BTreeMap::new();
    for (number, module) in modules.all.iter().enumerate() {
        for mention in &module.mentions {
            let from = modules.top(number);
            let Some(to) = named_top(modules, number, &mention.path).filter(|to| *to != from) else { continue };
            let arrow = arrows.entry((&module.file, to)).or_insert_with(|| Arrow {
                file: module.file.clone(),
                from: modules.all[from].name.clone(),
                to: modules.all[to].name.clone(),
                line: mention.line,
                names: BTreeSet::new(),
            });
            arrow.line = arrow.line.min(mention.line);
            // The import of a name is enough: its uses need no mention.
            if arrow.names.is_empty() || !module.aliases.contains_key(&mention.path[0]) {
                arrow.names.insert(mention.path.join("::"));
            }
        }
    }
    arrows.into_values().collect()
}

/// The top-level module that a path enters first, on its way from module `from`.
fn named_top(modules: &Modules, from: usize, path: &[String]) -> Option<usize> {
    let is_root = |module: usize| modules.all[module].parent.is_none();
    let mut last = None;
    for length in 1..=path.len() {
        let Some(target) = resolve(modules, from, &path[..length]) else { continue };
        let is_way_up = matches!(target, Target::Module(module) if is_above(&modules.all, module, from));
        if is_way_up && length < path.len() {
            continue;
        }
        last = Some(modules.top(target.module()));
        if !is_root(target.module()) {
            break;
        }
    }
    last
}

/// Whether module `above` is `below` or holds it.
fn is_above(all: &[Module], above: usize, below: usize) -> bool {
    above == below || all[below].parent.is_some_and(|parent| is_above(all, above, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[(&str, &str)]) -> Vec<String> {
        let found = check(&Files::of(texts)).expect("the source parses");
        let arrows = found.iter().filter(|found| !found.message.starts_with("there is no module"));
        arrows.map(ToString::to_string).collect()
    }

    const LIB: &str = "pub mod util; pub mod fs; pub mod put; pub mod dedupe; pub mod monitor; pub mod error;";

    #[test]
    fn arrows_that_point_up_are_found() {
        let upward = "fn f() {}\nuse crate::put::P;\nfn g() { crate::put::h() }";
        assert_eq!(
            found(&[("src/lib.rs", LIB), ("src/fs/mod.rs", "mod a;"), ("src/fs/a.rs", upward), ("src/put.rs", "")]),
            ["src/fs/a.rs:2: `fs` imports `put`, a layer above it (crate::put::P, crate::put::h): move it below both"]
        );
    }

    #[test]
    fn arrows_that_point_down_and_tests_are_fine() {
        let down = "use crate::fs::f; #[cfg(test)] mod tests { use crate::dedupe::D; }";
        assert_eq!(found(&[("src/lib.rs", LIB), ("src/fs.rs", "pub fn f() {}"), ("src/put.rs", down)]), [""; 0]);
    }

    #[test]
    fn features_do_not_import_each_other_unless_allowed() {
        let put = ("src/put.rs", "use super::dedupe;");
        assert_eq!(
            found(&[("src/lib.rs", LIB), put, ("src/dedupe.rs", "")]),
            ["src/put.rs:1: `put` imports `dedupe` of its own layer (super::dedupe): move it below both"]
        );
        let monitor = ("src/monitor.rs", "use crate::error::Error;");
        assert_eq!(found(&[("src/lib.rs", LIB), monitor, ("src/error.rs", "")]), [""; 0]);
    }

    #[test]
    fn the_binary_is_checked_through_the_librarys_name() {
        let main = ("src/main.rs", "mod cli; mod output; use pleach::put;");
        let output = ("src/output.rs", "use pleach::put::Put; use crate::cli::Cli;");
        assert_eq!(
            found(&[("src/lib.rs", LIB), ("src/put.rs", ""), main, output, ("src/cli.rs", "")]),
            ["src/output.rs:1: `output` imports `cli`, a layer above it (crate::cli::Cli): move it below both"]
        );
    }

    #[test]
    fn the_modules_of_the_program_have_layers_of_their_own() {
        let lib = format!("{LIB} pub mod program;");
        let program = ("src/program/mod.rs", "mod cli; mod output; use cli::Cli;");
        let output = ("src/program/output.rs", "use crate::put::Put; use crate::program::cli::Cli;");
        assert_eq!(
            found(&[("src/lib.rs", &lib), ("src/put.rs", ""), program, output, ("src/program/cli.rs", "")]),
            ["src/program/output.rs:1: `output` imports `cli`, a layer above it (crate::program::cli::Cli): \
                 move it below both"]
        );
    }

    #[test]
    fn a_re_export_at_the_root_leads_to_its_module() {
        let lib = "pub mod fs; pub mod put; pub use put::Put; pub struct Own;";
        let fs = ("src/fs.rs", "use crate::Put;\nuse crate::Own;");
        assert_eq!(
            found(&[("src/lib.rs", lib), fs, ("src/put.rs", "pub struct Put;")]),
            [
                "src/fs.rs:2: `fs` imports `lib`, a layer above it (crate::Own): move it below both",
                "src/fs.rs:1: `fs` imports `put`, a layer above it (crate::Put): move it below both",
            ]
        );
    }

    #[test]
    fn modules_without_a_layer_and_too_many_of_them_are_found() {
        assert_eq!(
            found(&[("src/lib.rs", "mod stray;"), ("src/stray.rs", "")]),
            ["src/stray.rs:1: `stray` has no layer: add it to the table in xtask/src/tidy/layers.rs"]
        );
        let modules = Modules::parse(&Files::of(&[("src/lib.rs", LIB), ("src/fs.rs", ""), ("src/put.rs", "")]), PLEACH);
        let found = check_tops(&modules.expect("the source parses"), 1);
        assert_eq!(found[0].message, "2 top-level modules, 1 are allowed: join some");
    }
}
