//! `cargo xtask package`: makes the package for crates.io, installs the program from it, and starts that.
//!
//! The package has fewer files than the repository and a manifest of its own. A file that the build needs and the
//! package lacks shows only here. `dist` describes the same package.

use crate::command::{self, cargo, output, program, run};
use crate::rundir::RunDir;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// crates.io accepts no larger package.
const MOST_BYTES: u64 = 10 << 20;

/// Runs the chore.
pub(crate) fn run_package() -> Result<ExitCode> {
    let version = version()?;
    let unpacked = unpack(&version)?;
    let archive = unpacked.with_file_name(format!("pleach-{version}.crate"));
    let bytes = fs::metadata(&archive).with_context(|| format!("cannot find {}", archive.display()))?.len();
    ensure!(bytes <= MOST_BYTES, "{} has {bytes} bytes, crates.io accepts {MOST_BYTES}", archive.display());
    let dir = RunDir::create("package")?;
    install(&unpacked, dir.path())?;
    fs::remove_dir_all(&unpacked)?;
    let pleach = dir.path().join("bin/pleach");
    let shown = output(program(&pleach).arg("--version"))?;
    ensure!(shown == format!("pleach {version}\n"), "the installed program is another version: {shown}");
    // These come from files of the package.
    let profile = dir.path().join("profile.toml");
    output(program(&pleach).arg("init-profile").arg(&profile))?;
    output(program(&pleach).args(["completions", "zsh"]))?;
    println!("{}: {:.1} MB; the program in it builds, installs and runs", archive.display(), bytes as f64 / 1e6);
    Ok(ExitCode::SUCCESS)
}

/// Installs the program below a directory, as `cargo install pleach` does. Nothing is downloaded.
///
/// Dependencies are those of other builds. Only the program has a directory of its own: it must not replace that of the
/// tests.
fn install(unpacked: &Path, root: &Path) -> Result<()> {
    let mut install = cargo();
    install.args(["install", "--quiet", "--locked", "--offline", "--debug", "--no-track", "--path"]).arg(unpacked);
    install.arg("--root").arg(root).arg("--target-dir").arg(command::target_dir().join("installed"));
    output(install.env("CARGO_BUILD_BUILD_DIR", command::target_dir())).map(drop)
}

/// Makes the package and unpacks it. Returns the directory, which is in `target/package`: there, Cargo looks for no
/// workspace above it.
pub(crate) fn unpack(version: &str) -> Result<PathBuf> {
    run(cargo().args(["package", "--quiet", "--package", "pleach", "--no-verify", "--allow-dirty"]))?;
    let packages = command::target_dir().join("package");
    let name = format!("pleach-{version}");
    let unpacked = packages.join(&name);
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)?;
    }
    run(program("tar").current_dir(&packages).arg("-xf").arg(format!("{name}.crate")))?;
    Ok(unpacked)
}

/// The version of pleach.
pub(crate) fn version() -> Result<String> {
    let metadata = output(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let own = packages.iter().find(|package| package["name"] == "pleach").context("pleach is not a package")?;
    Ok(own["version"].as_str().context("pleach has no version")?.to_string())
}
