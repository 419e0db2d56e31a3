//! Matches many patterns at once. The patterns form a tree of names, and the walk descends it together with the
//! directories. So the cost of a name does not grow with the number of patterns.
//!
//! A node represents the names that led to it. A directory has the nodes that its path leads to, mostly one or two. For
//! each node, the name of an entry is looked up among the plain names and matched against the globs (globset). `**`
//! leads to a node that stays in all directories below. The last matching pattern decides, as in a `.gitignore`. The
//! patterns that ever matched are recorded, because a pattern that never matches is probably a mistake.

use super::pattern::{Anchor, Line, Part, parse};
use crate::error::{Error, Result};
use crate::util::path::is_below;
use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most globs in one automaton: a large automaton is slow, and so are many automata.
const TOGETHER: usize = 500;

/// The node of the root.
const ROOT: usize = 0;
/// The node of the top of each source.
const SOURCE: usize = 1;

/// The patterns of `--exclude`. A clone shares the memory.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    tree: Arc<Tree>,
}

#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<Node>,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    line: Line,
    anchor: Anchor,
    keeps: bool,
    directories_only: bool,
}

#[derive(Debug, Default)]
struct Node {
    names: HashMap<Vec<u8>, usize>,
    /// Its globs by their text. They are compiled into `globs` when all are known.
    by_glob: BTreeMap<String, usize>,
    globs: Vec<(GlobSet, Vec<usize>)>,
    /// The node that `**` leads to.
    anywhere: Option<usize>,
    /// `**` led here: the node stays in all directories below.
    stays: bool,
    /// The patterns that end here.
    ends: Vec<usize>,
}

impl Patterns {
    /// The patterns as the user wrote them, in their order.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.tree.rules.iter().map(|rule| rule.line.text.as_str())
    }

    /// Parses the patterns.
    ///
    /// # Errors
    /// An invalid pattern, which is wrong usage.
    pub fn new(lines: impl IntoIterator<Item = Line>) -> Result<Patterns> {
        let mut tree = Tree { nodes: vec![Node::default(), Node::default()], rules: Vec::new() };
        for line in lines {
            let pattern = parse(&line)?;
            let mut node = match pattern.anchor {
                Anchor::Root => ROOT,
                Anchor::Source => SOURCE,
            };
            for part in &pattern.parts {
                if let Part::Glob(glob) = part {
                    compile(glob).map_err(|error| line.refused(&error.kind().to_string()))?;
                }
                node = tree.follow(node, part);
            }
            tree.nodes[node].ends.push(tree.rules.len());
            let (anchor, keeps, directories_only) = (pattern.anchor, pattern.keeps, pattern.directories_only);
            tree.rules.push(Rule { line, anchor, keeps, directories_only });
        }
        tree.nodes.iter_mut().try_for_each(Node::compile)?;
        Ok(Patterns { tree: Arc::new(tree) })
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.tree.rules.is_empty()
    }
}

impl Tree {
    /// The node that this part leads to from `node`. It is created if necessary.
    fn follow(&mut self, node: usize, part: &Part) -> usize {
        let next = self.nodes.len();
        let from = &mut self.nodes[node];
        let to = match part {
            Part::Name(name) => *from.names.entry(name.clone().into_bytes()).or_insert(next),
            Part::Glob(glob) => *from.by_glob.entry(glob.clone()).or_insert(next),
            Part::Anything => *from.anywhere.get_or_insert(next),
        };
        if to == next {
            self.nodes.push(Node { stays: *part == Part::Anything, ..Node::default() });
        }
        to
    }

    /// Adds a node to the nodes of a directory, and the node that `**` leads to from it: `**` also matches no name at
    /// all.
    fn add(&self, node: usize, nodes: &mut Vec<usize>) {
        for node in [Some(node), self.nodes[node].anywhere].into_iter().flatten() {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
    }
}

impl Node {
    fn compile(&mut self) -> Result<()> {
        let globs: Vec<_> = std::mem::take(&mut self.by_glob).into_iter().collect();
        let failed = |error: globset::Error| {
            Error::usage("use the patterns").because(std::io::Error::other(error.kind().to_string()))
        };
        globs.chunks(TOGETHER).try_for_each(|some| compile_together(some, &mut self.globs)).map_err(failed)
    }

