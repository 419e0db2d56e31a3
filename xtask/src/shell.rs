//! Splits a text for a shell into commands and words: quotes, comments, pipes and redirections, as documents have them.
//!
//! Nothing is expanded, and nothing is an error.

/// A simple command.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The line of its first word, counted from 0.
    pub line: usize,
    /// Its words without quotes. Redirections are not among them.
    pub words: Vec<String>,
}

/// The commands of a text.
pub fn commands(text: &str) -> Vec<Command> {
    let mut splitter = Splitter::default();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        rest = splitter.read(character, rest);
    }
    splitter.end_command();
    splitter.commands
}

#[derive(Default)]
struct Splitter {
    commands: Vec<Command>,
    command: Command,
    word: Option<String>,
    /// Whether the next word is the file of a redirection.
    is_redirection: bool,
    line: usize,
}

impl Splitter {
    /// Reads a character and perhaps some of the rest. Returns the rest after that.
    fn read<'a>(&mut self, character: char, rest: &'a str) -> &'a str {
        // An apostrophe within a word is one.
        let may_quote = self.word.as_deref().is_none_or(|word| word.ends_with('='));
        match character {
            '\'' | '"' if may_quote => return self.quoted(character, rest),
            '\\' => return self.escaped(rest),
            '#' if self.word.is_none() => return rest.find('\n').map_or("", |end| &rest[end..]),
            '<' if placeholder(rest).is_some() => {
                let name = placeholder(rest).unwrap_or_default();
                self.push("<");
                self.push(name);
                return &rest[name.len()..];
            }
            '<' | '>' => {
                self.end_word();
                self.is_redirection = true;
            }
            '&' if self.is_redirection && self.word.is_none() => self.push("&"),
            // `A|B` without blanks are alternatives.
            '|' if self.word.is_some() && !rest.starts_with(['|', ' ', '\n']) => self.push("|"),
            '|' | ';' | '&' | '(' | ')' => self.end_command(),
            '\n' => {
                self.end_command();
                self.line += 1;
            }
            _ if character.is_whitespace() => self.end_word(),
            _ => self.push(character.encode_utf8(&mut [0; 4])),
        }
        rest
    }

    /// Reads up to the closing quote.
    fn quoted<'a>(&mut self, quote: char, mut rest: &'a str) -> &'a str {
        self.push("");
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            match character {
                _ if character == quote => break,
                '\\' if quote == '"' => rest = self.escaped(rest),
                _ => {
                    self.line += usize::from(character == '\n');
                    self.push(character.encode_utf8(&mut [0; 4]));
                }
            }
        }
        rest
    }

    /// Reads the character behind a backslash. A line that ends with one continues.
    fn escaped<'a>(&mut self, rest: &'a str) -> &'a str {
        let Some(character) = rest.chars().next() else { return rest };
        match character {
            '\n' => self.line += 1,
            _ => self.push(character.encode_utf8(&mut [0; 4])),
        }
        &rest[character.len_utf8()..]
    }

    fn push(&mut self, text: &str) {
        if self.word.is_none() && self.command.words.is_empty() {
            self.command.line = self.line;
        }
        self.word.get_or_insert_default().push_str(text);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.is_redirection) {
            self.command.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.is_redirection = false;
        let command = std::mem::take(&mut self.command);
        if !command.words.is_empty() {
            self.commands.push(command);
        }
    }
}

/// The rest of a placeholder such as `<NAME>`, behind its first character.
fn placeholder(rest: &str) -> Option<&str> {
    let end = rest.find('>')?;
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '-');
    is_name(&rest[..end]).then(|| &rest[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        commands(text).into_iter().map(|command| command.words).collect()
    }

    #[test]
    fn pipes_lines_and_comments_end_a_command() {
        assert_eq!(words("a b | c&&d; e # f\n\n(g)"), [vec!["a", "b"], vec!["c"], vec!["d"], vec!["e"], vec!["g"]]);
        assert_eq!(words("a X|Y b#c"), [["a", "X|Y", "b#c"]]);
    }

    #[test]
    fn quotes_and_backslashes_make_one_word() {
        assert_eq!(words(r#"a 'b c' --d="e \" f" g\ h don't i"#), [["a", "b c", "--d=e \" f", "g h", "don't", "i"]]);
        assert_eq!(words("a '' \\\n b"), [["a", "", "b"]]);
    }

    #[test]
    fn redirections_are_dropped_and_placeholders_kept() {
        assert_eq!(words("a > b 2>&1 < c --d <DIR> e"), [["a", "2", "--d", "<DIR>", "e"]]);
    }

    #[test]
    fn commands_know_their_lines() {
        let found = commands("a\n\nsh -c '\n  b' c\nd \\\n  e\nf");
        assert_eq!(found.iter().map(|command| command.line).collect::<Vec<_>>(), [0, 2, 4, 6]);
    }
}
