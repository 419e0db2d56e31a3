//! Check `library`: the library without the command builds and is documented without a warning, alone and with
//! `offsite`, and no signature of its public items names a type of another crate.
//!
//! Rustdoc links the types of the library and of the standard library. A type without a link, or with a link to
//! docs.rs, belongs to another crate.

use super::files::Files;
use super::finding::Finding;
use crate::command;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Behind this come the methods of traits that other crates implement for all types.
const BLANKET: &str = "id=\"blanket-implementations-list\"";
/// Traits of other crates that types may implement: they store manifests.
const TRAITS: &[&str] = &["serde_core"];

/// The features beside the library itself.
const FEATURES: [&str; 2] = ["", "offsite"];

/// Builds the documentation and reads it.
pub(crate) fn check(_: &Files) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for features in FEATURES {
        found.extend(check_with(features)?);
    }
    found.dedup();
    Ok(found)
}

fn check_with(features: &str) -> Result<Vec<Finding>> {
    let target = command::target_dir().join("library");
    let pages = target.join("doc/pleach");
    if pages.exists() {
        fs::remove_dir_all(&pages).with_context(|| format!("remove {}", pages.display()))?;
    }
    let mut cargo = command::program("cargo");
    cargo.current_dir(command::root()).env("RUSTDOCFLAGS", "-D warnings");
    // Only the pages need a directory of their own: other crates' pages would be linked from them. Dependencies that
    // clippy has checked are not checked again.
    cargo.env("CARGO_BUILD_BUILD_DIR", command::target_dir());
    cargo.args(["doc", "--quiet", "--message-format=short", "--lib", "--no-deps", "--no-default-features", "--locked"]);
    cargo.args(["--features", features]).arg("--target-dir").arg(&target);
    if let Err(error) = command::output(&mut cargo) {
        let details = format!("{error:#}").lines().map(str::to_owned).collect();
        let message = format!("the library without the command{} does not build or is not documented", named(features));
        return Ok(vec![Finding::new("src/lib.rs", 1, message).with_details(details)]);
    }
    let mut found = Vec::new();
    for page in pages_below(&pages)? {
        let text = fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
        let name = page.strip_prefix(&pages).unwrap_or(&page).display();
        for (signature, owner) in foreign(&text) {
            let message = format!("{name}: a public signature names a type of `{owner}`: {signature}");
            found.push(Finding::new("src/lib.rs", 1, message));
        }
    }
    Ok(found)
}

fn named(features: &str) -> String {
    if features.is_empty() { String::new() } else { format!(" and with {features}") }
}

fn pages_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            pages.extend(pages_below(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "html") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// The signatures of a page that name a type of another crate, and that type.
fn foreign(page: &str) -> Vec<(String, String)> {
    let page = page.split(BLANKET).next().unwrap_or(page);
    let headers = page.split("code-header\">").skip(1).filter_map(|rest| Some(rest.split_once("</h4>")?.0));
    let declarations = page.split("item-decl\">").skip(1).filter_map(|rest| Some(rest.split_once("</pre>")?.0));
    let signatures = headers.chain(declarations);
    let foreign = signatures.filter_map(|signature| {
        let text = without_tags(signature);
        if TRAITS.iter().any(|name| signature.contains(name)) {
            return None;
        }
        let elsewhere = signature.split("https://docs.rs/").nth(1).and_then(|rest| rest.split('/').next());
        let owner = elsewhere.map(str::to_owned).or_else(|| unlinked(signature))?;
        Some((text, owner))
    });
    foreign.collect()
}

/// The first type in a signature that has no link: a capitalized name after a colon, an arrow or a bracket.
fn unlinked(signature: &str) -> Option<String> {
    let linked = signature.split("<a ").map(|part| part.split_once("</a>").map_or(part, |(_, rest)| rest));
    // Associated types: of a trait (`Self::Item`), and given (`Item = Path`).
    let rest = without_tags(&linked.collect::<Vec<_>>().join("_")).replace("::", ".").replace("Item =", "=");
    let mut before = ' ';
    let mut words = rest.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_');
    words.find_map(|word| {
        let name: String = word.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect();
        let follows = before;
        before = word.chars().last().filter(|c| !c.is_whitespace()).unwrap_or(before);
        if !name.is_empty() && word.ends_with(char::is_whitespace) {
            before = ' ';
        }
        let is_type = name.len() > 1
            && name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.trim_end_matches("where") != "Self";
        (is_type && ":>(<&[".contains(follows)).then_some(name)
    })
}

fn without_tags(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for character in html.chars() {
        match character {
            '<' => is_tag = true,
            '>' => is_tag = false,
            _ if !is_tag => text.push(character),
            _ => {}
        }
    }
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_of_another_crate_in_a_signature_is_found() {
        let header = |signature: &str| format!("<h4 class=\"code-header\">{signature}</h4>");
        let errno = header("pub fn of(errno: Errno) -&gt; <a href=\"enum.Skip.html\">Skip</a>");
        let generic = header("fn hash&lt;H&gt;(&amp;self, state: &amp;mut H)");
        let either = header("fn into_either(self) -&gt; <a href=\"https://docs.rs/either/1/Either.html\">Either</a>");
        let either = format!("<div {BLANKET}>{either}</div>");
        let path = header("pub fn path() -&gt; <a href=\"https://doc.rust-lang.org/std/path.html\">Path</a>");
        assert_eq!(
            foreign(&[errno, generic, path, either].concat()),
            [("pub fn of(errno: Errno) -> Skip".to_owned(), "Errno".to_owned())]
        );
    }
}
