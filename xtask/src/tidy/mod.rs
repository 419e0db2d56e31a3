//! `cargo xtask tidy`: what rustfmt and clippy do not check, a file for each check.
//!
//! A check takes the files of the repository and returns findings; this file chooses the checks and prints.

mod circles;
mod deny;
mod documents;
mod files;
mod finding;
mod headers;
mod layers;
mod length;
mod library;
mod mentions;
mod module_tree;
mod msrv;
mod names;
mod pools;
mod resolve;
mod scan;
mod unsafe_code;
mod width;
mod word_list;
mod words;

use self::files::Files;
use self::finding::Finding;
pub(crate) use self::length::lines_before_tests;
use crate::command;
use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::io::Write;
use std::process::ExitCode;

/// The options of `cargo xtask tidy`.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only these checks
    #[arg(value_name = "CHECK", value_parser = PossibleValuesParser::new(CHECKS.iter().map(|(name, _)| name)))]
    checks: Vec<String>,
    /// Count the phrases of the word list in each part of the repository, and check nothing
    #[arg(long, conflicts_with = "checks")]
    words: bool,
    /// Skip the checks that take minutes on a fresh clone: deny, msrv
    #[arg(long, conflicts_with = "checks")]
    quick: bool,
}

type Check = fn(&Files) -> Result<Vec<Finding>>;

/// All checks, quick ones first.
const CHECKS: &[(&str, Check)] = &[
    ("headers", |files| Ok(headers::check(files))),
    ("length", |files| Ok(length::check(files))),
    ("width", |files| Ok(width::check(files))),
    ("names", |files| Ok(names::check(files))),
    ("unsafe", |files| Ok(unsafe_code::check(files))),
    ("pools", |files| Ok(pools::check(files))),
    ("words", |files| Ok(words::check(files))),
    ("documents", |files| Ok(documents::check(files))),
    ("layers", layers::check),
    ("circles", circles::check),
    ("deny", deny::check),
    ("library", library::check),
    ("msrv", msrv::check),
];

/// Those that take minutes on a fresh clone.
const SLOW: &[&str] = &["deny", "msrv"];

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let files = Files::read(command::root())?;
    let mut stdout = std::io::stdout();
    if options.words {
        writeln!(stdout, "{}", words::counts(&files))?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_chosen = |name: &str| match &options.checks[..] {
        [] => !options.quick || !SLOW.contains(&name),
        chosen => chosen.iter().any(|chosen| chosen == name),
    };
    let (mut checks, mut findings) = (0, 0);
    for (name, check) in CHECKS.iter().filter(|(name, _)| is_chosen(name)) {
        let found = check(&files).unwrap_or_else(|error| {
            vec![Finding::new("xtask/src/tidy", 1, format!("the check `{name}` could not run: {error:#}"))]
        });
        for finding in &found {
            writeln!(stdout, "{finding}")?;
        }
        checks += 1;
        findings += found.len();
    }
    writeln!(stdout, "tidy: {checks} checks, {findings} findings")?;
    Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
