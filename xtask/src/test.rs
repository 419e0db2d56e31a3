//! `cargo xtask test`: runs all tests, on fresh XFS, Btrfs and ext4 filesystems, and checks these afterwards.
//!
//! Tests find the filesystems through environment variables (`tests/harness.rs` reads them), and report through a file
//! the tests that could not run.

use crate::command;
use crate::failures::Failures;
use crate::image::{self, Kind, Mounted};
use crate::namespace::{self, Rights};
use crate::packages;
use crate::rundir::RunDir;
use crate::wheels;
use anyhow::{Context, Result};
use clap::Args;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ExitCode, Stdio};

/// The options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only tests with one of these in their name
    filters: Vec<String>,
    /// Run the filesystem tests on these only
    #[arg(long = "fs", value_delimiter = ',', default_value = "xfs,btrfs,ext4")]
    kinds: Vec<Kind>,
    /// Skip the tests with random choices, which `torture` runs
    #[arg(long)]
    no_random: bool,
}

/// The tests with random choices, by parts of their names.
pub(crate) const RANDOM: &[&str] = &[
    "sequences::random",
    "kills::",
    "power_cut::",
    "random_changes",
    "random_edits",
    "replicate::mutated",
    "damage::",
    "ranges::random",
    "diff::random",
];

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let Options { filters, kinds, no_random } = options;
    let skipped = if *no_random { RANDOM } else { &[] };
    enter(
        build,
        |dir| {
            let tests = |variables: &Variables| cargo_test(dir, filters, skipped, kinds, variables);
            Ok(with_filesystems(dir, kinds, tests)?.close())
        },
        |dir, reason| {
            println!("no filesystems can be mounted ({reason}): their tests are skipped");
            let variables: Variables = vec![("PLEACH_TEST_NONE", reason.into())];
            Ok(cargo_test(dir, filters, skipped, kinds, &variables)?.close())
        },
    )
}

/// Begins to build the tests. Mistakes show again when they start.
pub(crate) fn build() -> Option<Child> {
    let mut cargo = command::cargo();
    cargo.args(TESTS).args(["--no-run", "--quiet"]).env("PATH", wheels::search_path()).spawn().ok()
}

/// Installs what the tests call, while a build runs that `begin` begins. Then runs `tests` in a namespace where
/// filesystems can be mounted, or `without`, with the reason, if they cannot.
pub(crate) fn enter(
    begin: impl FnOnce() -> Option<Child>,
    tests: impl FnOnce(&Path) -> Result<ExitCode>,
    without: impl FnOnce(&Path, &str) -> Result<ExitCode>,
) -> Result<ExitCode> {
    if let Some(dir) = namespace::inside()? {
        return tests(&dir);
    }
    let build = begin();
    // This waits for the network.
    let missing = packages::install(packages::MOUNTING.iter().chain(packages::TESTING));
    wheels::install();
    if let Some(mut build) = build {
        build.wait()?;
    }
    let missing = missing?;
    let obstacle = if missing.is_empty() {
        namespace::obstacle(Rights::Root)
    } else {
        Some(format!("not installed: {}", missing.join(", ")))
    };
    let dir = RunDir::create("test")?;
    match obstacle {
        None => namespace::enter(dir.path(), Rights::Root),
        Some(reason) => without(dir.path(), &reason),
    }
}

/// The arguments of Cargo for all tests, with the features of a release.
const TESTS: [&str; 4] = ["test", "--workspace", "--features", "pleach/offsite"];

/// The variable of the filesystem for sources on another filesystem than the tested one.
const ELSEWHERE: &str = "PLEACH_TEST_XFS_OTHER";

/// A filesystem for the tests: variable, file name, kind, size.
const FILESYSTEMS: &[(&str, &str, Kind, u64)] = &[
    ("PLEACH_TEST_XFS", "xfs", Kind::Xfs, 4096),
    // Another superblock, so that clones to or from the first filesystem fail.
    (ELSEWHERE, "xfs-other", Kind::Xfs, 1024),
    // The smallest that mkfs.xfs makes: tests fill it.
    ("PLEACH_TEST_XFS_SMALL", "xfs-small", Kind::Xfs, 300),
    ("PLEACH_TEST_BTRFS", "btrfs", Kind::Btrfs, 4096),
    ("PLEACH_TEST_EXT4", "ext4", Kind::Ext4, 2048),
];

