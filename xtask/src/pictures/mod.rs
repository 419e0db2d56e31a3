//! `cargo xtask pictures`: draws the pictures of the documents again, in `docs/pictures`.
//!
//! Everything in them is from runs of the program, in a root directory of their own (`root`). So paths are short, and
//! nothing of the machine is in a picture. Only times and the last digits of sizes differ between two runs.

mod days;
mod film;
mod images;
mod publishing;
mod recording;
mod root;
mod screen;
mod style;

use self::root::Root;
use crate::command::{self, cargo, run};
use crate::namespace::{self, Rights};
use crate::packages;
use crate::rundir::RunDir;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// The directory of the pictures.
const DIRECTORY: &str = "docs/pictures";
/// A larger file takes long to load in a page.
const MAX_BYTES: usize = 200_000;
/// The tools that are called inside.
const CALLED: packages::Tools =
    &[("chroot", "coreutils"), ("script", "bsdutils"), ("strace", "strace"), ("xfs_io", "xfsprogs")];

/// Runs the chore.
pub(crate) fn run_pictures() -> Result<ExitCode> {
    if let Some(dir) = namespace::inside()? {
        return draw_all(&dir);
    }
    run(cargo().args(["build", "--release", "--package", "pleach"]))?;
    let missing = packages::install(packages::MOUNTING.iter().chain(CALLED))?;
    ensure!(missing.is_empty(), "not installed: {}", missing.join(", "));
    let rights = Rights::best();
    if let Some(reason) = namespace::obstacle(rights) {
        bail!("no filesystem can be mounted here: {reason}");
    }
    let dir = RunDir::create("pictures")?;
    namespace::enter(dir.path(), rights)
}

fn draw_all(dir: &Path) -> Result<ExitCode> {
    let root = Root::create(dir, "recording")?;
    save("recording.svg", &film::draw(&recording::record(&root)?)?.to_string())?;
    save("publishing.svg", &publishing::draw(&publishing::trace(&root)?).to_string())?;
    save("sharing.svg", &images::draw(&root)?)?;
    drop(root);
    let root = Root::create(dir, "days")?;
    save("growth.svg", &days::draw(&days::run(&root)?).to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a picture.
fn save(name: &str, picture: &str) -> Result<()> {
    ensure!(picture.len() <= MAX_BYTES, "{name} has {} bytes, more than {MAX_BYTES}", picture.len());
    let dir = command::root().join(DIRECTORY);
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let path = dir.join(name);
    fs::write(&path, format!("{}\n", picture.trim_end()))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("{DIRECTORY}/{name}: {} bytes", picture.len());
    Ok(())
}
