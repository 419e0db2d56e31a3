//! `cargo xtask bench`: builds the package `pleach-bench` and replaces this process by it.
//!
//! It measures nothing and knows no options: all options are those of the bench.

use crate::command::{cargo, run, target_dir};
use anyhow::{Context, Result};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The options of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct Options {
    /// What the bench is given: see `cargo xtask bench --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Runs the chore. Returns only if the bench cannot be started.
pub(crate) fn bench(options: &Options) -> Result<ExitCode> {
    // A report measures nothing, and needs no release build.
    let is_report = options.args.first().is_some_and(|arg| arg == "report");
    let (packages, profile): (&[_], _) = match is_report {
        true => (&["--package", "pleach-bench"], "debug"),
        // Both are built together, so that they get the same features of shared dependencies, and none is built twice.
        false => (
            &["--release", "--package", "pleach", "--package", "pleach-bench", "--features", "pleach/offsite"],
            "release",
        ),
    };
    run(cargo().args(["build", "--quiet"]).args(packages))?;
    let mut bench = Command::new(target_dir().join(profile).join("pleach-bench"));
    Err(bench.args(&options.args).exec()).context("cannot run the bench")
}
