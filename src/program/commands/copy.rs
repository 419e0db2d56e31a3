//! `pleach copy SOURCE... DEST`.

use super::outcome::{Ended, is_unread, status};
use crate::copy_tree::{self, Options, Placement, Stopped};
use crate::error::Result;
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, copy, progress};
use crate::tree::estimate::Scope;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

pub(crate) fn run(args: &cli::Copy, globals: &Globals, output: &Output) -> Result<Ended> {
    if args.dry_run {
        output.stop_if_unread();
    }
    let options = Options {
        engine: args.engine.engine(),
        into: match (&args.target_directory, args.no_target_directory) {
            (Some(_), _) => Placement::Directory,
            (None, true) => Placement::Name,
            (None, false) => Placement::AsItStands,
        },
        verify: args.verify,
        one_file_system: args.one_file_system,
        dry_run: args.dry_run,
        threads: globals.threads,
    };
    let (sources, destination) = args.sources_and_destination();
    let was_there = destination.is_dir();
    let scope = Scope { paths: sources, one_file_system: args.one_file_system, skip: None, counts: true };
    let copied = progress::watch_estimated(output, Some(scope), |monitor| {
        copy_tree::copy(sources, destination, &options, monitor)
    });
    let stats = match copied {
        Ok(stats) => stats,
        Err(Stopped { error, stats: Some(mut stats) }) if !is_unread(&error, output) => {
            // Why it ended.
            stats.errors += 1;
            let status = ExitStatus::of(&error);
            let how_to_continue = || how_to_continue(sources, destination, &options, was_there);
            copy::show_stopped(output, error, &stats, &options, how_to_continue);
            return Ok(Ended::Worked(status));
        }
        // Nobody reads the plan any more, or the copy had not begun.
        Err(stopped) => return Err(stopped.error),
    };
    copy::show(output, &stats, destination, &options);
    let status = match () {
        () if stats.damaged > 0 => ExitStatus::Damage,
        () if copy::has_failed(&stats) => ExitStatus::Failed,
        () => status(stats.errors),
    };
    Ok(Ended::Worked(status))
}

/// The command that continues a copy which ended early. If the destination was a new name for a directory, it exists
/// now, and the same arguments would copy into it. `None`: the same command continues.
fn how_to_continue(sources: &[PathBuf], destination: &Path, options: &Options, was_there: bool) -> Option<String> {
    let is_directory = matches!(sources, [source] if source.is_dir());
    let is_new_name = options.into == Placement::AsItStands && is_directory && !was_there && destination.is_dir();
    if !is_new_name {
        return None;
    }
    let mut args: Vec<OsString> = env::args_os().collect();
    let command = args.iter().skip(1).position(|arg| arg == "copy").map_or(1, |at| at + 2);
    args.insert(command.min(args.len()), "-T".into());
    let words: Vec<_> = args.iter().map(|arg| quoted(arg)).collect();
    Some(words.join(" "))
}

/// Quotes a word for a shell; unprintable characters are escaped as in bash.
fn quoted(word: &OsStr) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./=:,+@%".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return word.to_string_lossy().into_owned();
    }
    match word.to_str() {
        Some(text) if !text.chars().any(crate::util::text::is_unprintable) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => {
            let mut quoted = String::from("$'");
            for byte in bytes {
                match byte {
                    b'\'' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
                    0x20..0x7f => quoted.push(char::from(*byte)),
                    _ => {
                        let _ = write!(quoted, "\\x{byte:02x}");
                    }
                }
            }
            quoted + "'"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, expected) in [
            (&b"plain-1.txt"[..], "plain-1.txt"),
            (b"two words", "'two words'"),
            (b"it's", r"'it'\''s'"),
            (b"", "''"),
            (b"bell\x07'\xff", r"$'bell\x07\'\xff'"),
        ] {
            assert_eq!(quoted(OsStr::from_bytes(word)), expected);
        }
    }
}
