//! Splits Rust source into code, comments and string literals, without parsing it.

/// A comment or a string literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `//!` and `///`.
    Doc,
    /// `//` and `/* */`.
    Comment,
    /// The inside of a string literal, escapes as written.
    Literal,
}

/// One of them, and the line it begins on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) kind: Kind,
    pub(crate) line: usize,
    pub(crate) text: &'a str,
}

/// The comments and strings of `source` in their order. Comment markers are not part of the text.
pub(crate) fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < source.len() {
        let (length, piece) = next(&source[at..]);
        if let Some((kind, text)) = piece {
            found.push(Piece { kind, line, text });
        }
        line += source[at..at + length].matches('\n').count();
        at += length;
    }
    found
}

/// `source` with spaces in place of its comments and strings.
pub(crate) fn code(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while !rest.is_empty() {
        let (length, piece) = next(rest);
        let (token, after) = rest.split_at(length);
        match piece {
            Some(_) => code.extend(token.chars().map(|c| if c == '\n' { c } else { ' ' })),
            None => code.push_str(token),
        }
        rest = after;
    }
    code
}

/// The length of the first token of `source`, and the text of a comment or string.
fn next(source: &str) -> (usize, Option<(Kind, &str)>) {
    if source.starts_with("//") {
        let end = source.find('\n').unwrap_or(source.len());
        return (end, Some(line_comment(&source[..end])));
    }
    if source.starts_with("/*") {
        let end = block_comment_end(source);
        return (end, Some((Kind::Comment, source[2..end].trim_end_matches("*/"))));
    }
    let first = source.chars().next().unwrap_or_default();
    if first == '"' {
        return string(source, 0);
    }
    if first == '\'' {
        return (character_end(source), None);
    }
    if first.is_alphanumeric() || first == '_' {
        let end = source.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(source.len());
        return match (&source[..end], source[end..].chars().next()) {
            ("r" | "br" | "cr", Some('"' | '#')) => raw_string(source, end),
            ("b" | "c", Some('"')) => string(source, end),
            _ => (end, None),
        };
    }
    (first.len_utf8(), None)
}

fn line_comment(comment: &str) -> (Kind, &str) {
    let is_doc = comment.starts_with("//!") || (comment.starts_with("///") && !comment.starts_with("////"));
    if is_doc { (Kind::Doc, &comment[3..]) } else { (Kind::Comment, comment.trim_start_matches('/')) }
}

fn block_comment_end(source: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < source.len() {
        let rest = &source.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    source.len()
}

/// A string literal with its opening quote at `quote`.
fn string(source: &str, quote: usize) -> (usize, Option<(Kind, &str)>) {
    let mut escaped = false;
    for (at, byte) in source.bytes().enumerate().skip(quote + 1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return (at + 1, Some((Kind::Literal, &source[quote + 1..at]))),
            _ => {}
        }
    }
    (source.len(), Some((Kind::Literal, &source[quote + 1..])))
}

/// A raw string with its hashes at `hashes`, or a raw identifier.
fn raw_string(source: &str, hashes: usize) -> (usize, Option<(Kind, &str)>) {
    let count = source[hashes..].bytes().take_while(|byte| *byte == b'#').count();
    let start = hashes + count + 1;
    if source.as_bytes().get(start - 1) != Some(&b'"') {
        return (start - 1, None);
    }
    let closing = format!("\"{}", "#".repeat(count));
    match source[start..].find(&closing) {
        Some(length) => (start + length + closing.len(), Some((Kind::Literal, &source[start..start + length]))),
        None => (source.len(), Some((Kind::Literal, &source[start..]))),
    }
}

/// Where a character literal ends; the quote alone for a lifetime.
fn character_end(source: &str) -> usize {
    let mut chars = source.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            let closing = chars.skip(1).find(|(_, c)| *c == '\'');
            closing.map_or(source.len(), |(at, _)| at + 1)
        }
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<(Kind, usize, &str)> {
        pieces(source).into_iter().map(|piece| (piece.kind, piece.line, piece.text)).collect()
    }

    #[test]
    fn comments_and_strings_are_kept_apart() {
        let source = "//! Head\nlet a = \"x \\\" // y\"; // why\n/* a\n/* b */ */ r#\"raw \"q\" \"#";
        let expected = [
            (Kind::Doc, 1, " Head"),
            (Kind::Literal, 2, "x \\\" // y"),
            (Kind::Comment, 2, " why"),
            (Kind::Comment, 3, " a\n/* b */ "),
            (Kind::Literal, 4, "raw \"q\" "),
        ];
        assert_eq!(texts(source), expected);
    }

    #[test]
    fn characters_and_lifetimes_do_not_begin_strings() {
        let source = "fn f<'a>(x: &'a str) { ('\"', '\\'', b'\"', '\\u{22}', r#type) } // end";
        assert_eq!(texts(source), [(Kind::Comment, 1, " end")]);
    }

    #[test]
    fn code_keeps_its_lines_and_loses_its_comments() {
        assert_eq!(code("a(\"b\nc\") // d\ne"), "a(  \n  )     \ne");
    }
}
