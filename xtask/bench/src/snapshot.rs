//! `cargo xtask bench snapshot`: snapshots of a large real tree by pleach, cp and rsync, cold and warm, on XFS and
//! Btrfs.
//!
//! One run answers two questions of the page: the cost of an unchanged tree, and the cost of a first snapshot.

use crate::contender::{Contender, Figures, Role, present};
use crate::measure::summary;
use crate::record::{About, finish};
use crate::runner::{self, Measured, Plan};
use crate::session::{self, Common, ensure_usual};
use crate::stage::Stage;
use crate::tools::{own, plain, pleach};
use crate::{floor, million, report};
use anyhow::{Result, ensure};
use clap::Args;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use xtask::command::{find, output, program};
use xtask::image::Kind;
use xtask::packages;
use xtask::vendor::{self, Census};

/// The minimal size of a tree that represents large ones.
const LEAST: Census = Census { files: 50_000, dirs: 0, bytes: 3 << 29 };

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each command runs; medians are given
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    common: Common,
    /// Install the tools to compare with, where they are missing
    #[arg(long)]
    install: bool,
    /// Measure on this tree instead of gathering one; this cannot be recorded
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Instead: the memory that snapshots of 1,000,000 small files take
    #[arg(long)]
    million: bool,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    if options.million {
        return session::on_own_filesystems(|| Ok(()), |dir| million::snapshots(dir, &options.common.kinds, save));
    }
    ensure_usual(save, options.tree.is_none())?;
    let gather = || {
        if options.install {
            packages::install(packages::PEERS)?;
        }
        if options.tree.is_none() {
            vendor::large_crates()?;
        }
        Ok(())
    };
    session::on_each(&options.common.kinds, gather, |kind, dir| on(kind, dir, options, save))
}

fn on(kind: Kind, dir: &Path, options: &Options, save: bool) -> Result<()> {
    let source = options.tree.clone().map_or_else(vendor::large_crates, Ok)?;
    let census = Census::of(&source)?;
    if options.tree.is_none() {
        ensure!(census.files >= LEAST.files && census.bytes >= LEAST.bytes, "the tree is too small to say anything");
    }
    let sizes = format!(
        "sources of published crates, {} files, {} directories, {:.2} GiB",
        report::thousands(census.files),
        report::thousands(census.dirs),
        census.bytes as f64 / f64::from(1 << 30)
    );
    let mut stage = Stage::new(dir, (kind, 12 << 10), None)?;
    println!("{}: filling it", kind.name());
    vendor::copy_plainly(&source, &stage.tree())?;
    // Later runs build upon these: a snapshot, and a copy for rsync.
    output(program("cp").arg("-a").arg(stage.tree()).arg(copy(&stage)))?;
    output(plain(Some(pleach())).args(["snapshot", "--quiet"]).arg(stage.tree()).arg(repo(&stage)))?;
    stage.warm = vec![stage.tree()];
    stage.known = vec![copy(&stage), repo(&stage)];
    let all = WAYS.map(|way| Way { way, kind, number: Cell::new(0) });
    let all = present(all.into_iter().collect());
    for &cache in &options.common.caches {
        let plan = Plan { label: format!("{} {}", kind.name(), cache.name()), rounds: options.runs, cache };
        let rows = runner::run(&mut stage, &all, &plan)?;
        answer(kind, &sizes, &plan, &rows, save)?;
    }
    stage.strike()
}

/// Assigns the rows to the questions.
fn answer(kind: Kind, sizes: &str, plan: &Plan, rows: &[Measured], save: bool) -> Result<()> {
    let title = format!("{}, {}", kind.title(), plan.cache.name());
    let is = |row: &Measured, ways: &[Job]| ways.iter().any(|way| way.name() == row.name);
    let pick = |ways: &[Job]| rows.iter().filter(|row| is(row, ways)).cloned().collect::<Vec<_>>();
    let floor = if kind == Kind::Btrfs { Job::Statx } else { Job::Clones };
    let unchanged = pick(&[Job::Unchanged, Job::Cp, Job::Rsync, floor]);
    let checked = "no errors, no data copied, every file unchanged";
    finish(About { question: "unchanged", title: title.clone(), sizes, checked }, plan, &unchanged, save)?;
    let first = pick(&[Job::FirstUnhashed, Job::First, Job::Cp, Job::Clones]);
    finish(About { question: "first", title, sizes, checked: "no errors, no data copied" }, plan, &first, save)
}

