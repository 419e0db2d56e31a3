//! The text differences of files, by the program `diff`.
//!
//! The program gets the files as open descriptors of this process, so no name is taken for an option, and no path is
//! resolved again.

use crate::error::{Error, Result};
use crate::monitor::{Change, Monitor};
use crate::program::output::Output;
use crate::program::output::terminal::without_controls;
use crate::snapshot::diff::Difference;
use crate::util::text;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A file with a NUL byte among this many first bytes is binary, as for git.
const LOOKED_AT: usize = 8000;

/// Shows the differences of files.
pub(super) struct Patcher<'a> {
    output: &'a Output,
    errors: u64,
}

impl<'a> Patcher<'a> {
    pub(super) fn new(output: &'a Output) -> Self {
        Patcher { output, errors: 0 }
    }

    /// How many files could not be compared.
    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// Shows how the content of a file differs. A file that cannot be read is reported.
    ///
    /// # Errors
    /// If the program cannot run.
    pub(super) fn show(&mut self, difference: &Difference<'_>, monitor: &dyn Monitor) -> Result<()> {
        if matches!(difference.change, Change::Metadata | Change::Renamed | Change::Unreadable) {
            return Ok(());
        }
        let files = difference.open_old().and_then(|old| Ok((old, difference.open_new()?)));
        let shown = files.and_then(|(old, new)| match (old, new) {
            (None, None) => Ok(()),
            (old, new) => self.compare(difference, old, new),
        });
        match shown {
            Err(error) if error.code() == MISSING => Err(error),
            Err(error) => {
                self.errors += 1;
                monitor.problem(&error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn compare(&self, difference: &Difference<'_>, old: Option<File>, new: Option<File>) -> Result<()> {
        let (old_name, new_name) = difference.snapshots();
        let label = |name: &str, path: &Path, file: &Option<File>| match file {
            Some(_) => label(&Path::new(name).join(path.strip_prefix("/").unwrap_or(path))),
            None => "/dev/null".to_string(),
        };
        let labels =
            [label(old_name, difference.from.unwrap_or(difference.path), &old), label(new_name, difference.path, &new)];
        let failed = |cause: io::Error| Error::io("compare", difference.path, cause);
        if is_binary(old.as_ref()).map_err(failed)? || is_binary(new.as_ref()).map_err(failed)? {
            let [old, new] = labels.each_ref().map(|label| label.trim_end());
            self.output.line(&format!("Binary files {old} and {new} differ"));
            return Ok(());
        }
        let mut command = Command::new("diff");
        // The word "Binary" in its output is not translated.
        command.arg("-u").env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped());
        for label in &labels {
            command.arg("-L").arg(label);
        }
        for file in [&old, &new] {
            command.arg(match file {
                Some(file) => format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()),
                None => "/dev/null".to_string(),
            });
        }
        let mut child = command.spawn().map_err(|cause| {
            let error = Error::io("run", "diff", cause).with_code(MISSING);
            error.hint("--patch needs the program diff, of the package diffutils")
        })?;
        let mut is_from_binary = false;
        if let Some(mut stdout) = child.stdout.take() {
            let mut buffer = vec![0; 64 << 10];
            let mut is_first = true;
            let mut cut = 0;
            while let length @ 1.. = stdout.read(&mut buffer[cut..]).map_err(failed)? {
                let length = cut + length;
                let part = &buffer[..length];
                is_from_binary |= is_first && part.starts_with(b"Binary files ");
                is_first = false;
                // On a terminal, a character that is cut at the end waits for its rest.
                cut = if self.output.is_terminal() { cut_character(part) } else { 0 };
                match self.output.is_terminal() {
                    true => self.output.text(&without_controls(&part[..length - cut])),
                    false => self.output.text(part),
                }
                buffer.copy_within(length - cut..length, 0);
                if self.output.is_cancelled() {
                    // Nobody reads the rest. If it has ended already, there is nothing to stop.
                    let _ = child.kill();
                    break;
                }
            }
            self.output.text(&without_controls(&buffer[..cut]));
        }
        let ended = child.wait().map_err(failed)?;
        match ended.code() {
            Some(0 | 1) => Ok(()),
            Some(2) if is_from_binary => Ok(()),
            _ if self.output.is_cancelled() => Ok(()),
            _ => {
                let error = Error::failed("compare").at(difference.path);
                Err(error.hint(format!("diff ended with {}", ended.to_string().replace("exit status:", "status"))))
            }
        }
    }
}

/// The code of the error that the program is missing.
const MISSING: &str = "command-not-found";

/// A label that the program patch reads as this path: the path itself, or, with characters that could end the label or
/// affect a terminal, a string in quotes as in C. A path with a space needs a tab behind it; one that ends with a space
/// needs quotes, because patch cuts blanks before a tab.
fn label(path: &Path) -> String {
    let is_plain = |c: char| !text::is_unprintable(c) && !matches!(c, '"' | '\\');
    if let Some(plain) = path.to_str().filter(|plain| !plain.ends_with(' ') && plain.chars().all(is_plain)) {
        return if plain.contains(' ') { format!("{plain}\t") } else { plain.to_string() };
    }
    let mut quoted = String::from('"');
    let octal = |quoted: &mut String, bytes: &[u8]| bytes.iter().for_each(|byte| *quoted += &format!("\\{byte:03o}"));
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                '\n' => quoted += "\\n",
                '\t' => quoted += "\\t",
                c if text::is_unprintable(c) => octal(&mut quoted, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => quoted.push(c),
            }
        }
        octal(&mut quoted, chunk.invalid());
    }
    quoted + "\""
}

/// How many bytes at the end are the beginning of a character in UTF-8.
fn cut_character(part: &[u8]) -> usize {
    let last = part.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    // Only an incomplete character can become one with more bytes.
    let is_incomplete = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    if is_incomplete { last.len() } else { 0 }
}

fn is_binary(file: Option<&File>) -> io::Result<bool> {
    let Some(file) = file else { return Ok(false) };
    let mut buffer = [0; LOOKED_AT];
    let mut length = 0;
    while let more @ 1.. = file.read_at(&mut buffer[length..], length as u64)? {
        length += more;
    }
    Ok(buffer[..length].contains(&0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_quoted_as_patch_reads_it() {
        let label = |bytes: &[u8]| label(Path::new(std::ffi::OsStr::from_bytes(bytes)));
        assert_eq!(label("s1/ä b".as_bytes()), "s1/ä b\t");
        assert_eq!(label(b"a\nb\tc\"d\\e\x1b\xff"), r#""a\nb\tc\"d\\e\033\377""#);
        assert_eq!((&*label(b"a/end "), &*label(b"a/ /b")), ("\"a/end \"", "a/ /b\t"));
        assert_eq!(label("\u{202e}".as_bytes()), r#""\342\200\256""#);
    }

    #[test]
    fn a_character_that_is_cut_waits_for_its_rest() {
        let euro = "€".as_bytes();
        for (part, cut) in [(&b"abc"[..], 0), (euro, 0), (&euro[..1], 1), (&euro[..2], 2), (b"a\xff", 0), (b"", 0)] {
            assert_eq!(cut_character(part), cut, "{part:?}");
        }
        assert_eq!(cut_character(&[b"a", &euro[..2]].concat()), 2);
        assert_eq!(cut_character(&[&euro[..2], b"a"].concat()), 0);
    }
}
