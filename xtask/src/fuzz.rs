//! `cargo xtask fuzz`: random input for everything that parses, by libFuzzer.
//!
//! The targets are binaries of the package `tests/fuzz`, which a nightly Rust builds, because only that can instrument
//! code. They are run directly: nothing but rustup and a C++ compiler is needed. `cargo fuzz --fuzz-dir tests/fuzz`
//! works as well.

use crate::command;
use crate::{packages, toolchain};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The options of `cargo xtask fuzz`.
#[derive(Args)]
pub(crate) struct Options {
    /// Run each target for this many minutes
    #[arg(long, default_value_t = 1, conflicts_with = "seconds")]
    minutes: u64,
    /// Run each target for this many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Also the targets of `pleach offsite`, which has many dependencies to build
    #[arg(long)]
    offsite: bool,
    /// Run only these targets
    targets: Vec<String>,
}

/// The version of Rust.
const RUST: &str = "nightly-2026-05-20";
const PACKAGE: &str = "tests/fuzz";
/// The targets that need the feature `offsite`.
const OFFSITE: &[&str] = &["sftp", "stores"];
/// Counts how often each edge of the code is passed, traces comparisons, and checks all memory.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                         -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                         -Cllvm-args=-sanitizer-coverage-pc-table \
                         -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address";