fn copy(stage: &Stage) -> PathBuf {
    stage.written().join("copy")
}

fn repo(stage: &Stage) -> PathBuf {
    stage.written().join("repo")
}

/// A contender of this bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// A snapshot of a tree that has not changed since the last one.
    Unchanged,
    /// The first snapshot, without hashing.
    FirstUnhashed,
    /// The first snapshot, which hashes everything.
    First,
    /// `cp -a --reflink=always`.
    Cp,
    /// `rsync -aHAX --link-dest`, which makes hard links instead of files.
    Rsync,
    /// The bare system calls of cloning a tree.
    Clones,
    /// Names and inodes read, as every tool must.
    Statx,
}

const WAYS: [Job; 7] = [Job::Unchanged, Job::FirstUnhashed, Job::First, Job::Cp, Job::Rsync, Job::Clones, Job::Statx];

impl Job {
    fn name(self) -> &'static str {
        match self {
            Job::Unchanged => "unchanged tree",
            Job::FirstUnhashed => "`--hash none`",
            Job::First => "hashed",
            Job::Cp => "`cp -a --reflink=always`",
            Job::Rsync => "`rsync -aHAX --link-dest`",
            Job::Clones => "a clone of each file",
            Job::Statx => "`statx` of each entry",
        }
    }
}

struct Way {
    way: Job,
    kind: Kind,
    /// The number of snapshots so far.
    number: Cell<u32>,
}

impl Contender for Way {
    fn name(&self) -> String {
        self.way.name().into()
    }

    fn role(&self) -> Role {
        match self.way {
            Job::Unchanged | Job::FirstUnhashed | Job::First => Role::Ours,
            Job::Cp | Job::Rsync => Role::Peer,
            Job::Clones | Job::Statx => Role::Floor,
        }
    }

    fn program(&self) -> Option<PathBuf> {
        match self.way {
            Job::Unchanged | Job::FirstUnhashed | Job::First => Some(pleach()),
            Job::Cp => find("cp"),
            Job::Rsync => find("rsync"),
            Job::Clones | Job::Statx => own(),
        }
    }

    fn command(&self, stage: &Stage) -> Command {
        let (tree, fresh) = (stage.tree(), stage.fresh());
        let mut command = plain(self.program());
        match self.way {
            Job::Unchanged => {
                self.number.set(self.number.get() + 1);
                let name = format!("again-{}", self.number.get());
                command.args(["snapshot", "--json", "--name", &name]).arg(tree).arg(repo(stage));
            }
            Job::FirstUnhashed => {
                command.args(["snapshot", "--json", "--hash", "none"]).arg(tree).arg(fresh);
            }
            Job::First => {
                command.args(["snapshot", "--json"]).arg(tree).arg(fresh);
            }
            Job::Cp => {
                command.args(["-a", "--reflink=always"]).arg(tree).arg(fresh);
            }
            Job::Rsync => {
                command.arg("-aHAX").arg("--link-dest").arg(copy(stage)).arg(tree.join("")).arg(fresh);
            }
            Job::Clones => {
                // On Btrfs all new inodes go into one place of a B-tree.
                let threads = if self.kind == Kind::Btrfs { "2" } else { "8" };
                command = floor::command(["tree", "--clone", "--writers", "2", "--threads", threads]);
                command.arg(tree).arg(fresh);
            }
            Job::Statx => {
                command = floor::command(["statx"]);
                command.arg(tree);
            }
        }
        command
    }

    fn is_heard(&self) -> bool {
        self.role() == Role::Ours
    }

    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        if !self.is_heard() {
            ensure!(self.way == Job::Statx || stage.fresh().is_dir(), "it has made nothing");
            return Ok(Figures::new());
        }
        let field = |name| summary(said, name);
        ensure!(field("errors")? + field("copied_bytes")? == 0.0, "errors, or copied data: {said}");
        ensure!(self.way != Job::Unchanged || field("unchanged_files")? == field("files")?, "files changed: {said}");
        Ok(Figures::from([
            ("added_data_bytes", field("added_data_bytes")?),
            ("added_metadata_bytes", field("added_metadata_bytes")?),
        ]))
    }

    fn cleanup(&self, stage: &mut Stage) -> Result<()> {
        if stage.fresh().exists() { stage.clear() } else { Ok(()) }
    }
}
