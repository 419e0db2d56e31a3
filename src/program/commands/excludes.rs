//! The entries to exclude, from the command line. All patterns are read and parsed before any work begins.

use crate::error::Result;
use crate::program::cli;
use crate::tree::exclude::{self, Line, Options, Patterns};

/// # Errors
/// If a pattern is invalid, or a file of patterns cannot be read.
pub(super) fn options(args: &cli::Excludes) -> Result<Options> {
    let mut lines = Vec::new();
    for file in &args.files {
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
