//! Trees of real files, made of the sources of published crates by `cargo vendor`, kept under `target/xtask/trees`.

use crate::command::{self, cargo, run};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The content of a tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Census {
    /// Files, and all other entries that are not directories.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// The total size of all files.
    pub bytes: u64,
}

impl Census {
    /// Counts everything below `dir`, and `dir` itself.
    pub fn of(dir: &Path) -> Result<Census> {
        let mut census = Census { dirs: 1, ..Census::default() };
        let mut waiting = vec![dir.to_path_buf()];
        while let Some(dir) = waiting.pop() {
            for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
                let entry = entry?;
                let meta = entry.metadata()?;
                if meta.is_dir() {
                    census.dirs += 1;
                    waiting.push(entry.path());
                } else {
                    census.files += 1;
                    census.bytes += meta.len();
                }
            }
        }
        Ok(census)
    }

    /// The number of files and directories.
    pub fn entries(&self) -> u64 {
        self.files + self.dirs
    }
}

/// The sources of this project's own dependencies: some thousands of files.
pub fn own_dependencies() -> Result<PathBuf> {
    kept("dependencies", |dir| run(cargo().args(["vendor", "--quiet", "--locked", "--versioned-dirs"]).arg(dir)))
}

/// The sources of some of the largest crates and all of their dependencies: about 100,000 files.
pub fn large_crates() -> Result<PathBuf> {
    const CRATES: &[(&str, &[&str])] = &[
        ("aws-sdk-ec2", &[]),
        ("aws-sdk-s3", &[]),
        ("axum", &[]),
        ("bevy", &[]),
        ("datafusion", &[]),
        ("deno_core", &[]),
        ("gix", &[]),
        ("k8s-openapi", &["latest"]),
        ("librocksdb-sys", &[]),
        ("openssl-src", &[]),
        ("polars", &["full"]),
        ("rusqlite", &["bundled"]),
        ("sqlx", &["all-databases", "runtime-tokio"]),
        ("swc_core", &["ecma_parser"]),
        ("tauri", &[]),
        ("wasmtime", &[]),
        ("web-sys", &[]),
        ("windows", &[]),
    ];
    kept("crates", |dir| {
        vendor(
            dir,
            CRATES.iter().map(|(name, features)| format!("{name} = {{ version = \"*\", features = {features:?} }}\n")),
        )
    })
}

/// Fills `dir` with the sources of all crates that a package with these dependencies needs.
fn vendor(dir: &Path, dependencies: impl Iterator<Item = String>) -> Result<()> {
    let package = dir.with_extension("package");
    fs::create_dir_all(package.join("src"))?;
    fs::write(package.join("src/lib.rs"), "")?;
    let mut manifest = String::from("[package]\nname = \"tree\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n");
    // The package is not a member of the workspace, although it lies in the workspace's target directory.
    manifest.push_str("[workspace]\n\n[dependencies]\n");
    manifest.extend(dependencies);
    fs::write(package.join("Cargo.toml"), manifest)?;
    let mut vendor = cargo();
    run(vendor.current_dir(&package).args(["vendor", "--quiet", "--versioned-dirs"]).arg(dir))?;
    fs::remove_dir_all(&package)?;
    Ok(())
}

/// Three releases of some large packages, each with all of its dependencies, as a user has who keeps several versions.
pub fn releases() -> Result<PathBuf> {
    const RELEASES: &[(&str, &[(&str, &str)])] = &[
        (
            "a",
            &[
                ("windows", "0.56"),
                ("librocksdb-sys", "0.16.0"),
                ("wasmtime", "27"),
                ("openssl-src", "300.3.1"),
                ("k8s-openapi", "0.22"),
                ("aws-sdk-ec2", "=1.60.0"),
                ("libsqlite3-sys", "0.28"),
            ],
        ),
        (
            "b",
            &[
                ("windows", "0.57"),
                ("librocksdb-sys", "0.17.0"),
                ("wasmtime", "28"),
                ("openssl-src", "300.4.0"),
                ("k8s-openapi", "0.23"),
                ("aws-sdk-ec2", "=1.70.0"),
                ("libsqlite3-sys", "0.30"),
            ],
        ),
        (
            "c",
            &[
                ("windows", "0.58"),
                ("librocksdb-sys", "0.17.1"),
                ("wasmtime", "29"),
                ("openssl-src", "300.4.1"),
                ("k8s-openapi", "0.24"),
                ("aws-sdk-ec2", "=1.80.0"),
                ("libsqlite3-sys", "0.31"),
            ],
        ),
    ];
    kept("releases", |dir| {
        for (name, crates) in RELEASES {
            vendor(
                &dir.join(name),
                crates.iter().map(|(name, version)| {
                    let features = if *name == "k8s-openapi" { ", features = [\"latest\"]" } else { "" };
                    format!("{name} = {{ version = \"{version}\"{features} }}\n")
                }),
            )?;
        }
        Ok(())
    })
}

/// The tree `name`, made by `make` unless an earlier run has made it.
fn kept(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let tree = command::target_dir().join("xtask/trees").join(name);
    if !tree.exists() {
        println!("gathering real files: cargo vendor into {}", tree.display());
        // Complete or absent: a killed run leaves only the partial directory.
        let partial = tree.with_extension("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
        fs::create_dir_all(&partial)?;
        make(&partial)?;
        fs::rename(&partial, &tree)?;
    }
    Ok(tree)
}

/// Copies a tree by plain reads and writes, so the copy has its own extents. Copies files, directories, modes and
/// links.
pub fn copy_plainly(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_plainly(&source, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else {
            fs::write(&target, fs::read(&source)?).with_context(|| format!("cannot write {}", target.display()))?;
            fs::set_permissions(&target, entry.metadata()?.permissions())?;
        }
    }
    Ok(())
}
