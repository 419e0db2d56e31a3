//! The paths that an item of Rust code mentions: in `use`, in code, inside macro calls and attributes.
//!
//! Code under `#[cfg(test)]` is skipped.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Meta, TraitItem, UseTree};

/// A path that is mentioned.
#[derive(Clone, Debug)]
pub(crate) struct Mention {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
}

/// What an item mentions.
#[derive(Default)]
pub(crate) struct Mentions<'a> {
    /// Paths of at least two names.
    pub(crate) paths: Vec<Mention>,
    /// The trees of `use` items, also of those inside functions.
    pub(crate) uses: Vec<&'a UseTree>,
}

/// The mentions of `item`.
pub(crate) fn of_item(item: &Item) -> Mentions<'_> {
    let mut mentions = Mentions::default();
    mentions.visit_item(item);
    mentions
}

/// Whether the attributes say `#[cfg(test)]`.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            ["test", "feature = \"testing\""].contains(&list.tokens.to_string().as_str())
        }
        _ => false,
    })
}

/// The attributes of an item.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl Mentions<'_> {
    fn add(&mut self, names: &mut Vec<String>, line: usize) {
        if names.len() > 1 {
            self.paths.push(Mention { path: names.clone(), line });
        }
        names.clear();
    }

    /// Finds `a::b` in tokens that are not parsed.
    fn scan(&mut self, tokens: TokenStream) {
        let (mut names, mut line) = (Vec::new(), 0);
        // The characters since the last name: `::` continues a path, anything else ends it.
        let mut between = String::new();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if between != "::" {
                        self.add(&mut names, line);
                        line = ident.span().start().line;
                    }
                    between.clear();
                    names.push(ident.to_string());
                }
                TokenTree::Punct(punct) => between.push(punct.as_char()),
                TokenTree::Literal(_) => between.push('0'),
                TokenTree::Group(group) => {
                    self.scan(group.stream());
                    between.push('(');
                }
            }
        }
        self.add(&mut names, line);
    }
}

impl<'ast> Visit<'ast> for Mentions<'ast> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let is_test = match item {
            ImplItem::Fn(item) => is_test(&item.attrs),
            ImplItem::Const(item) => is_test(&item.attrs),
            _ => false,
        };
        if !is_test {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        if !matches!(item, TraitItem::Fn(item) if is_test(&item.attrs)) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.uses.push(&item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let mut names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.add(&mut names, path.segments[0].ident.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.scan(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.scan(list.tokens.clone());
        visit::visit_meta_list(self, list);
    }

    // `pub(in a::b)` is not an import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &str) -> Vec<String> {
        let file = syn::parse_file(source).expect("the source parses");
        let items = file.items.iter().flat_map(|item| of_item(item).paths);
        items.map(|mention| format!("{}:{}", mention.line, mention.path.join("::"))).collect()
    }

    #[test]
    fn paths_in_code_macros_and_attributes_are_found() {
        let source =
            "fn f(a: crate::a::B) {\n x!(y.z, crate::c::d::<u8>(1), e::f);\n}\n#[arg(v = super::g)]\nstruct S;";
        assert_eq!(paths(source), ["1:crate::a::B", "2:crate::c::d", "2:e::f", "4:super::g"]);
    }

    #[test]
    fn tests_do_not_count() {
        assert_eq!(paths("#[cfg(test)] fn f() { a::b() }\nimpl S { #[cfg(test)] fn g() { c::d() } }"), [""; 0]);
        assert_eq!(paths("#[cfg(not(test))] fn f() { a::b() }"), ["1:a::b"]);
    }
}