    /// Calls `found` with each node that a name leads to; `matched` is scratch space.
    fn step(&self, name: &[u8], matched: &mut Vec<usize>, mut found: impl FnMut(usize)) {
        if let Some(node) = self.names.get(name) {
            found(*node);
        }
        if self.globs.is_empty() {
            return;
        }
        let candidate = Candidate::from_bytes(name);
        for (set, nodes) in &self.globs {
            set.matches_candidate_into(&candidate, matched);
            matched.iter().for_each(|&number| found(nodes[number]));
        }
    }
}

/// A glob for one name: it contains no slash, and every character of a name is ordinary.
fn compile(glob: &str) -> std::result::Result<globset::Glob, globset::Error> {
    GlobBuilder::new(glob).literal_separator(false).backslash_escape(true).build()
}

/// Compiles globs, each with the node it leads to, into as few sets as their size allows.
fn compile_together(
    globs: &[(String, usize)],
    sets: &mut Vec<(GlobSet, Vec<usize>)>,
) -> std::result::Result<(), globset::Error> {
    let mut set = GlobSetBuilder::new();
    for (glob, _) in globs {
        set.add(compile(glob)?);
    }
    match set.build() {
        Ok(set) => sets.push((set, globs.iter().map(|(_, node)| *node).collect())),
        Err(error) if globs.len() < 2 => return Err(error),
        Err(_) => {
            let (some, others) = globs.split_at(globs.len() / 2);
            compile_together(some, sets)?;
            compile_together(others, sets)?;
        }
    }
    Ok(())
}

/// The patterns during one run, and which of them have matched.
#[derive(Debug)]
pub(crate) struct Matcher {
    tree: Arc<Tree>,
    /// The paths of the sources without the leading slash. Empty if no pattern begins at a source.
    sources: Vec<Vec<u8>>,
    matched: Vec<AtomicBool>,
}

impl Matcher {
    /// The patterns, for sources at these absolute paths.
    pub(crate) fn new<'p>(patterns: &Patterns, sources: impl IntoIterator<Item = &'p Path>) -> Matcher {
        let is_needed = patterns.tree.rules.iter().any(|rule| rule.anchor == Anchor::Source);
        let sources = sources.into_iter().filter(|_| is_needed).map(|path| {
            let path = path.as_os_str().as_bytes();
            path.strip_prefix(b"/").unwrap_or(path).to_vec()
        });
        let sources = sources.collect();
        let matched = patterns.tree.rules.iter().map(|_| AtomicBool::new(false)).collect();
        Matcher { tree: Arc::clone(&patterns.tree), sources, matched }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.matched.is_empty()
    }

    /// The patterns for the entries of the directory at this path, which has no leading slash.
    pub(crate) fn within(&self, path: &[u8]) -> Within<'_> {
        let tree = &*self.tree;
        let (mut nodes, mut below, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        // For each source that is this directory or contains it: the number of names in the source's path.
        let tops: Vec<_> =
            self.sources.iter().filter(|source| is_below(path, source)).map(|top| names(top).count()).collect();
        if !tree.nodes.is_empty() {
            tree.add(ROOT, &mut nodes);
            if tops.contains(&0) {
                tree.add(SOURCE, &mut nodes);
            }
        }
        for (number, name) in names(path).enumerate() {
            below.clear();
            for &node in &nodes {
                if tree.nodes[node].stays {
                    tree.add(node, &mut below);
                }
                tree.nodes[node].step(name, &mut scratch, |next| tree.add(next, &mut below));
            }
            std::mem::swap(&mut nodes, &mut below);
            if tops.contains(&(number + 1)) {
                tree.add(SOURCE, &mut nodes);
            }
        }
        Within { matcher: self, nodes, scratch }
    }

    /// The patterns that have matched nothing so far, in their order, each with whether it begins at a source.
    pub(super) fn unmatched(&self) -> Vec<(String, bool)> {
        let rules = self.tree.rules.iter().zip(&self.matched);
        let unmatched = rules.filter(|(_, matched)| !matched.load(Ordering::Relaxed));
        unmatched.map(|(rule, _)| (rule.line.shown(), rule.anchor == Anchor::Source)).collect()
    }
}

/// The names of a path.
fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// The patterns for the entries of one directory.
#[derive(Debug)]
pub(crate) struct Within<'a> {
    matcher: &'a Matcher,
    nodes: Vec<usize>,
    scratch: Vec<usize>,
}