/// Environment variables for the tests.
pub(crate) type Variables = Vec<(&'static str, OsString)>;

/// Makes the filesystems, runs `tests` with the variables that name them, and checks them.
pub(crate) fn with_filesystems(
    dir: &Path,
    kinds: &[Kind],
    tests: impl FnOnce(&Variables) -> Result<Outcome>,
) -> Result<Outcome> {
    let images = image::directory(dir)?;
    let mut mounted = Vec::new();
    for &(variable, name, kind, mebibytes) in FILESYSTEMS {
        if kinds.contains(&kind) || variable == ELSEWHERE {
            mounted.push((variable, name, Mounted::create_at(kind, &images, name, mebibytes, &dir.join(name))?));
        }
    }
    let mut variables: Variables = mounted.iter().map(|(variable, _, fs)| (*variable, fs.path().into())).collect();
    variables.push(("PLEACH_TEST_IMAGES", images.into()));
    let mut outcome = tests(&variables)?;
    for (_, name, fs) in mounted {
        match fs.check() {
            Ok(()) => println!("filesystem {name}: clean after the tests"),
            Err(error) => {
                println!("filesystem {name}: NOT clean after the tests: {error:#}");
                outcome.failed += 1;
            }
        }
    }
    Ok(outcome)
}

/// The result of the tests.
#[derive(Default)]
pub(crate) struct Outcome {
    passed: u64,
    failed: u64,
    /// Name and reason of each test that could not run, though Rust's runner counts it as passed.
    skipped: Vec<String>,
    /// What the failed tests said: Rust's runners print it far above their last lines.
    failures: Failures,
    /// The last line of each of Rust's runners.
    results: Vec<String>,
    /// What tests with random choices counted, by its name.
    pub(crate) counted: BTreeMap<String, u64>,
    /// The slowest tests on filesystems, with their seconds.
    slowest: Vec<String>,
    pub(crate) success: bool,
    filtered: bool,
}

/// Runs the tests with one of these words in their name, all if there are none, but not those with a skipped word.
pub(crate) fn cargo_test(
    dir: &Path,
    filters: &[String],
    skipped: &[&str],
    kinds: &[Kind],
    variables: &Variables,
) -> Result<Outcome> {
    let (skips, times) = (dir.join("skips"), dir.join("times"));
    // A job in the background of a shell ignores these signals, and so would pleach: a process inherits that.
    let mut cargo = command::program("env");
    cargo.arg("--default-signal=INT,QUIT").arg(command::cargo().get_program()).current_dir(command::root());
    cargo.args(TESTS).args(["--no-fail-fast", "--"]).args(filters);
    cargo.args(skipped.iter().flat_map(|word| ["--skip", *word]));
    for (_, _, kind, _) in FILESYSTEMS.iter().filter(|(_, _, kind, _)| !kinds.contains(kind)) {
        cargo.args(["--skip", &format!("::{}", kind.name())]);
    }
    cargo
        .env("PLEACH_TEST_SKIPS", &skips)
        .env("PLEACH_TEST_TIMES", &times)
        .envs(variables.iter().cloned())
        .env("PATH", wheels::search_path())
        // Not that of the user.
        .env("XDG_CACHE_HOME", dir.join("cache"));
    if env::var_os(THREADS).is_none() {
        // Tests wait for the disk, for servers, and for each other's syncs part of their time.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        cargo.env(THREADS, (3 * cores).to_string());
    }
    // A test must not find a repository in the environment of the present run.
    cargo.env_remove("PLEACH_REPO");
    let mut child = cargo.stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
    let mut outcome = Outcome { filtered: !filters.is_empty(), ..Outcome::default() };
    for line in BufReader::new(child.stdout.take().expect("stdout is a pipe")).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if line.starts_with("test result:") {
            outcome.passed += count(&line, "passed");
            outcome.failed += count(&line, "failed");
            // Printed later: the end of the output lists each result once.
            outcome.results.push(line.into_owned());
        } else {
            println!("{line}");
            if let Some((what, number)) = counted(&line) {
                *outcome.counted.entry(what.into()).or_default() += number;
            }
            outcome.failures.read(&line);
        }
    }
    outcome.success = child.wait()?.success();
    if let Ok(text) = fs::read_to_string(&skips) {
        outcome.skipped = text.lines().map(String::from).collect();
        outcome.skipped.sort();
    }
    outcome.slowest = slowest(&fs::read_to_string(&times).unwrap_or_default());
    Ok(outcome)
}

