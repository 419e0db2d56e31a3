//! `cargo xtask coverage`: the share of the lines of `src` that the tests run, by cargo-llvm-cov.
//!
//! All crates of the workspace are built once more, with counters in them. Each process of the program adds its counts
//! to a file when it ends; those of a killed process are lost. The lines of unit tests do not count.

use crate::command;
use crate::packages::Crate;
use crate::tidy::lines_before_tests;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The options of `cargo xtask coverage`.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only tests with one of these in their name
    filters: Vec<String>,
    /// Name the lines of each file that no test runs
    #[arg(long)]
    missing: bool,
    /// Show the counts of the last run again, without any test
    #[arg(long)]
    again: bool,
}

const TOOL: Crate = Crate { name: "cargo-llvm-cov", version: "0.9.1", debug: true };
/// The least share of lines, in percent.
const LEAST: f64 = 90.0;
/// Where processes add their counts: a few files, each for any number of processes.
const COUNTS: &str = "pleach-%8m.profraw";

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    command::output(command::program("rustup").args(["component", "add", "llvm-tools"]))
        .context("cannot install the tools of LLVM that belong to Rust")?;
    let tool = TOOL.install()?;
    let dir = command::target_dir().join("coverage");
    let variables = variables(&tool, &dir)?;
    if !options.again {
        fs::create_dir_all(&dir)?;
        // Some tests run the program as another user.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777))?;
        forget(&dir)?;
        let mut tests = Command::new(env::current_exe().context("cannot find myself")?);
        let status = tests.arg("test").args(&options.filters).envs(variables.iter().cloned()).status()?;
        if !status.success() {
            println!("some tests failed: they may not expect that the program writes its counts");
        }
    }
    let report = command::output(llvm_cov(&tool).args(["report", "--lcov"]).envs(variables))?;
    let files = read(&report)?;
    ensure!(!files.is_empty(), "there are no counts in {}", dir.display());
    if options.missing {
        files.iter().filter(|(_, lines)| lines.share() < 100.0).for_each(|(path, lines)| {
            println!("{path}: {}", ranges(&lines.missing));
        });
    }
    let mut folders: BTreeMap<&str, Lines> = BTreeMap::new();
    let mut all = Lines::default();
    for (path, lines) in &files {
        let folder = path.split_once('/').map_or(path.as_str(), |(folder, _)| folder);
        folders.entry(folder).or_default().add(lines);
        all.add(lines);
    }
    for (name, lines) in folders.iter().chain([(&"src", &all)]) {
        let Lines { count, missing } = lines;
        println!("{name}: {:.1} % of {count} lines, {} missing", lines.share(), missing.len());
    }
    Ok(if all.share() >= LEAST { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn llvm_cov(tool: &Path) -> Command {
    let mut command = command::program(tool);
    command.arg("llvm-cov").current_dir(command::root());
    command
}

/// The environment in which Cargo builds with counters below `dir`.
fn variables(tool: &Path, dir: &Path) -> Result<Vec<(String, String)>> {
    let shown = command::output(llvm_cov(tool).arg("show-env").env("CARGO_TARGET_DIR", dir))?;
    let mut variables: Vec<_> = shown.lines().filter_map(variable).collect();
    for (name, value) in [("CARGO_TARGET_DIR", dir.to_path_buf()), ("LLVM_PROFILE_FILE", dir.join(COUNTS))] {
        variables.push((name.into(), value.to_str().context("the target directory is not UTF-8")?.into()));
    }
    Ok(variables)
}

/// A line such as `NAME='value'`.
fn variable(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let value =
        ['\'', '"'].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(value);
    Some((name.into(), value.into()))
}

/// Removes the counts of earlier runs.
fn forget(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "profraw") {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// The lines with code.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines {
    count: usize,
    missing: Vec<usize>,
}

impl Lines {
    fn add(&mut self, other: &Lines) {
        self.count += other.count;
        self.missing.extend(&other.missing);
    }

    /// The share that runs, in percent.
    fn share(&self) -> f64 {
        100.0 - 100.0 * self.missing.len() as f64 / self.count.max(1) as f64
    }
}

/// The lines of each file below `src`, from a report in the format of lcov.
fn read(report: &str) -> Result<BTreeMap<String, Lines>> {
    let src = command::root().join("src");
    let mut files = BTreeMap::new();
    for record in report.split("end_of_record") {
        let path = record.lines().find_map(|line| line.strip_prefix("SF:"));
        let Some(path) = path.and_then(|path| Path::new(path).strip_prefix(&src).ok()) else { continue };
        let text = fs::read_to_string(src.join(path)).with_context(|| format!("cannot read {}", path.display()))?;
        files.insert(path.to_string_lossy().into_owned(), lines(record, lines_before_tests(&text)));
    }
    Ok(files)
}

/// The lines of a record, up to this one.
fn lines(record: &str, last: usize) -> Lines {
    let mut lines = Lines::default();
    for line in record.lines().filter_map(|line| line.strip_prefix("DA:")) {
        let mut numbers = line.split(',').map_while(|number| number.parse::<usize>().ok());
        if let (Some(number), Some(count)) = (numbers.next(), numbers.next())
            && number <= last
        {
            lines.count += 1;
            lines.missing.extend((count == 0).then_some(number));
        }
    }
    lines
}

/// Numbers such as `3-5, 9`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|before, after| before + 1 == *after);
    let shown = runs.map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_unit_tests_do_not_count() {
        let record = "SF:/src/a.rs\nDA:1,5\nDA:2,0\nDA:3,0\nDA:7,0\nDA:9,1\nLF:5\n";
        let lines = lines(record, 8);
        assert_eq!(lines, Lines { count: 4, missing: vec![2, 3, 7] });
        assert_eq!((lines.share(), ranges(&lines.missing).as_str()), (25.0, "2-3, 7"));
    }

    #[test]
    fn values_may_be_quoted() {
        let pair = |name: &str, value: &str| Some((name.to_string(), value.to_string()));
        assert_eq!(variable("A='b c'"), pair("A", "b c"));
        assert_eq!(variable("A=b"), pair("A", "b"));
        assert_eq!(variable("A"), None);
    }
}
