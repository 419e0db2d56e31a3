//! The documents: each command line in them parses, and each option and path that they name exists. The examples of
//! the help and the commands of recordings parse too, and each picture is in a document.
//!
//! `xtask::documents` finds the command lines. The tests of `xtask` and of its benches do the same for the chores.

use crate::harness::tools;
use pleach::testing::command_line;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use xtask::documents::{self, Document, Line};
use xtask::{command, shell};

/// Names in capitals that are not a value of an option, and a value for each.
const PLACEHOLDERS: [(&str, &str); 2] = [("N", "1"), ("SHELL", "bash")];

/// The command of the completion scripts, which is not part of the command line.
const HIDDEN: &str = "__complete";

/// The options of other programs in the documents.
const OTHERS: [(&str, &[&str]); 11] = [
    ("b2", &["--bucket"]),
    ("btrfs", &["--simple"]),
    ("cargo", &["--features", "--release"]),
    ("cp", &["--reflink"]),
    ("duperemove", &["--dedupe-options"]),
    ("lvcreate", &["--permission", "--setactivationskip", "--size"]),
    ("rest-server", &["--append-only"]),
    ("restic", &["--prune", "--read-data", "--sparse"]),
    ("rsync", &["--inplace", "--link-dest", "--no-whole-file"]),
    ("tar", &["--one-file-system"]),
    ("unshare", &["--mount"]),
];

/// Directories at the top of the repository that the documents name.
const DIRECTORIES: [&str; 6] = ["src/", "tests/", "docs/", "xtask/", ".ci/", ".cargo/"];

fn read() -> Vec<Document> {
    let documents = documents::read().unwrap();
    assert!(documents.len() > 30, "{} documents", documents.len());
    documents
}

/// The mistake in the words behind `pleach`.
fn mistake(words: &[String], is_excerpt: bool) -> Option<String> {
    let value = |word: &String| {
        let known = PLACEHOLDERS.iter().find(|(name, _)| name == word);
        known.map_or_else(|| word.clone(), |(_, value)| (*value).to_owned())
    };
    let mistake = command_line::parse(words.iter().map(value)).err()?;
    (!is_excerpt || !mistake.is_incomplete).then_some(mistake.message)
}

