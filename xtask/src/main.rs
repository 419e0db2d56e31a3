//! The project's own chores: `cargo xtask test | torture | coverage | mutants | fuzz | xfstests | tidy | demo |
//! pictures | package | dist | bench`.
//!
//! This file has the command line; each chore is a separate file, and `bench` a separate package (`xtask/bench`). All
//! filesystems are mounted in namespaces that end with the run (`namespace`), from images under `target/xtask`
//! (`image`).

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person who runs it")]

mod bench;
mod coverage;
mod demo;
mod dist;
mod failures;
mod fuzz;
mod mutants;
mod package;
mod pictures;
mod test;
mod tidy;
mod torture;
mod xfstests;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::{command, image, markdown, namespace, noise, packages, rundir, space, toolchain, vendor, wheels};

/// The chores of pleach's developers.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run every test, on fresh XFS, Btrfs and ext4 filesystems, and check these afterwards
    Test(test::Options),
    /// Run the tests with random choices at a large scale, until the time is over
    Torture(torture::Options),
    /// Count the lines of the program that the tests run
    Coverage(coverage::Options),
    /// Change the code that decides, and name the changes that no test notices
    Mutants(mutants::Options),
    /// Give random input to everything that parses, until something panics or the time is over
    Fuzz(fuzz::Options),
    /// Run the cases of xfstests that deduplicate, with pleach in the place of duperemove, on XFS and Btrfs
    Xfstests(xfstests::Options),
    /// Check layers, names, documents, prose and dependencies
    Tidy(tidy::Options),
    /// Show the main job on a fresh XFS: two snapshots with a day's work between them, and what they share
    Demo,
    /// Draw the pictures of the documents again, from runs of the program (as root)
    Pictures,
    /// Make the package for crates.io, and install the program from it
    Package,
    /// Make the packages of a release, and try them in a fresh system
    Dist(dist::Options),
    /// Measure pleach against other tools
    #[command(disable_help_flag = true)]
    Bench(bench::Options),
}

fn main() -> ExitCode {
    match run(Cli::parse().chore) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<ExitCode> {
    match chore {
        Chore::Test(options) => test::run(&options),
        Chore::Torture(options) => torture::run(&options),
        Chore::Coverage(options) => coverage::run(&options),
        Chore::Mutants(options) => mutants::run(&options),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Xfstests(options) => xfstests::run(&options),
        Chore::Tidy(options) => tidy::run(&options),
        Chore::Demo => demo::run_demo(),
        Chore::Pictures => pictures::run_pictures(),
        Chore::Package => package::run_package(),
        Chore::Dist(options) => dist::run_dist(&options),
        Chore::Bench(options) => bench::bench(&options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::documents;

    #[test]
    fn each_chore_in_the_documents_parses() {
        let lines = documents::lines(&documents::read().unwrap(), &["cargo", "xtask"]);
        assert!(lines.len() > 40, "{} lines", lines.len());
        // A text may name the program alone.
        let mistakes = lines.iter().filter(|line| !line.words.is_empty()).filter_map(|line| {
            let words = std::iter::once("cargo xtask").chain(line.words.iter().map(String::as_str));
            let error = Cli::try_parse_from(words).err()?;
            Some(format!("{}: {error}", line.place))
        });
        assert_eq!(mistakes.collect::<Vec<_>>(), [""; 0]);
    }
}