/// The limits of each run. No input is longer than 64 KiB, so a single allocation of 128 MiB is a finding.
const LIMITS: &[&str] = &["-max_len=65536", "-malloc_limit_mb=128", "-rss_limit_mb=2048", "-timeout=20"];
/// The last lines of a finding that are printed.
const SHOWN: usize = 40;

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let targets = targets(options)?;
    let missing = packages::install(&[("c++", "g++")])?;
    if !missing.is_empty() {
        bail!("install {} first", missing.join(", "));
    }
    toolchain::install(RUST).with_context(|| format!("cannot install Rust {RUST}: is rustup there?"))?;
    let binaries = build(&targets)?;
    let seconds = options.seconds.unwrap_or(options.minutes.saturating_mul(60));
    let Some(figures) = fuzz_all(&targets, &binaries, seconds)? else { return Ok(ExitCode::FAILURE) };
    let width = targets.iter().map(String::len).max().unwrap_or(0);
    for (target, figures) in targets.iter().zip(figures) {
        println!("{target:width$}  {figures}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the targets, one on each core. Returns their figures, in the same order; `None` if one found something. Then no
/// further target begins.
fn fuzz_all(targets: &[String], binaries: &Path, seconds: u64) -> Result<Option<Vec<String>>> {
    let next = AtomicUsize::new(0);
    let take = || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        targets.get(number).map(|target| (number, target))
    };
    let work = || {
        let mut results = Vec::new();
        while let Some((number, target)) = take() {
            println!("{target}: {seconds} s");
            let figures = fuzz(target, binaries, seconds);
            if !matches!(figures, Ok(Some(_))) {
                next.store(targets.len(), Ordering::Relaxed);
            }
            results.push((number, figures?));
        }
        Ok(results)
    };
    let cores = thread::available_parallelism().map_or(1, usize::from).min(targets.len());
    let results: Vec<Result<Vec<_>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    let mut results: Vec<_> = results.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    results.sort();
    Ok(results.into_iter().map(|(_, figures)| figures).collect())
}

/// The chosen targets, by name.
fn targets(options: &Options) -> Result<Vec<String>> {
    let dir = command::root().join(PACKAGE).join("targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
        names.extend(entry?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    if let Some(unknown) = options.targets.iter().find(|chosen| !names.contains(chosen)) {
        bail!("there is no target {unknown}; the targets are {}", names.join(", "));
    }
    names.retain(|name| match &options.targets[..] {
        [] => options.offsite || !OFFSITE.contains(&name.as_str()),
        chosen => chosen.contains(name),
    });
    Ok(names)
}

/// Builds the targets. Returns the directory of their binaries.
fn build(targets: &[String]) -> Result<PathBuf> {
    println!("building {} targets", targets.len());
    // With a named platform, the flags are not those of build scripts.
    let version = command::output(toolchain::cargo(RUST).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("Cargo names no platform")?;
    let dir = directory();
    let mut build = toolchain::cargo(RUST);
    build.env("RUSTFLAGS", RUSTFLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS");
    build.args(["build", "--quiet", "--release", "--locked", "--target", host, "--manifest-path"]);
    build.arg(format!("{PACKAGE}/Cargo.toml")).arg("--target-dir").arg(&dir);
    build.args(targets.iter().flat_map(|target| ["--bin", target]));
    if targets.iter().any(|target| OFFSITE.contains(&target.as_str())) {
        build.args(["--features", "offsite"]);
    }
    command::run(&mut build)?;
    Ok(dir.join(host).join("release"))
}

/// The directory of everything that this chore makes.
fn directory() -> PathBuf {
    command::target_dir().join("fuzz")
}

/// Runs a target. Returns its figures; `None` if it found something, which is printed.
fn fuzz(target: &str, binaries: &Path, seconds: u64) -> Result<Option<String>> {
    let own = |kind: &str| {
        let dir = directory().join(kind).join(target);
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display())).map(|()| dir)
    };
    let kept = command::root().join(PACKAGE).join("corpus").join(target);
    // New inputs are added to the first directory.
    let (corpus, findings) = (own("corpus")?, own("findings")?);
    let path = directory().join(format!("{target}.log"));
    let log = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut fuzzer = Command::new(binaries.join(target));
    fuzzer.args(LIMITS).arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
    fuzzer.arg(format!("-artifact_prefix={}/", findings.display()));
    fuzzer.arg(corpus).args(kept.is_dir().then_some(kept));
    fuzzer.env("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1").stdin(Stdio::null());
    fuzzer.stdout(log.try_clone()?).stderr(log);
    let status = fuzzer.status().with_context(|| format!("cannot run {}", command::line(&fuzzer)))?;
    let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    if status.success() {
        return Ok(Some(figures(&text)));
    }
    println!("{}", last_lines(&text));
    match text.lines().find_map(|line| line.split_once("Test unit written to ")) {
        Some((_, input)) => {
            println!("\n{target} failed on {input}. To repeat it:\n  {}", binaries.join(target).display());
            println!(
                "with that path as its argument. Copy the file to {PACKAGE}/corpus/{target}: tests read it there."
            );
        }
        None => println!("\n{target} ended ({status}); see {}", path.display()),
    }
    Ok(None)
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN)..].join("\n")
}

/// The figures in what libFuzzer prints: runs, runs a second, edges of the code that were passed, inputs in the corpus.
fn figures(text: &str) -> String {
    let stat = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
        values.next().map_or("?", |value| value.trim_start_matches(':').trim())
    };
    let status = text.lines().rfind(|line| line.contains(" cov: ")).unwrap_or_default();
    let behind = |name: &str| {
        let mut words = status.split_whitespace().skip_while(|word| *word != name).skip(1);
        words.next().map_or("?", |word| word.split('/').next().unwrap_or(word))
    };
    format!(
        "{} runs, {} a second, coverage {}, corpus {}",
        stat("number_of_executed_units"),
        stat("average_exec_per_sec"),
        behind("cov:"),
        behind("corp:")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_output_of_the_fuzzer() {
        let text = "#2\tINITED cov: 18 ft: 19 corp: 1/1b exec/s: 0 rss: 47Mb\n\
                    #9000\tDONE   cov: 312 ft: 640 corp: 47/2Kb lim: 256 exec/s: 4500 rss: 61Mb\n\
                    Done 9000 runs in 2 second(s)\n\
                    stat::number_of_executed_units: 9000\nstat::average_exec_per_sec:     4500\n";
        assert_eq!(figures(text), "9000 runs, 4500 a second, coverage 312, corpus 47");
        assert_eq!(figures(""), "? runs, ? a second, coverage ?, corpus ?");
    }
}
