//! Namespaces in which a run mounts its filesystems, so that nothing stays mounted, even after `kill -9`.
//!
//! The program starts itself again as process 1 of a PID namespace, in a separate mount namespace. When that process
//! ends for any reason, the kernel kills everything below it. The mounts disappear with the last process. The loop
//! devices disappear with the mounts, because they are made with "autoclear". When the outer process dies, its death
//! signal ends the inner one.
//!
//! Some programs write to directories that nobody can choose. There the run has directories of its own.

use crate::command::{self, program};
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The variable with the run's directory, set for the inner process.
const INSIDE: &str = "XTASK_RUN_DIR";

/// Directories with leftovers: sockets of SeaweedFS and files of killed tests, and the results of `btrfs scrub`.
const REPLACED: [&str; 2] = ["/tmp", "/var/lib/btrfs"];

/// How the inner process gets the rights of root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Our own rights, which must be root's.
    Root,
    /// The rights of root, through sudo.
    Sudo,
}

impl Rights {
    /// The simplest way to get root's rights.
    pub fn best() -> Rights {
        if is_root() || command::find("sudo").is_none() { Rights::Root } else { Rights::Sudo }
    }
}

/// The run's directory, if this is the inner process. From then on, its first signal ends it, and everything with it.
pub fn inside() -> Result<Option<PathBuf>> {
    let Some(dir) = env::var_os(INSIDE).map(PathBuf::from) else { return Ok(None) };
    // Process 1 has no default for signals.
    ctrlc::set_handler(|| std::process::exit(130)).context("cannot handle signals")?;
    for place in REPLACED {
        replace(Path::new(place), &dir).with_context(|| format!("cannot give the run its own {place}"))?;
    }
    Ok(Some(dir))
}

/// Whether this process has root's rights.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Why filesystems cannot be mounted here, if they cannot.
pub fn obstacle(rights: Rights) -> Option<String> {
    if rights == Rights::Root && !is_root() {
        return Some("not root".into());
    }
    let mut attempt = as_root(rights, "unshare");
    attempt.args(["--mount", "--pid", "--fork", "--mount-proc", "losetup", "--find"]);
    match command::output(&mut attempt) {
        Ok(_) => None,
        Err(error) => {
            let last = error.to_string().lines().last().unwrap_or_default().to_string();
            Some(format!("no loop devices or no namespaces: {last}"))
        }
    }
}

fn as_root(rights: Rights, name: &str) -> std::process::Command {
    match rights {
        Rights::Root => program(name),
        Rights::Sudo => {
            let mut sudo = program("sudo");
            sudo.arg(name);
            sudo
        }
    }
}

/// Runs this same command line inside, with `run_dir` for its images, and returns its exit status.
pub fn enter(run_dir: &Path, rights: Rights) -> Result<ExitCode> {
    let mut outer = as_root(rights, "setpriv");
    outer.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    // sudo does not pass on variables, so they are part of the command line.
    outer.arg("env").arg(assignment(INSIDE, run_dir));
    for name in [
        "PATH",
        "HOME",
        "CARGO",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
        "CARGO_TARGET_DIR",
        "CI",
        "PLEACH_BENCH_DUPEREMOVE",
    ] {
        if let Some(value) = env::var_os(name) {
            outer.arg(assignment(name, value));
        }
    }
    outer.arg(env::current_exe().context("cannot find myself")?).args(env::args_os().skip(1));

    let mut child = outer.spawn().with_context(|| format!("cannot run {}", command::line(&outer)))?;
    let pid = Pid::from_child(&child);
    ctrlc::set_handler(move || {
        // unshare ignores weaker signals, and no process inside needs to clean up.
        let _ = kill_process(pid, Signal::KILL);
    })?;
    let status = child.wait()?;
    Ok(match status.code() {
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        None => ExitCode::from(130),
    })
}

/// Mounts a directory of the run on another one, for this namespace only. Paths that this process was started with stay
/// there.
fn replace(dir: &Path, run_dir: &Path) -> Result<()> {
    let Ok(status) = fs::metadata(dir) else { return Ok(()) };
    let own = run_dir.join("own").join(dir.strip_prefix("/")?);
    fs::create_dir_all(&own)?;
    fs::set_permissions(&own, status.permissions())?;
    let bind = |from: &Path, to: &Path| command::run(program("mount").arg("--rbind").arg(from).arg(to));
    for name in named_in(dir, given()?) {
        let (there, kept) = (dir.join(&name), own.join(&name));
        match fs::metadata(&there) {
            Ok(status) if status.is_dir() => fs::create_dir(&kept)?,
            Ok(_) => drop(File::create(&kept)?),
            Err(_) => continue,
        }
        bind(&there, &kept)?;
    }
    bind(&own, dir)?;
    // The same directory, by its new path.
    Ok(env::set_current_dir(env::current_dir()?)?)
}

/// The paths that this process was started with, and other words.
fn given() -> Result<Vec<OsString>> {
    let places = [env::current_exe()?, env::current_dir()?, command::target_dir()].map(OsString::from);
    Ok(places.into_iter().chain(env::args_os()).chain(env::vars_os().map(|(_, value)| value)).collect())
}

/// The names in a directory of what these words name there or below.
fn named_in(dir: &Path, words: Vec<OsString>) -> BTreeSet<OsString> {
    let words = words.iter().flat_map(|words| env::split_paths(words).collect::<Vec<_>>());
    // An option has its value behind an equals sign.
    let paths = words.map(|word| match word.to_str().and_then(|word| word.split_once('=')) {
        Some((_, value)) => PathBuf::from(value),
        None => word,
    });
    paths.filter_map(|path| path.strip_prefix(dir).ok()?.iter().next().map(OsString::from)).collect()
}

fn assignment(name: &str, value: impl AsRef<std::ffi::OsStr>) -> OsString {
    let mut assignment = OsString::from(name);
    assignment.push("=");
    assignment.push(value);
    assignment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_was_started_with_is_found() {
        let words =
            ["/usr/bin:/tmp/tools/bin", "--dir=/tmp/suite/", "/tmp/work/pleach", "/tmp", "tmp/other", "/tmpfs/x"];
        let named = named_in(Path::new("/tmp"), words.map(OsString::from).to_vec());
        assert_eq!(Vec::from_iter(named), ["suite", "tools", "work"]);
    }
}
