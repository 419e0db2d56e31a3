//! Check `msrv`: the whole workspace builds with the Rust version that `Cargo.toml` promises.
//!
//! rustup installs that version when it is missing. The build has its own target directory, so that the second run is
//! quick.

use super::files::Files;
use super::finding::Finding;
use crate::command;
use crate::toolchain;
use anyhow::{Context, Result};

const MANIFEST: &str = "Cargo.toml";

/// Builds with the promised version.
pub(crate) fn check(files: &Files) -> Result<Vec<Finding>> {
    let manifest = files.text(MANIFEST).context("there is no Cargo.toml")?;
    let Some((line, version)) = rust_version(manifest) else {
        return Ok(vec![Finding::new(
            MANIFEST,
            1,
            "no `rust-version`: name the oldest Rust that builds the workspace",
        )]);
    };
    let problem = |message: String, error: anyhow::Error| {
        let text = format!("{error:#}");
        let details = text.lines().filter(|line| !line.contains(": warning: ")).map(str::to_owned).collect();
        vec![Finding::new(MANIFEST, line, message).with_details(details)]
    };
    if let Err(error) = toolchain::install(version) {
        let message = format!("cannot install Rust {version}: install rustup, and connect to the network once");
        return Ok(problem(message, error));
    }
    let mut build = toolchain::cargo(version);
    build.args(["check", "--quiet", "--message-format=short"]);
    build
        .args(["--workspace", "--all-targets", "--features", "pleach/offsite", "--locked", "--target-dir"])
        .arg(command::target_dir().join("msrv"));
    match command::output(&mut build) {
        Ok(_) => Ok(Vec::new()),
        Err(error) => {
            let message = format!("does not build with Rust {version}: avoid newer features, or raise `rust-version`");
            Ok(problem(message, error))
        }
    }
}

/// The promised version and its line.
fn rust_version(manifest: &str) -> Option<(usize, &str)> {
    let versions = manifest.lines().zip(1..).filter_map(|(line, number)| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "rust-version").then(|| (number, value.trim().trim_matches('"')))
    });
    versions.last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_manifest() {
        assert_eq!(rust_version("[workspace.package]\nrust-version = \"1.88\"\n"), Some((2, "1.88")));
        assert_eq!(rust_version("[package]\nrust-version.workspace = true\n"), None);
    }
}
