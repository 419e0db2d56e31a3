//! `cargo xtask mutants`: whether the tests notice small faults in the code that decides, by cargo-mutants.
//!
//! cargo-mutants changes one expression or function after another in a copy of the sources, and runs the tests. A
//! change that no test notices is a missed one. `.cargo/mutants.toml` lists those that make no difference, with the
//! reason.

use crate::command::{self, program};
use crate::image::Kind;
use crate::packages::Crate;
use crate::test::{self, Outcome, Variables};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

/// The options of `cargo xtask mutants`.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these subjects: retention, detection, planner, accounting
    subjects: Vec<String>,
}

const TOOL: Crate = Crate { name: "cargo-mutants", version: "27.1.0", debug: true };

/// A part of the program, and the tests that must notice its faults.
struct Subject {
    name: &'static str,
    files: &'static [&'static str],
    /// Parts of the names of unit tests.
    units: &'static [&'static str],
    /// Parts of the names of tests on filesystems.
    tests: &'static [&'static str],
}

const SUBJECTS: &[Subject] = &[
    Subject {
        name: "retention",
        files: &[
            "src/snapshot/prune/policy.rs",
            "src/snapshot/prune/calendar.rs",
            "src/snapshot/prune/enough.rs",
            "src/snapshot/prune/until.rs",
        ],
        units: &["prune::"],
        tests: &["prune::"],
    },
    Subject {
        name: "detection",
        files: &[
            "src/tree/changed.rs",
            "src/snapshot/create/decide.rs",
            "src/snapshot/create/timestamp.rs",
            "src/snapshot/create/ways.rs",
        ],
        units: &["changed::", "create::"],
        tests: &["changed::", "unnoticed_changes::", "narrow"],
    },
    Subject {
        name: "planner",
        files: &["src/dedupe/planned.rs", "src/dedupe/predict.rs", "src/dedupe/windows.rs"],
        units: &["dedupe::"],
        tests: &["dedupe", "ranges::"],
    },
    Subject {
        name: "accounting",
        files: &["src/dedupe/account.rs", "src/usage/freed.rs", "src/usage/references.rs", "src/usage/runs.rs"],
        units: &["account::", "usage::"],
        tests: &["dedupe_accounting::", "usage::", "du::", "account::"],
    },
];

/// A run of tests on each change.
struct Pass {
    /// For Cargo.
    target: &'static str,
    /// With the unit tests, and without the command line, which makes the build shorter.
    is_library: bool,
    /// The seconds after which it counts as hanging because of the change.
    timeout: &'static str,
}

/// Tests that need tools of their own, and take long.
const SKIPPED: &[&str] = &["power_cut::", "kills::"];

/// The unit tests are built faster, and notice most changes. The tests on filesystems look at the rest.
const PASSES: &[Pass] = &[
    Pass { target: "--lib", is_library: true, timeout: "100" },
    Pass { target: "--test=main", is_library: false, timeout: "300" },
];

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let known: Vec<_> = SUBJECTS.iter().map(|subject| subject.name).collect();
    if let Some(other) = options.subjects.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no subject {other}; choose from {}", known.join(", "));
    }
    let is_chosen =
        |subject: &&Subject| options.subjects.is_empty() || options.subjects.iter().any(|name| name == subject.name);
    // cargo-mutants builds the tests.
    test::enter(
        || None,
        |dir| {
            let tool = TOOL.install()?;
            let kinds = [Kind::Xfs, Kind::Btrfs];
            let outcome = test::with_filesystems(dir, &kinds, |variables| {
                let chosen = SUBJECTS.iter().filter(is_chosen);
                let outcomes = chosen.map(|subject| mutate(&tool, dir, subject, variables));
                outcomes.reduce(|all, next| Ok(all?.and(next?))).context("there is no subject")?
            })?;
            Ok(outcome.close())
        },
        |_, reason| bail!("filesystems cannot be mounted here: {reason}"),
    )
}

/// Changes the files of a subject, and prints what no test noticed.
fn mutate(tool: &Path, dir: &Path, subject: &Subject, variables: &Variables) -> Result<Outcome> {
    let Subject { name, files, units, tests } = subject;
    let result = dir.join(format!("mutants-{name}"));
    let lines = |list: &str| {
        let text = fs::read_to_string(result.join("mutants.out").join(list)).unwrap_or_default();
        text.lines().map(String::from).collect::<Vec<_>>()
    };
    let mut caught = 0;
    for Pass { target, is_library, timeout } in PASSES {
        let mut mutants = program(tool);
        // A later pass skips what an earlier one caught.
        mutants.args(["mutants", "--iterate", "--no-shuffle", "--colors", "never", "--timeout", timeout]);
        mutants.arg("--output").arg(&result).args(files.iter().flat_map(|file| ["--file", *file]));
        // Unlike those at the end, these arguments count for the build too.
        mutants.arg(format!("--cargo-arg={target}"));
        mutants.args(["--package", "pleach"]);
        if *is_library {
            // Each process has a copy of the sources, and builds there.
            let cores = thread::available_parallelism().map_or(1, usize::from);
            mutants.args(["--no-default-features", "--jobs"]).arg(cores.to_string());
        } else {
            // Tests of two processes would use the same filesystems.
            mutants.env("CARGO_TARGET_DIR", command::target_dir().join("mutants"));
        }
        mutants.args(["--", "--"]).args(SKIPPED.iter().map(|name| format!("--skip={name}")));
        mutants.args(if *is_library { *units } else { *tests });
        mutants.envs(variables.iter().cloned());
        // Links faster.
        mutants.env("CARGO_PROFILE_DEV_DEBUG", "none");
        let status = mutants.current_dir(command::root()).status().context("cannot run cargo-mutants")?;
        // 2: some were missed. 3: some did not end in time.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            bail!("cargo-mutants ended with {status}: its messages are in {}", result.display());
        }
        caught += lines("caught.txt").len();
    }
    // A user would notice that a command does not end.
    caught += lines("timeout.txt").len();
    if caught == 0 {
        bail!("nothing was changed: the messages of cargo-mutants are in {}", result.display());
    }
    let missed = lines("missed.txt");
    for mutant in &missed {
        println!("no test notices {mutant}");
    }
    println!("{name}: the tests notice {caught} changes, and miss {}", missed.len());
    Ok(Outcome::of(caught, missed.len()))
}
