//! `cargo xtask bench dedupe`: pleach and its peers share equal content, on real and on made trees.
//!
//! Each run gets a fresh copy of the same filesystem image, so all contenders find the same tree in the same place on
//! the disk. Freed space is the difference of `df` before and after, each time freshly mounted.

mod contenders;
mod replaced;
mod trees;

use crate::contender::{Contender, Figures, Role, present};
use crate::measure::{measure, summary};
use crate::record::{About, finish};
use crate::runner::{self, Plan};
use crate::session::{self, Common, ensure_usual};
use crate::stage::{Cache, Stage};
use crate::{floor, million};
use anyhow::Result;
use clap::Args;
use contenders::{ALL, FCLONES, Tool};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use trees::Tree;
use xtask::image::Kind;
use xtask::packages;
use xtask::space;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each command runs; medians are given
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    common: Common,
    /// On these trees
    #[arg(long = "tree", value_delimiter = ',', default_value = "releases,images,snapshots,small")]
    trees: Vec<Tree>,
    /// Only these take part; all of them, if none is named
    #[arg(long, value_delimiter = ',')]
    only: Vec<Tool>,
    /// Install the tools to compare with, where they are missing
    #[arg(long)]
    install: bool,
    /// Instead: the memory that a dedupe of 1,000,000 small files takes
    #[arg(long)]
    million: bool,
    /// Instead: a dedupe after 1 % of 4 GiB of unique files was replaced
    #[arg(long)]
    replaced: bool,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    if options.million {
        return session::on_own_filesystems(|| Ok(()), |dir| million::dedupes(dir, &options.common.kinds, save));
    }
    if options.replaced {
        let kinds = &options.common.kinds;
        return session::on_own_filesystems(|| Ok(()), |dir| replaced::run(dir, kinds, options.runs, save));
    }
    ensure_usual(save, options.only.is_empty())?;
    let gather = || {
        if options.install {
            packages::install(packages::DEDUPERS)?;
            FCLONES.install()?;
        }
        options.trees.iter().try_for_each(|tree| tree.gather())
    };
    session::on_each(&options.common.kinds, gather, |kind, dir| on(kind, dir, options, save))
}

fn on(kind: Kind, dir: &Path, options: &Options, save: bool) -> Result<()> {
    let wanted = if options.only.is_empty() { ALL.to_vec() } else { options.only.clone() };
    for &tree in &options.trees {
        println!("{}: making the tree \"{}\"", kind.name(), tree.name());
        let mut stage = Stage::new(dir, (kind, 8 << 10), None)?;
        let about = tree.fill(&stage.tree())?;
        stage.keep()?;
        stage.warm = vec![stage.tree()];
        for &cache in &options.common.caches {
            let all = wanted.iter().map(|&tool| Way { tool, cache, in_use: Cell::new(0) });
            let all = present(all.collect());
            measure_all(&mut stage, &all, tree, &about, options.runs, save)?;
        }
        stage.strike()?;
    }
    Ok(())
}

fn measure_all(stage: &mut Stage, all: &[Way], tree: Tree, sizes: &str, rounds: u32, save: bool) -> Result<()> {
    let Some(cache) = all.first().map(|way| way.cache) else { return Ok(()) };
    let title = format!("{}, {}, {}", tree.title(), stage.kind().title(), cache.name());
    let plan = Plan { label: title.clone(), rounds, cache };
    let rows = runner::run(stage, all, &plan)?;
    let checked = "the filesystem is clean";
    finish(About { question: "dedupe", title, sizes, checked }, &plan, &rows, save)
}

/// A tool, as a contender.
struct Way {
    tool: Tool,
    cache: Cache,
    /// Bytes in use before the run.
    in_use: Cell<u64>,
}

impl Contender for Way {
    fn name(&self) -> String {
        self.tool.name()
    }

    fn role(&self) -> Role {
        self.tool.role()
    }

    fn program(&self) -> Option<PathBuf> {
        self.tool.program()
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        stage.restore()?;
        let own = own_dir(stage);
        if own.exists() {
            fs::remove_dir_all(&own)?;
        }
        fs::create_dir_all(&own)?;
        if self.tool == Tool::BareCalls {
            floor::dedupe::plan(&stage.tree(), &own.join("plan"))?;
        }
        stage.remount()?;
        self.in_use.set(space::used_now(stage.source())?);
        Ok(())
    }

    fn command(&self, stage: &Stage) -> Command {
        self.tool.command(&stage.tree(), &own_dir(stage))
    }

    fn is_heard(&self) -> bool {
        true
    }

    /// Measures the freed space, reads the reported one, and times a second run.
    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        stage.remount()?;
        let freed = self.in_use.get() as f64 - space::used_now(stage.source())? as f64;
        let mut figures = Figures::from([("freed_bytes", freed)]);
        if self.tool.is_ours() {
            figures.insert("reported_bytes", summary(said, "freed_bytes")?);
            figures.insert("data_bytes", summary(said, "read_bytes")?);
        }
        if self.tool != Tool::BareCalls {
            stage.set_cache(self.cache)?;
            let (second, said) = measure(&mut self.command(stage), stage.source(), true)?;
            figures.insert("second_seconds", second["seconds"]);
            if self.tool.is_ours() {
                figures.insert("second_data_bytes", summary(&said, "read_bytes")?);
            }
        }
        Ok(figures)
    }
}

/// The directory for the files that a tool keeps for its next run.
fn own_dir(stage: &Stage) -> PathBuf {
    stage.dir().join("own")
}
