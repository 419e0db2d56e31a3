//! Text in XML.

use crate::util::text::{escape_char, is_unprintable};

/// Escapes text for character data or an attribute. Markup is escaped. Characters that XML forbids, or that display as
/// something else, are written as in C. Line feeds stay.
pub(in crate::program::output) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            '\u{fffe}' | '\u{ffff}' => out.push_str(&escape_char(c)),
            c if is_unprintable(c) => out.push_str(&escape_char(c)),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_text() {
        assert_eq!(escape("a<b>&\"'\x1b\u{ffff}\u{202e}ä"), "a&lt;b&gt;&amp;&quot;&#39;\\x1b\\u{ffff}\\u{202e}ä");
    }
}