impl Within<'_> {
    /// Whether an entry with this name matches: the last pattern for it does not begin with `!`.
    pub(crate) fn matches(&mut self, name: &[u8], is_directory: bool) -> bool {
        self.excludes(name, is_directory)
    }

    /// Whether an entry with this name is excluded.
    pub(super) fn excludes(&mut self, name: &[u8], is_directory: bool) -> bool {
        let Matcher { tree, matched, .. } = self.matcher;
        let mut last = None;
        for &node in &self.nodes {
            tree.nodes[node].step(name, &mut self.scratch, |found| {
                for &rule in &tree.nodes[found].ends {
                    if tree.rules[rule].directories_only && !is_directory {
                        continue;
                    }
                    // Read first, so that threads that only read do not wait for each other.
                    if !matched[rule].load(Ordering::Relaxed) {
                        matched[rule].store(true, Ordering::Relaxed);
                    }
                    last = last.max(Some(rule));
                }
            });
        }
        last.is_some_and(|rule| !tree.rules[rule].keeps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matcher(lines: &[&str]) -> Matcher {
        within_sources(lines, &["/"])
    }

    fn within_sources(lines: &[&str], sources: &[&str]) -> Matcher {
        let patterns = Patterns::new(lines.iter().map(|line| Line::from(*line))).unwrap();
        Matcher::new(&patterns, sources.iter().map(Path::new))
    }

    /// `/a/b` is a file, `/a/b/` a directory.
    fn excludes(matcher: &Matcher, path: &str) -> bool {
        let (names, is_directory) = (path.trim_matches('/'), path.ends_with('/'));
        let (above, name) = names.rsplit_once('/').unwrap_or(("", names));
        matcher.within(above.as_bytes()).excludes(name.as_bytes(), is_directory)
    }

    #[test]
    fn names_match_anywhere_and_paths_from_the_root() {
        let patterns = matcher(&["*.log", "/srv/cache/", "!keep.log", "home/*/tmp", "/x/**/y", "/all/**"]);
        for out in ["/a/b/x.log", "/srv/cache/", "/home/ann/tmp", "/x/y", "/x/a/b/y", "/all/a/b"] {
            assert!(excludes(&patterns, out), "{out}");
        }
        for kept in ["/a/b/keep.log", "/srv/cache", "/home/srv/cache/", "/home/a/b/tmp", "/a/x/y", "/all/", "/log"] {
            assert!(!excludes(&patterns, kept), "{kept}");
        }
    }

    #[test]
    fn a_path_without_a_leading_slash_begins_at_each_source() {
        let patterns = within_sources(
            &["ann/debian.iso", "cache/*/", "!keep/x", "**/deep/y", "/home/z/z"],
            &["/home", "/srv/data"],
        );
        for out in [
            "/home/ann/debian.iso",
            "/srv/data/ann/debian.iso",
            "/home/cache/a/",
            "/home/deep/y",
            "/srv/data/a/b/deep/y",
            "/home/z/z",
        ] {
            assert!(excludes(&patterns, out), "{out}");
        }
        for kept in [
            "/home/bob/ann/debian.iso",
            "/srv/ann/debian.iso",
            "/srv/database/ann/debian.iso",
            "/ann/debian.iso",
            "/home/cache/a",
            "/home/home/z/z",
            "/srv/data/home/z/z",
        ] {
            assert!(!excludes(&patterns, kept), "{kept}");
        }
        let keeping = within_sources(&["*", "!keep/x"], &["/home"]);
        assert!(!excludes(&keeping, "/home/keep/x") && excludes(&keeping, "/home/a/keep/x"));
        let unmatched: Vec<_> = patterns.unmatched();
        assert_eq!(unmatched, [("'!keep/x'".to_string(), true)]);
        // A source inside another source is a top of its own.
        let nested = within_sources(&["a/b"], &["/s", "/s/t"]);
        assert!(excludes(&nested, "/s/a/b") && excludes(&nested, "/s/t/a/b") && !excludes(&nested, "/s/u/a/b"));
    }

    #[test]
    fn the_last_pattern_that_matches_decides() {
        let patterns = matcher(&["*.o", "!/src/*.o", "/src/a.o"]);
        assert!(excludes(&patterns, "/x.o") && excludes(&patterns, "/src/a.o"));
        assert!(!excludes(&patterns, "/src/b.o"));
    }

    #[test]
    fn a_pattern_has_matched_even_if_a_later_one_decided() {
        let patterns = matcher(&["*.log", "!keep.log", "/never", "dir/"]);
        assert!(!excludes(&patterns, "/a/keep.log"));
        assert!(!excludes(&patterns, "/a/dir"));
        assert_eq!(patterns.unmatched(), [("'/never'".to_string(), false), ("'dir/'".to_string(), false)]);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for wrong in ["a{", "/a/[b", "{a/b,c}"] {
            assert!(Patterns::new([Line::from(wrong)]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn thousands_of_globs_are_no_pattern_too_many() {
        let lines = (0..3000).map(|n| Line::from(&*format!("/home/*/x{n}*y?")));
        let patterns = Matcher::new(&Patterns::new(lines).unwrap(), []);
        assert!(excludes(&patterns, "/home/ann/x2999-yz"));
        assert!(!excludes(&patterns, "/home/ann/z3000-yz"));
        let unmatched = patterns.unmatched();
        assert_eq!(unmatched.len(), 2996, "but x2, x29, x299 and x2999");
        assert!(!unmatched.contains(&("'/home/*/x299*y?'".to_string(), false)));
    }

    proptest! {
        /// Compares the results with those of the `ignore` crate for the same lines.
        #[test]
        fn it_reads_patterns_as_others_do(
            lines in prop::collection::vec("!?/?([ab.*]{1,3}|\\*\\*)(/([ab?.]{1,2}|\\*\\*)){0,2}/?", 1..5),
            path in "(/([ab]{1,2}|[ab.\n]{3})){1,4}/?",
        ) {
            let Ok(ours) = Patterns::new(lines.iter().map(|line| Line::from(&**line))) else { return Ok(()) };
            let mut theirs = ignore::gitignore::GitignoreBuilder::new("/");
            for line in &lines {
                theirs.add_line(None, line).unwrap();
            }
            let theirs = theirs.build().unwrap();
            let (trimmed, is_directory) = (path.trim_end_matches('/'), path.ends_with('/'));
            prop_assert_eq!(
                excludes(&Matcher::new(&ours, [Path::new("/")]), &path),
                theirs.matched(trimmed, is_directory).is_ignore()
            );
        }
    }
}
