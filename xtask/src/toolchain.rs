//! Other versions of Rust than the one that builds this program: rustup installs them when they are missing.

use crate::command;
use anyhow::Result;
use std::process::Command;

/// Installs a version of Rust, unless it is there already.
///
/// # Errors
/// If rustup is missing, or cannot download it.
pub fn install(version: &str) -> Result<()> {
    if command::output(rustup().args(["run", version, "cargo", "--version"])).is_ok() {
        return Ok(());
    }
    println!("installing Rust {version}");
    command::output(rustup().args(["toolchain", "install", version, "--profile", "minimal"]))?;
    Ok(())
}

/// Cargo of a version, in the root of the workspace.
pub fn cargo(version: &str) -> Command {
    let mut cargo = rustup();
    cargo.args(["run", version, "cargo"]);
    cargo
}

/// rustup, not bound to the toolchain that runs this program.
fn rustup() -> Command {
    let mut rustup = command::program("rustup");
    rustup.current_dir(command::root()).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUST_BACKTRACE");
    rustup
}
