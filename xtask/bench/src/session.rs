//! The start of a bench: the options that several benches have, and the namespaces for its filesystems.

use crate::stage::Cache;
use anyhow::{Result, bail};
use clap::Args;
use std::path::Path;
use std::process::ExitCode;
use xtask::command::{self, cargo};
use xtask::image::Kind;
use xtask::namespace::{self, Rights};
use xtask::packages;
use xtask::rundir::RunDir;

/// Options that mean the same in several benches.
#[derive(Args)]
pub(crate) struct Common {
    /// On these filesystems
    #[arg(long = "fs", value_delimiter = ',', default_value = "xfs,btrfs")]
    pub(crate) kinds: Vec<Kind>,
    /// With these caches
    #[arg(long = "cache", value_delimiter = ',', default_value = "cold,warm")]
    pub(crate) caches: Vec<Cache>,
}

/// The same for benches that choose the state of the caches themselves.
#[derive(Args)]
pub(crate) struct Rounds {
    /// How often each way is taken; medians are given
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// With the repository on these filesystems
    #[arg(long = "fs", value_delimiter = ',', default_value = "xfs,btrfs")]
    pub(crate) kinds: Vec<Kind>,
}

/// Builds pleach and prepares the needs of a bench with the caller's own rights; then runs the bench inside the
/// namespaces, with a directory for its images.
pub(crate) fn on_own_filesystems(
    gather: impl FnOnce() -> Result<()>,
    bench: impl FnOnce(&Path) -> Result<()>,
) -> Result<ExitCode> {
    // Both are built together, so that they get the same features of shared dependencies, and none is built twice.
    // With the features of a release.
    let build = || {
        let packages = ["--package", "pleach", "--package", "pleach-bench", "--features", "pleach/offsite"];
        command::run(cargo().args(["build", "--release"]).args(packages))
    };
    enter(|| build().and_then(|()| gather()), bench)
}

/// Like `on_own_filesystems`, with the bench on one kind of filesystem after the other.
pub(crate) fn on_each(
    kinds: &[Kind],
    gather: impl FnOnce() -> Result<()>,
    bench: impl Fn(Kind, &Path) -> Result<()>,
) -> Result<ExitCode> {
    on_own_filesystems(gather, |dir| kinds.iter().try_for_each(|&kind| bench(kind, dir)))
}

/// Like `on_own_filesystems`, but builds nothing.
pub(crate) fn enter(gather: impl FnOnce() -> Result<()>, bench: impl FnOnce(&Path) -> Result<()>) -> Result<ExitCode> {
    if let Some(dir) = namespace::inside()? {
        bench(&dir)?;
        return Ok(ExitCode::SUCCESS);
    }
    let missing = packages::install(packages::MOUNTING)?;
    if !missing.is_empty() {
        bail!("not installed: {}", missing.join(", "));
    }
    gather()?;
    let rights = Rights::best();
    if let Some(reason) = namespace::obstacle(rights) {
        bail!("filesystems cannot be mounted here: {reason}");
    }
    let dir = RunDir::create("bench")?;
    namespace::enter(dir.path(), rights)
}

/// Refuses to record figures of a bench that ran with sizes other than those of the page.
pub(crate) fn ensure_usual(save: bool, is_usual: bool) -> Result<()> {
    if save && !is_usual {
        bail!("--save records only figures of the usual sizes and of all contenders");
    }
    Ok(())
}
