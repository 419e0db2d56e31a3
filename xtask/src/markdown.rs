//! The parts of a Markdown text that the checks look at, with their lines. Rust's doc comments are Markdown too.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};

/// What a Markdown text holds.
#[derive(Debug, Default)]
pub struct Markdown {
    /// The names by which links reach its headings.
    pub anchors: BTreeSet<String>,
    /// The targets of links and pictures.
    pub links: Vec<(usize, String)>,
    /// The words in backticks.
    pub code: Vec<(usize, String)>,
    /// The blocks of code or output.
    pub blocks: Vec<Block>,
    /// Running text, a paragraph each, by line; backticks are empty.
    pub prose: Vec<Vec<(usize, String)>>,
    /// Lines of tables and of blocks of output, from the first to the one after the last.
    pub verbatim: Vec<(usize, usize)>,
}

/// A block of code or output.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its first line of text.
    pub line: usize,
    /// The language that its fence names, or nothing.
    pub language: String,
    /// Its text.
    pub text: String,
}

/// Languages of blocks that are output, not source; a block without one is output.
const OUTPUT: &[&str] = &["", "text", "console"];

/// Parses `text`.
pub fn parse(text: &str) -> Markdown {
    let starts: Vec<_> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let line_of = |at: usize| starts.partition_point(|start| *start <= at);
    let mut parsed = Markdown::default();
    let mut slugs = BTreeMap::new();
    let mut heading: Option<String> = None;
    let mut in_block = false;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let (line, end) = (line_of(range.start), line_of(range.end.saturating_sub(1)));
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                in_block = true;
                let language = match &kind {
                    CodeBlockKind::Fenced(language) => language.split([' ', ',']).next().unwrap_or_default(),
                    CodeBlockKind::Indented => "",
                };
                if OUTPUT.contains(&language) {
                    parsed.verbatim.push((line, end + 1));
                }
                // The text is below the fence.
                let first = line + usize::from(kind.is_fenced());
                parsed.blocks.push(Block { line: first, language: language.to_owned(), text: String::new() });
            }
            Event::End(TagEnd::CodeBlock) => in_block = false,
            Event::Start(Tag::Table(_)) => parsed.verbatim.push((line, end + 1)),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                parsed.links.push((line, dest_url.to_string()));
            }
            Event::Start(Tag::Heading { .. }) => {
                heading = Some(String::new());
                parsed.prose.push(Vec::new());
            }
            Event::End(TagEnd::Heading(_)) => {
                parsed.anchors.insert(slug(&heading.take().unwrap_or_default(), &mut slugs));
            }
            Event::Start(Tag::Paragraph | Tag::Item | Tag::TableCell) => parsed.prose.push(Vec::new()),
            Event::Code(code) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&code);
                }
                add_prose(&mut parsed.prose, line, "`");
                parsed.code.push((line, code.to_string()));
            }
            Event::Text(words) if in_block => {
                if let Some(block) = parsed.blocks.last_mut() {
                    block.text.push_str(&words);
                }
            }
            Event::Text(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
                add_prose(&mut parsed.prose, line, &words);
            }
            Event::Html(html) | Event::InlineHtml(html) => parsed.anchors.extend(html_anchor(&html)),
            _ => {}
        }
    }
    parsed
}

/// Adds text to the last paragraph.
fn add_prose(prose: &mut Vec<Vec<(usize, String)>>, line: usize, words: &str) {
    if prose.is_empty() {
        prose.push(Vec::new());
    }
    let Some(paragraph) = prose.last_mut() else { return };
    match paragraph.last_mut() {
        Some((last, text)) if *last == line => text.push_str(words),
        _ => paragraph.push((line, words.to_owned())),
    }
}

/// The anchor of a heading, as hosting sites make it.
fn slug(heading: &str, seen: &mut BTreeMap<String, usize>) -> String {
    let lower = heading.to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
    let count = seen.entry(slug.clone()).or_insert(0);
    *count += 1;
    if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
}

/// The name in `<a id="name">`.
fn html_anchor(html: &str) -> Option<String> {
    let after = html.split_once("id=\"").or_else(|| html.split_once("name=\""))?.1;
    Some(after.split_once('"')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_become_anchors() {
        let parsed = parse("# What `put` does, and *why*\n\n## Limits\n\n## Limits\n\n<a id=\"own\"></a>\n");
        assert_eq!(parsed.anchors.iter().collect::<Vec<_>>(), ["limits", "limits-1", "own", "what-put-does-and-why"]);
    }

    #[test]
    fn links_and_code_are_found_with_their_lines() {
        let parsed = parse("One\n[two](a.md#b) `src/c.rs`\n\n![p](d.svg)\n\n```\n[no](e.md) `f`\n```\n");
        assert_eq!(parsed.links, [(2, "a.md#b".to_owned()), (4, "d.svg".to_owned())]);
        assert_eq!(parsed.code, [(2, "src/c.rs".to_owned())]);
    }

    #[test]
    fn tables_and_output_are_verbatim_and_source_is_not() {
        let parsed = parse("x\n\n| a |\n|---|\n| b |\n\n```\nout\n```\n\n```rust\nfn f() {}\n```\n");
        assert_eq!(parsed.verbatim, [(3, 6), (7, 10)]);
        let block = |line, language: &str, text: &str| Block { line, language: language.into(), text: text.into() };
        assert_eq!(parsed.blocks, [block(8, "", "out\n"), block(12, "rust", "fn f() {}\n")]);
    }

    #[test]
    fn prose_is_split_into_paragraphs_and_lines() {
        let parsed = parse("One `x` two\nthree\n\n- four\n");
        let line = |line, text: &str| (line, text.to_owned());
        assert_eq!(parsed.prose[0], [line(1, "One ` two"), line(2, "three")]);
        assert_eq!(parsed.prose[1], [line(4, "four")]);
    }
}
