//! Calls other programs. A failure names the whole command line and includes the program's output.

use anyhow::{Context, Result, bail};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program, also found in the system's own directories, which are missing in the `PATH` of many users.
pub fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(find(name.as_ref()).unwrap_or_else(|| name.as_ref().into()));
    command.env("PATH", search_path());
    command
}

/// The path of a program, if it is installed.
pub fn find(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    env::split_paths(&search_path()).map(|dir| dir.join(name.as_ref())).find(|path| path.is_file())
}

/// `PATH` with the directories of the system's tools.
pub fn search_path() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    for dir in ["/usr/local/sbin", "/usr/sbin", "/sbin"] {
        if !env::split_paths(&path).any(|known| known == Path::new(dir)) {
            path.push(":");
            path.push(dir);
        }
    }
    path
}

/// Runs a command to its end and returns its stdout. If it fails, the error contains all of its output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", line(command)))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}):\n{}{}", line(command), output.status, stdout, stderr);
    }
    Ok(stdout.into_owned())
}

/// Runs a command that prints to the terminal itself.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", line(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", line(command));
    }
    Ok(())
}

/// The command as a user would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// Cargo, in the root of the workspace.
pub fn cargo() -> Command {
    let mut cargo = program(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// The target directory of all builds.
pub fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}