/// The variable by which Rust's runner takes its number of threads.
const THREADS: &str = "RUST_TEST_THREADS";

/// What a test counted: a line such as `counted: 12 power cuts`, perhaps behind other output.
fn counted(line: &str) -> Option<(&str, u64)> {
    let (_, figure) = line.split_once("counted: ")?;
    let (number, what) = figure.split_once(' ')?;
    Some((what, number.parse().ok()?))
}

/// How many of the slowest tests are shown.
const SLOWEST: usize = 10;

/// The slowest ones of these lines, which begin with a number of seconds.
fn slowest(times: &str) -> Vec<String> {
    let seconds =
        |line: &&str| line.split_once(' ').and_then(|(seconds, _)| seconds.parse::<f64>().ok()).unwrap_or(0.0);
    let mut lines: Vec<_> = times.lines().collect();
    lines.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    lines.into_iter().take(SLOWEST).map(String::from).collect()
}

/// The number before `word` in a line such as `test result: ok. 3 passed; 0 failed; …`.
fn count(line: &str, word: &str) -> u64 {
    let words: Vec<_> = line.split([' ', ';']).filter(|part| !part.is_empty()).collect();
    let number = words.windows(2).find(|pair| pair[1] == word).map(|pair| pair[0]);
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl Outcome {
    /// The outcome of this many tests.
    pub(crate) fn of(passed: usize, failed: usize) -> Outcome {
        Outcome { passed: passed as u64, failed: failed as u64, success: true, ..Outcome::default() }
    }

    /// The outcome of these tests and of further ones.
    pub(crate) fn and(mut self, other: Outcome) -> Outcome {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
        self.failures.lines.extend(other.failures.lines);
        self.results.extend(other.results);
        for (what, number) in other.counted {
            *self.counted.entry(what).or_default() += number;
        }
        Outcome { success: self.success && other.success, filtered: self.filtered || other.filtered, ..self }
    }

    /// Prints the closing lines and returns the exit status.
    pub(crate) fn close(self) -> ExitCode {
        if !self.filtered {
            for (seconds, test) in self.slowest.iter().filter_map(|line| line.split_once(' ')) {
                println!("slow: {seconds} s {test}");
            }
        }
        for line in self.results.iter().chain(&self.failures.lines) {
            println!("{line}");
        }
        for skipped in &self.skipped {
            println!("skipped: {skipped}");
        }
        let skipped = self.skipped.len() as u64;
        let passed = self.passed.saturating_sub(skipped);
        let ci = env::var("CI").is_ok_and(|ci| ci == "true");
        if ci && skipped > 0 {
            println!("with CI=true a skipped test is a failure");
        }
        let nothing_ran = self.filtered && passed + self.failed + skipped == 0;
        if nothing_ran {
            println!("no test has such a name");
        }
        println!("{passed} passed, {} failed, {skipped} skipped", self.failed);
        let good = self.success && self.failed == 0 && !nothing_ran && !(ci && skipped > 0);
        if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_result_line() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.01s";
        assert_eq!(count(line, "passed"), 12);
        assert_eq!(count(line, "failed"), 3);
        assert_eq!(count("nothing of the kind", "passed"), 0);
    }

    #[test]
    fn the_slowest_come_first() {
        assert_eq!(slowest("9.5 a::b\n10.0 c\n0.1 d\n"), ["10.0 c", "9.5 a::b", "0.1 d"]);
        assert_eq!(slowest(&"1.0 a\n".repeat(40)).len(), SLOWEST);
    }

    #[test]
    fn figures_are_found_behind_other_output() {
        assert_eq!(counted("counted: 12 power cuts"), Some(("power cuts", 12)));
        assert_eq!(counted("test a::b ... counted: 3 kills"), Some(("kills", 3)));
        assert_eq!(counted("12 power cuts"), None);
    }
}
