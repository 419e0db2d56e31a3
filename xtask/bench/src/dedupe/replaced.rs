//! `cargo xtask bench dedupe --replaced`: a dedupe after 1 % of a set of unique files was replaced, half of it by data
//! of other files. pleach with the cache of the run before, and without a cache, which must free as much.

use crate::contender::{Contender, Figures, Role};
use crate::measure::summary;
use crate::record::{About, finish};
use crate::runner::{self, Plan};
use crate::stage::{Cache, Stage};
use crate::tools::pleach;
use anyhow::{Result, ensure};
use std::cell::Cell;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::{output, program};
use xtask::image::Kind;
use xtask::noise::Noise;
use xtask::space;

const FILES: u64 = 64;
const MIB: usize = 1 << 20;
/// The length of a file in MiB.
const LENGTH: usize = 64;
/// The MiB that replace a file: 1 % of all.
const REPLACED: usize = 40;
/// The goal: pleach reads at most this much for each byte that is new or shared.
const MOST: f64 = 1.2;

/// Measures on filesystems of these kinds.
pub(super) fn run(dir: &Path, kinds: &[Kind], rounds: u32, save: bool) -> Result<()> {
    for &kind in kinds {
        println!("{}: writing {FILES} files of {LENGTH} MiB", kind.name());
        let mut stage = Stage::new(dir, (kind, 6 << 10), None)?;
        fill(&stage.tree())?;
        space::sync(stage.source())?;
        output(&mut dedupe(&stage.tree(), Some(&first_cache(&stage))))?;
        replace(&stage.tree())?;
        stage.keep()?;
        let freed = Cell::new(None);
        let all = [true, false].map(|is_cached| Way { is_cached, in_use: Cell::new(0), freed: &freed });
        let title = format!("4 GiB of unique files, 1 % replaced, {}", stage.kind().title());
        let plan = Plan { label: title.clone(), rounds, cache: Cache::Cold };
        let rows = runner::run(&mut stage, &all, &plan)?;
        let sizes = "64 files of 64 MiB; one is replaced by 40 MiB, and 20 MiB of these are data of another file.";
        let checked =
            "both free the same, as `df` shows; with the cache at most 1.2 times the new and shared bytes are read";
        finish(About { question: "dedupe-replaced", title, sizes, checked }, &plan, &rows, save)?;
        fs::remove_file(first_cache(&stage))?;
        stage.strike()?;
    }
    Ok(())
}

/// The cache of the run before the change.
fn first_cache(stage: &Stage) -> PathBuf {
    stage.dir().join("first-cache")
}

fn dedupe(tree: &Path, cache: Option<&Path>) -> Command {
    let mut command = Command::new(pleach());
    command.args(["dedupe", "--json"]);
    match cache {
        Some(cache) => command.arg("--cache").arg(cache),
        None => command.arg("--no-cache"),
    };
    command.arg(tree);
    command
}

fn content(number: u64, mebibytes: usize, out: &mut dyn Write) -> Result<()> {
    let mut noise = Noise::from(0x9E37_79B9_7F4A_7C15 ^ (number + 1));
    (0..mebibytes).try_for_each(|_| Ok(out.write_all(&noise.bytes(MIB))?))
}

fn file(tree: &Path, number: u64) -> Result<BufWriter<File>> {
    Ok(BufWriter::with_capacity(MIB, File::create(tree.join(format!("{number:02}")))?))
}

fn fill(tree: &Path) -> Result<()> {
    fs::create_dir_all(tree)?;
    for number in 0..FILES {
        let mut out = file(tree, number)?;
        content(number, LENGTH, &mut out)?;
        out.flush()?;
    }
    Ok(())
}

/// Replaces a file: first new data, then the beginning of another file. Each has extents of its own, because Btrfs
/// frees an extent only as a whole.
fn replace(tree: &Path) -> Result<()> {
    fs::remove_file(tree.join("07"))?;
    let mut out = file(tree, 7)?;
    content(FILES, REPLACED / 2, &mut out)?;
    out.flush()?;
    out.get_ref().sync_all()?;
    content(30, REPLACED / 2, &mut out)?;
    Ok(out.flush()?)
}

/// pleach, with the cache or without one.
struct Way<'f> {
    is_cached: bool,
    /// Bytes in use before the run.
    in_use: Cell<u64>,
    /// What the other way freed.
    freed: &'f Cell<Option<f64>>,
}

impl Contender for Way<'_> {
    fn name(&self) -> String {
        if self.is_cached { "pleach dedupe" } else { "pleach dedupe --no-cache" }.into()
    }

    fn role(&self) -> Role {
        if self.is_cached { Role::Ours } else { Role::Variant }
    }

    fn program(&self) -> Option<PathBuf> {
        Some(pleach())
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        stage.restore()?;
        output(program("cp").arg(first_cache(stage)).arg(stage.dir().join("cache")))?;
        self.in_use.set(space::used_now(stage.source())?);
        Ok(())
    }

    fn command(&self, stage: &Stage) -> Command {
        let cache = stage.dir().join("cache");
        dedupe(&stage.tree(), self.is_cached.then_some(cache.as_path()))
    }

    fn is_heard(&self) -> bool {
        true
    }

    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        stage.remount()?;
        let freed = self.in_use.get() as f64 - space::used_now(stage.source())? as f64;
        let read = summary(said, "read_bytes")?;
        let other = self.freed.replace(Some(freed)).unwrap_or(freed);
        ensure!((freed - other).abs() <= MIB as f64, "one way frees {freed}, the other {other}");
        let needed = ((REPLACED + REPLACED / 2) * MIB) as f64;
        ensure!(!self.is_cached || read <= MOST * needed, "{read} bytes were read, and {needed} needed");
        Ok(Figures::from([("freed_bytes", freed), ("data_bytes", read)]))
    }
}
