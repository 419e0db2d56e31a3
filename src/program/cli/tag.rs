//! The arguments of `pleach tag`, `pleach pin` and `pleach unpin`.

use super::repo_first::with_repo_before_ids;
use super::values;
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach tag /backup latest +before-upgrade      add a tag
  pleach tag /backup monday +keep -hourly        add one and remove another
  pleach tag /backup latest                      list its tags
  pleach tag /backup latest -- -v                remove the tag 'v': behind '--' no word is an option

ID is a snapshot's name, an unambiguous beginning of one, 'latest', or 'latest:/home'.";

pub(super) const PIN_EXAMPLES: &str = "\
Examples:
  pleach pin /backup 2026-11-20T020000Z

Neither 'pleach prune' nor 'pleach remove' deletes a pinned snapshot. 'pleach unpin' allows it again.";

#[derive(Args, Debug)]
pub(crate) struct Tag {
    /// The repository, the snapshot, and changes: +TAG adds, -TAG removes
    ///
    /// Without a repository, $PLEACH_REPO: then the first word is a repository only if it contains a slash.
    #[arg(value_name = "REPO ID [+TAG|-TAG]", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    words: Vec<OsString>,
    #[arg(skip)]
    pub(crate) add: Vec<String>,
    #[arg(skip)]
    pub(crate) remove: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Pin {
    /// The repository, then the snapshot
    ///
    /// Without a repository, $PLEACH_REPO: then the first word is a repository only if it contains a slash.
    #[arg(value_name = "REPO ID", required = true, num_args = 1..=2, value_hint = clap::ValueHint::AnyPath)]
    words: Vec<OsString>,
}

impl Tag {
    /// Settles which word is the repository, and which are changes.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        let words = with_repo_before_ids(std::mem::take(&mut self.words), environment, 1)?;
        for word in words.iter().skip(2) {
            let word = word.to_str().ok_or("tags are UTF-8")?;
            let change = word.strip_prefix('+').map(|tag| (tag, &mut self.add));
            let change = change.or_else(|| word.strip_prefix('-').map(|tag| (tag, &mut self.remove)));
            match change {
                Some((tag, list)) => list.push(values::tag(tag)?),
                None => {
                    return Err(format!("write '+{0}' to add a tag, or '-{0}' to remove it", word.escape_debug()));
                }
            }
        }
        self.words = words;
        Ok(())
    }

    /// The repository and the snapshot.
    pub(crate) fn repo_and_id(&self) -> (&Path, &Path) {
        repo_and_id(&self.words)
    }
}

impl Pin {
    /// Settles which word is the repository.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        self.words = with_repo_before_ids(std::mem::take(&mut self.words), environment, 1)?;
        if self.words.len() > 2 { Err("name one snapshot".into()) } else { Ok(()) }
    }

    /// The repository and the snapshot.
    pub(crate) fn repo_and_id(&self) -> (&Path, &Path) {
        repo_and_id(&self.words)
    }
}

/// The arguments of a command line with tags to remove, as `-TAG`, at their end behind `--`, where they are not
/// options. Words that consist of the letters of short options are options.
pub(super) fn with_removals_last(args: &[OsString]) -> Vec<OsString> {
    let mut words = args.iter().skip(1);
    let command = loop {
        match words.next().and_then(|word| word.to_str()) {
            Some("-j" | "--threads" | "--progress" | "--color") => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            command => break command,
        }
    };
    if command != Some("tag") {
        return args.to_vec();
    }
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let is_last = |arg: &OsString| arg.to_str().is_some_and(is_removal);
    let (removals, others): (Vec<_>, Vec<_>) = args[..end].iter().cloned().partition(is_last);
    let literal = args.get(end + 1..).unwrap_or_default().iter().cloned();
    others.into_iter().chain(["--".into()]).chain(literal).chain(removals).collect()
}

fn is_removal(word: &str) -> bool {
    let Some(tag) = word.strip_prefix('-') else { return false };
    let after_flags = tag.trim_start_matches(['q', 'v', 'h']);
    let is_option = after_flags.strip_prefix('j').unwrap_or(after_flags).bytes().all(|byte| byte.is_ascii_digit());
    !tag.starts_with('-') && !tag.is_empty() && !is_option
}

fn repo_and_id(words: &[OsString]) -> (&Path, &Path) {
    match words {
        [repo, id, ..] => (Path::new(repo), Path::new(id)),
        // `settle` leaves at least two.
        _ => (Path::new(""), Path::new("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_tags_are_no_options_and_options_are_no_tags() {
        let last = |line: &str| {
            let args: Vec<_> = line.split(' ').map(OsString::from).collect();
            with_removals_last(&args).join(" ".as_ref()).into_string().unwrap()
        };
        assert_eq!(last("pleach -j 4 tag /r a -old --json +new -v"), "pleach -j 4 tag /r a --json +new -v -- -old");
        assert_eq!(last("pleach tag /r a -vj4 -j2 -job -- -v"), "pleach tag /r a -vj4 -j2 -- -v -job");
        assert_eq!(last("pleach list -x tag"), "pleach list -x tag");
    }
}
