//! The man pages: one for each command, as the formatter of the system shows them.

use crate::harness::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The words that begin with `--`.
fn long_options(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| word.len() > 3 && word.starts_with("--")).map(String::from).collect()
}

/// The page as a terminal of 80 columns shows it.
fn formatted(page: &Path) -> String {
    let mut groff = Command::new("groff");
    groff.args(["-man", "-Kutf8", "-Tutf8", "-ww", "-rLL=80n", "-rHY=0", "-P-cbou"]).arg(page);
    let run = finish(&mut groff).expect(0);
    assert_eq!(run.stderr, "", "warnings about {}", page.display());
    run.stdout
}

/// The pages that a page refers to.
fn see_also(text: &str) -> Vec<String> {
    let section = text.lines().skip_while(|line| *line != "SEE ALSO").skip(1).take_while(|line| line.starts_with(' '));
    let words = section.flat_map(|line| line.split([' ', ','])).filter_map(|word| word.strip_suffix("(1)"));
    words.map(String::from).collect()
}

#[test]
fn each_command_has_a_page_with_its_options_and_examples() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("new/man1");
    pleach(["man".as_ref(), pages.as_os_str()]).expect(0).saying("man pages");
    let listed = formatted(&pages.join("pleach.1"));
    let mut commands = 0;
    for page in names(&pages) {
        let Some(command) = page.strip_prefix("pleach-").and_then(|name| name.strip_suffix(".1")) else { continue };
        commands += 1;
        let text = formatted(&pages.join(&page));
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "GLOBAL OPTIONS", "EXIT STATUS", "SEE ALSO"] {
            assert!(text.lines().any(|line| line == section), "{page} lacks {section}:\n{text}");
        }
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{page}: {wide:#?}");
        // A verb of `offsite` is a word of its own.
        let words = match command.strip_prefix("offsite-") {
            Some(verb) => vec!["offsite", verb, "--help"],
            None => vec![command, "--help"],
        };
        let help = pleach(words).expect(0).stdout;
        let missing: Vec<String> = long_options(&help).difference(&long_options(&text)).cloned().collect();
        assert!(missing.is_empty(), "{page} lacks {missing:?}");
        assert!(listed.contains(&format!("pleach-{command}(1)")) || command.contains("offsite-"), "{page}");
        assert!(!text.contains("--help prints more"), "{page}");
    }
    assert!(commands > 25, "{commands} pages");
    let version = listed.lines().skip_while(|line| !line.contains("--version")).nth(1);
    assert_eq!(version.map(str::trim), Some("Print the version"));
    let prune = formatted(&pages.join("pleach-prune.1"));
    assert!(prune.find("\nARGUMENTS") < prune.find("\nOPTIONS") && prune.contains("pleach-remove(1)"), "{prune}");
    let description = prune.lines().skip_while(|line| *line != "DESCRIPTION").nth(1).unwrap_or_default();
    assert!(!description.contains("Remove the snapshots that no rule keeps"), "{prune}");
    let related: BTreeSet<_> = names(&pages).iter().flat_map(|page| see_also(&formatted(&pages.join(page)))).collect();
    let missing: Vec<_> = related.iter().filter(|page| !pages.join(format!("{page}.1")).exists()).collect();
    assert!(missing.len() <= usize::from(!cfg!(feature = "offsite")), "there is no page {missing:?}");
}

#[test]
fn pages_of_an_earlier_version_are_replaced_and_other_files_stay() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("pleach.1"), "old").unwrap();
    fs::write(dir.path().join("other.1"), "other").unwrap();
    pleach(["man".as_ref(), "-q".as_ref(), dir.path().as_os_str()]).expect(0);
    assert!(fs::read_to_string(dir.path().join("pleach.1")).unwrap().contains(".SH NAME"));
    assert_eq!(fs::read_to_string(dir.path().join("other.1")).unwrap(), "other");
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let run = pleach(["man".as_ref(), file.join("man1").as_os_str()]).expect(1);
    assert!(run.stderr.contains("cannot create the directory") && run.stderr.contains("file/man1"), "{}", run.stderr);
}
