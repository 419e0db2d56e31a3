//! `cargo xtask dist`: the files of a release, in `target/packages`. For each architecture a static program, in an
//! archive and in packages for Debian and for Fedora; checksums; and the bill of materials. The packages of this
//! machine's architecture are then installed into a fresh system, used, and removed.
//!
//! `build` makes the programs, `tree` what a package installs, `formats` the archive and the packages, `trial` tries
//! them.

mod build;
mod formats;
mod release;
mod tree;
mod trial;

use crate::command::{self, output, program, run};
use crate::namespace::{self, Rights};
use crate::package;
use crate::packages::{self, Crate, Tools};
use crate::rundir::RunDir;
use anyhow::{Context, Result, bail, ensure};
use build::Arch;
use clap::Args;
use release::Release;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// The options of `cargo xtask dist`.
#[derive(Args)]
pub(crate) struct Options {
    /// For these architectures
    #[arg(long, value_delimiter = ',', default_value = "x86_64,aarch64")]
    arch: Vec<Arch>,
    /// With `pleach offsite`, which makes the program twice as large
    #[arg(long)]
    offsite: bool,
    /// Do not install the packages into a fresh system
    #[arg(long)]
    no_trial: bool,
}

const TOOLS: Tools = &[
    ("file", "file"),
    ("dpkg-deb", "dpkg"),
    ("rpmbuild", "rpm"),
    ("tar", "tar"),
    ("gzip", "gzip"),
    ("sha256sum", "coreutils"),
    ("git", "git"),
];

const SBOM: Crate = Crate { name: "cargo-cyclonedx", version: "0.5.9", debug: true };

/// Runs the chore.
pub(crate) fn run_dist(options: &Options) -> Result<ExitCode> {
    if let Some(dir) = namespace::inside()? {
        trial::try_packages(&dir, &command::target_dir().join("packages"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let own = Arch::own().context("releases are made on x86_64 or aarch64")?;
    let needed = options.arch.iter().chain([&own]).flat_map(|arch| arch.tools());
    let missing = packages::install(TOOLS.iter().chain(needed))?;
    ensure!(missing.is_empty(), "not installed: {}", missing.join(", "));
    let release = Release::new()?;
    // The one that can run here makes the man pages and the completions of all.
    let runnable = build::build(own, options.offsite)?;
    for arch in &options.arch {
        let binary = build::build(*arch, options.offsite)?;
        println!("{}: {:.1} MB", binary.display(), fs::metadata(&binary)?.len() as f64 / 1e6);
        let tree = tree::make(&release, *arch, &binary, &runnable)?;
        formats::make(&release, *arch, &tree)?;
        fs::remove_dir_all(tree)?;
    }
    bill_of_materials(&release, options.offsite)?;
    checksums(&release.dir)?;
    println!("{}", output(program("ls").arg("-l").arg(&release.dir))?);
    if options.no_trial {
        return Ok(ExitCode::SUCCESS);
    }
    try_packages()
}

/// What the program is made of, in CycloneDX's format.
fn bill_of_materials(release: &Release, offsite: bool) -> Result<()> {
    let tool = SBOM.install()?;
    // The tool writes beside each manifest of a workspace, so it gets the package as it would be published.
    let unpacked = package::unpack(&release.version)?;
    let name = format!("pleach-{}", release.version);
    let mut describe = program(&tool);
    describe.current_dir(&unpacked).env("SOURCE_DATE_EPOCH", &release.epoch);
    describe.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5", "--override-filename", &name]);
    run(describe.args(offsite.then_some("--features=offsite")))?;
    fs::copy(unpacked.join(format!("{name}.json")), release.dir.join(format!("{name}.cdx.json")))?;
    Ok(fs::remove_dir_all(&unpacked)?)
}

fn checksums(dir: &Path) -> Result<()> {
    let mut names: Vec<_> = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    names.sort();
    let sums = output(program("sha256sum").current_dir(dir).args(names))?;
    Ok(fs::write(dir.join("SHA256SUMS"), sums)?)
}

/// Enters a namespace, where `trial` continues.
fn try_packages() -> Result<ExitCode> {
    let missing = packages::install(packages::MOUNTING)?.into_iter().chain(packages::install(trial::TOOLS)?);
    let missing: Vec<String> = missing.collect();
    let rights = Rights::best();
    match (&missing[..], namespace::obstacle(rights)) {
        ([], None) => namespace::enter(RunDir::create("dist")?.path(), rights),
        ([], Some(reason)) => bail!("the packages cannot be tried: {reason}"),
        _ => bail!("the packages cannot be tried: not installed: {}", missing.join(", ")),
    }
}
