//! The entries to exclude, from the command line. All patterns are read and parsed before any work begins.

use crate::error::{Error, Result};
use crate::program::cli;
use crate::sys::standard_streams::stdin_was_closed;
use crate::tree::exclude::{self, Line, Options, Patterns};
use rustix::io::Errno;

/// # Errors
/// If a pattern is invalid, or a file of patterns cannot be read.
pub(super) fn options(args: &cli::Excludes) -> Result<Options> {
    let mut lines = Vec::new();
    for file in &args.files {
        if file.as_os_str() == "-" && stdin_was_closed() {
            return Err(Error::io("read the patterns in", file, Errno::BADF));
        }
        lines.extend(exclude::read(file)?);
    }
    lines.extend(args.patterns.iter().map(|text| Line::from(text.as_str())));
    Ok(Options {
        patterns: Patterns::new(lines)?,
        caches: args.caches,
        if_present: args.if_present.clone(),
        one_file_system: args.one_file_system,
        larger_than: args.larger_than,
        older_than: args.older_than,
    })
}