#[test]
fn each_command_line_parses() {
    let lines = documents::lines(&read(), &["pleach"]);
    assert!(lines.len() > 250, "{} command lines", lines.len());
    let lines = lines.iter().filter(|line| line.words.first().is_none_or(|word| word != HIDDEN));
    let mistakes = lines.filter_map(|Line { place, words, is_excerpt }| {
        Some(format!("{place}: pleach {}: {}", words.join(" "), mistake(words, *is_excerpt)?))
    });
    assert_eq!(mistakes.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn each_option_in_backticks_exists() {
    let mut known = command_line::options();
    known.extend(chore_options());
    known.extend(OTHERS.iter().flat_map(|(_, options)| *options).map(ToString::to_string));
    let mut wrong = Vec::new();
    for Document { path, markdown } in read() {
        for (number, code) in &markdown.code {
            for shell::Command { words, .. } in shell::commands(code) {
                if let Some(problem) = wrong_option(&words, &known) {
                    wrong.push(format!("{path}:{number}: `{code}`: {problem}"));
                }
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// The problem with the long options in words that do not name pleach or a chore.
fn wrong_option(words: &[String], known: &BTreeSet<String>) -> Option<String> {
    let mut options = words.iter().filter_map(|word| long_option(word));
    let first = words[0].as_str();
    if words.iter().any(|word| word == "pleach" || word == "xtask") {
        return None;
    }
    if first.starts_with('-') {
        return options.find(|option| !known.contains(*option)).map(|option| format!("there is no {option}"));
    }
    if let Some((_, others)) = OTHERS.iter().find(|(name, _)| *name == first) {
        let unknown = options.find(|option| !others.contains(option))?;
        return Some(format!("{unknown} is not in the list of this test"));
    }
    options.next()?;
    // `restore --delete`, and `push --last N` for a verb of `offsite`.
    let aboves: [&[&str]; 2] = [&[], &["offsite"]];
    for above in aboves {
        if command_line::parse(above.iter().copied().chain([first, "--help"])).is_ok() {
            let words: Vec<_> = above.iter().map(ToString::to_string).chain(words.iter().cloned()).collect();
            return mistake(&words, true);
        }
    }
    Some(format!("{first} is not in the list of this test"))
}

/// The name of a long option, without its value.
fn long_option(word: &str) -> Option<&str> {
    let option = word.split('=').next()?;
    option.strip_prefix("--")?.starts_with(|c: char| c.is_ascii_lowercase()).then_some(option)
}

/// The long options of the chores and benches, from the attributes of their sources.
fn chore_options() -> BTreeSet<String> {
    let mut options = BTreeSet::new();
    for text in sources(&command::root().join("xtask")) {
        // Whether the name of the next field is the name of an option.
        let mut is_named = false;
        for line in text.lines().map(str::trim) {
            let field = line.strip_prefix("pub(crate) ").unwrap_or(line).split_once(':').map(|(name, _)| name);
            if let Some(attribute) = line.strip_prefix("#[arg(") {
                let given = attribute.split_once("long = \"").and_then(|(_, rest)| rest.split_once('"'));
                options.extend(given.map(|(name, _)| format!("--{name}")));
                is_named |= given.is_none() && attribute.split([',', ')']).any(|word| word.trim() == "long");
            } else if let Some(name) = field.filter(|_| is_named && line.starts_with(char::is_alphabetic)) {
                options.insert(format!("--{}", name.replace('_', "-")));
                is_named = false;
            }
        }
    }
    assert!(["--no-trial", "--fs", "--save", "--million"].iter().all(|known| options.contains(*known)), "{options:?}");
    options
}

/// The texts of the Rust files below a directory.
fn sources(dir: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(fs::read_to_string(&path).unwrap());
        }
    }
    texts
}

#[test]
fn each_path_in_the_repository_exists() {
    let mut missing = Vec::new();
    let mut paths = 0;
    for Document { path, markdown } in read() {
        let code = markdown.code.iter().map(|(line, text)| (*line, text.as_str()));
        let blocks = markdown.blocks.iter().map(|block| (block.line, block.text.as_str()));
        for (line, text) in code.chain(blocks) {
            for (below, words) in text.lines().map(str::split_whitespace).enumerate() {
                for word in words.filter(|word| is_of_repository(word)) {
                    paths += 1;
                    // `file.rs:12` names a line.
                    let name = word.split(':').next().unwrap_or(word);
                    if !command::root().join(name).exists() {
                        missing.push(format!("{path}:{}: {word}", line + below));
                    }
                }
            }
        }
    }
    assert!(paths > 150, "{paths} paths");
    assert_eq!(missing, [""; 0]);
}

/// Whether a word is a path from the root of the repository, and no pattern.
fn is_of_repository(word: &str) -> bool {
    DIRECTORIES.iter().any(|directory| word.starts_with(directory))
        && !word.contains(['*', '…', '['])
        && !word.contains("..")
}

/// The namespace of SVG.
const SVG: &str = "http://www.w3.org/2000/svg";
/// The directory of the pictures.
const PICTURES: &str = "docs/pictures";

/// Names and texts of the pictures.
fn pictures() -> Vec<(String, String)> {
    let entries = fs::read_dir(command::root().join(PICTURES)).unwrap().map(Result::unwrap);
    let pictures =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()));
    pictures.collect()
}

#[test]
fn each_picture_is_in_a_document() {
    let documents = read();
    for (name, _) in pictures() {
        let link = format!("pictures/{name}");
        let is_linked = |document: &Document| document.markdown.links.iter().any(|(_, to)| to.ends_with(&link));
        assert!(documents.iter().any(is_linked), "{PICTURES}/{name} is in no document");
    }
}

#[test]
fn each_picture_has_a_title_and_loads_nothing() {
    for (name, text) in pictures() {
        let picture = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let root = picture.root_element();
        let title = root.children().find(|child| child.has_tag_name((SVG, "title"))).and_then(|title| title.text());
        assert!(title.is_some_and(|title| !title.is_empty()) && root.attribute("role") == Some("img"), "{name}");
        assert!(text.len() <= 200_000, "{name}: {} bytes", text.len());
        let has_script = picture.descendants().any(|node| node.has_tag_name((SVG, "script")));
        assert!(!has_script && !text.replace(SVG, "").contains("http"), "{name}");
    }
}

#[test]
fn each_code_of_a_message_is_documented() {
    let known = fs::read_to_string(command::root().join("docs/messages.md")).unwrap();
    let mut codes = BTreeSet::new();
    for file in tools::files(&command::root().join("src")) {
        let text = fs::read_to_string(file).unwrap();
        let program = text.split("#[cfg(test)]").next().unwrap_or_default();
        let parts = program.split("with_code(\"").skip(1);
        codes.extend(parts.map(|part| part.split('"').next().unwrap_or_default().to_owned()));
    }
    assert!(codes.len() > 30, "{codes:?}");
    codes.retain(|code| !known.contains(&format!("`{code}`")));
    assert!(codes.is_empty(), "docs/messages.md lacks {codes:?}");
}

#[test]
fn each_recorded_command_line_parses() {
    let (mut lines, mut wrong) = (0, Vec::new());
    for (name, text) in pictures() {
        let picture = roxmltree::Document::parse(&text).unwrap();
        let commands = picture.descendants().filter(|node| node.attribute("class") == Some("command"));
        for command in commands.filter_map(|node| node.text()) {
            for (_, words) in documents::in_shell(command, &["pleach"]) {
                lines += 1;
                wrong.extend(mistake(&words, false).map(|mistake| format!("{name}: {command}: {mistake}")));
            }
        }
    }
    assert!(lines >= 7, "{lines} lines");
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn each_example_of_the_help_parses() {
    let (mut examples, mut wrong) = (0, Vec::new());
    for text in command_line::help_texts() {
        let (_, below) = text.split_once("Examples:\n").expect("the help of each command has examples");
        let lines: Vec<_> = below.lines().take_while(|line| !line.is_empty()).collect();
        // A long command continues below. Two blanks end it, and more of them begin a line with a comment.
        let joined = lines.join("\n").replace(" \\\n      ", " ");
        let commands = joined.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
        for example in commands.map(|line| line.split("  ").next().unwrap_or(line)) {
            let lines = documents::in_shell(example, &["pleach"]);
            assert!(!lines.is_empty(), "{example}");
            examples += 1;
            wrong.extend(lines.iter().filter_map(|(_, words)| Some(format!("{example}: {}", mistake(words, false)?))));
        }
    }
    assert!(examples > 80, "{examples} examples");
    assert_eq!(wrong, [""; 0]);
}
