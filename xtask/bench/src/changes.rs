//! `cargo xtask bench changes`: a snapshot of 500,000 files after changes in 50 of them, against `find`, which only
//! looks at each of them. The repository is on Btrfs, where a snapshot may begin as one of the last tree.

use crate::contender::{Contender, Figures, Role, present};
use crate::measure::summary;
use crate::record::{About, finish};
use crate::report::thousands;
use crate::runner::{self, Plan};
use crate::session::{self, Rounds, ensure_usual};
use crate::small_files::SmallFiles;
use crate::stage::{Cache, Stage};
use crate::tools::{plain, pleach};
use anyhow::{Result, ensure};
use clap::Args;
use std::cell::Cell;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use xtask::command::{find, output, program};
use xtask::image::Kind;
use xtask::space;

/// The files for recorded figures.
const FILES: u32 = 500_000;
const IN_DIRECTORY: u64 = 500;
/// The files that change before each run, and their size afterwards.
const CHANGED: u32 = 50;
const SIZE: usize = 6000;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// The number of files
    #[arg(long, default_value_t = FILES, value_parser = clap::value_parser!(u32).range(5000..))]
    files: u32,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.files == FILES)?;
    session::on_each(&options.rounds.kinds, || Ok(()), |kind, dir| on(kind, dir, options, save))
}

fn on(kind: Kind, dir: &Path, options: &Options, save: bool) -> Result<()> {
    let elsewhere = (kind != Kind::Btrfs).then_some((Kind::Btrfs, 16 << 10));
    let mut stage = Stage::new(dir, (kind, 16 << 10), elsewhere)?;
    println!("{}: writing {} files", kind.name(), options.files);
    fill(kind, &stage.tree(), options.files)?;
    // The second snapshot finds all files settled, and is the first one that notes the inodes of an XFS.
    for name in ["first", "second", "third"] {
        let mut snapshot = plain(Some(pleach()));
        snapshot.args(["snapshot", "--quiet", "--name", name]).arg(stage.tree()).arg(stage.fresh());
        output(&mut snapshot)?;
    }
    let (files, round) = (options.files, Cell::new(0));
    let ways = [Job::Changes, Job::Everything, Job::Find];
    let all = present(ways.map(|job| Way { job, files, round: &round }).into());
    let title = match kind {
        Kind::Btrfs => format!("{}, cold", kind.title()),
        _ => format!("{}, repository on Btrfs, cold", kind.title()),
    };
    let sizes = format!("{} files of 64 to 563 bytes, {CHANGED} of them changed", thousands(files.into()));
    let plan = Plan { label: title.clone(), rounds: options.rounds.runs, cache: Cache::Cold };
    let rows = runner::run(&mut stage, &all, &plan)?;
    let checked = "the changed files are found, and nothing else is read";
    finish(About { question: "changes", title, sizes: &sizes, checked }, &plan, &rows, save)?;
    stage.strike()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Changes,
    Everything,
    Find,
}

struct Way<'r> {
    job: Job,
    files: u32,
    round: &'r Cell<u32>,
}

impl Contender for Way<'_> {
    fn name(&self) -> String {
        match self.job {
            Job::Changes => "pleach snapshot",
            Job::Everything => "pleach snapshot `--full-walk`",
            Job::Find => "`find -printf %s`",
        }
        .into()
    }

    fn role(&self) -> Role {
        match self.job {
            Job::Changes => Role::Ours,
            Job::Everything => Role::Variant,
            Job::Find => Role::Floor,
        }
    }

    fn program(&self) -> Option<PathBuf> {
        if self.job == Job::Find { find("find") } else { Some(pleach()) }
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        if self.job == Job::Find {
            return stage.remount();
        }
        let round = self.round.replace(self.round.get() + 1);
        for number in 0..CHANGED {
            let file = (number * (self.files / CHANGED) + round * 7) % self.files;
            fs::write(small_files(&stage.tree(), self.files).path(file.into()), [round as u8; SIZE])?;
        }
        space::sync(stage.source())?;
        stage.remount()
    }

    fn command(&self, stage: &Stage) -> Command {
        if self.job == Job::Find {
            let mut command = program("find");
            command.arg(stage.tree()).args(["-printf", "%s\n"]);
            return command;
        }
        let mut command = plain(self.program());
        command.args(["snapshot", "--json"]).arg(stage.tree()).arg(stage.fresh());
        if self.job == Job::Everything {
            command.arg("--full-walk");
        }
        command
    }

    fn is_heard(&self) -> bool {
        self.job != Job::Find
    }

    fn check(&self, _stage: &mut Stage, said: &str) -> Result<Figures> {
        if self.job == Job::Find {
            return Ok(Figures::new());
        }
        let all = f64::from(self.files);
        ensure!(summary(said, "files")? == all, "not all files are in the snapshot: {said}");
        let (changed, read) = (summary(said, "changed_files")?, summary(said, "read_bytes")?);
        ensure!(changed == f64::from(CHANGED), "{changed} changed files were found");
        ensure!(read == changed * SIZE as f64, "{read} bytes were read for {changed} files of {SIZE}");
        Ok(Figures::from([("data_bytes", read)]))
    }
}

fn small_files(tree: &Path, files: u32) -> SmallFiles<'_> {
    SmallFiles { tree, files: files.into(), in_directory: IN_DIRECTORY }
}

fn fill(kind: Kind, tree: &Path, files: u32) -> Result<()> {
    match kind {
        Kind::Btrfs => _ = output(program("btrfs").args(["subvolume", "create"]).arg(tree))?,
        _ => fs::create_dir(tree)?,
    }
    let content = [b'x'; 1000];
    small_files(tree, files).fill(|number, mut file| Ok(file.write_all(&content[..64 + number as usize % 500])?))
}
