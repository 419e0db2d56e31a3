//! Namespaces in which a run mounts its filesystems, so that nothing stays mounted, even after `kill -9`.
//!
//! The program starts itself again as process 1 of a PID namespace, in a separate mount namespace. When that process
//! ends for any reason, the kernel kills everything below it. The mounts disappear with the last process. The loop
//! devices disappear with the mounts, because they are made with "autoclear". When the outer process dies, its death
//! signal ends the inner one.

use crate::command::{self, program};
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The variable with the run's directory, set for the inner process.
const INSIDE: &str = "XTASK_RUN_DIR";

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

/// The run's directory, if this is the inner process.
pub fn inside() -> Option<PathBuf> {
    env::var_os(INSIDE).map(PathBuf::from)
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

/// For the inner process: ends it, and everything with it, at the first signal. Process 1 has no default for signals.
pub fn end_on_signal() -> Result<()> {
    ctrlc::set_handler(|| std::process::exit(130)).context("cannot handle signals")
}

fn assignment(name: &str, value: impl AsRef<std::ffi::OsStr>) -> std::ffi::OsString {
    let mut assignment = std::ffi::OsString::from(name);
    assignment.push("=");
    assignment.push(value);
    assignment
}
