//! The list of the commands of a job that have ended with success: a file with a line for each.

use super::binary;
use crate::harness::write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The list.
pub(super) struct Done(PathBuf);

impl Done {
    pub(super) fn at(path: PathBuf) -> Done {
        Done(path)
    }

    /// A shell that runs a command for each word, and adds a line for each that succeeds. The command finds them in
    /// `$word`, the program in `$pleach`, and paths in further variables.
    pub(super) fn shell(&self, words: &[&str], command: &str, paths: &[(&str, &Path)]) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!(r#"for word in $words; do {command} || exit; echo "$word" >> "$list"; done"#)]);
        shell.env("words", words.join(" ")).env("list", &self.0).env("pleach", binary()).stdin(Stdio::null());
        shell.envs(paths.iter().copied());
        shell
    }

    /// Empties the list.
    pub(super) fn begin(&self) {
        write(&self.0, b"");
    }

    /// The number of lines.
    pub(super) fn count(&self) -> usize {
        fs::read_to_string(&self.0).expect("the list can be read").lines().count()
    }
}
