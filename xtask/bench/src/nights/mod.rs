//! `cargo xtask bench nights`: the cost of a snapshot in space and time when little of a large file changed. The
//! subjects are the image of a virtual machine, changed in place and rewritten as a whole, and the data directory of a
//! database.
//!
//! Each round changes the source. Then three contenders take turns: the snapshot, the bare writes (the floor of its
//! space), and `cat`, which reads the source once (the floor of its time). Space is the value of `df` once it no longer
//! changes. The changed blocks are found by comparing the last snapshot with the source, block by block; after the
//! snapshot this comparison must find none.

pub(crate) mod blocks;
mod subject;

use crate::contender::{Contender, Figures, Role};
use crate::floor;
use crate::measure::summary;
use crate::record::{About, finish};
use crate::runner::{self, Plan};
use crate::session::{self, Rounds, ensure_usual};
use crate::stage::{Cache, Stage};
use crate::tools::{own, plain, pleach};
use anyhow::{Result, ensure};
use clap::Args;
use std::cell::{Cell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use subject::Subject;
use xtask::command::{find, output};
use xtask::image::Kind;
use xtask::packages;
use xtask::space;

/// The sizes for recorded figures: GiB of the image, and pgbench's scale.
const GIB: u64 = 8;
const SCALE: u32 = 100;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// How large the image is, in GiB; only the usual size can be recorded
    #[arg(long, default_value_t = GIB, value_parser = clap::value_parser!(u64).range(1..=1024))]
    gib: u64,
    /// How large the database is, in pgbench's scale (15 MiB each)
    #[arg(long, default_value_t = SCALE, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    scale: u32,
}

/// The location of the source relative to the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// On another filesystem, which is XFS.
    Elsewhere,
    /// On the same filesystem.
    Here,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.gib == GIB && options.scale == SCALE)?;
    let gather = || packages::install(packages::DATABASE).map(drop);
    session::on_each(&options.rounds.kinds, gather, |kind, dir| on(kind, dir, options, save))
}

fn on(kind: Kind, dir: &Path, options: &Options, save: bool) -> Result<()> {
    let image = Subject::Image { bytes: options.gib << 30 };
    let database = subject::database(options.scale);
    if database.is_none() {
        println!("skipped: no PostgreSQL with pgbench here");
    }
    for subject in [Some(image), database].into_iter().flatten() {
        for from in [From::Elsewhere, From::Here] {
            changed_in_place(kind, dir, subject, from, options.rounds.runs, save)?;
        }
    }
    written_whole(kind, dir, options.gib << 30, save)
}

fn changed_in_place(kind: Kind, dir: &Path, subject: Subject, from: From, rounds: u32, save: bool) -> Result<()> {
    let mebibytes = (subject.size() + subject.size() / 4 + (3 << 30)) >> 20;
    let mut stage = match from {
        From::Here => Stage::new(dir, (kind, mebibytes), None)?,
        From::Elsewhere => Stage::new(dir, (Kind::Xfs, mebibytes), Some((kind, mebibytes)))?,
    };
    let title = match from {
        From::Here => format!("{} on the same {}", subject.name(), kind.title()),
        From::Elsewhere => format!("{} elsewhere, {}", subject.name(), kind.title()),
    };
    make(&stage, subject, &title)?;
    let (changed, last) = (Cell::new(0.0), RefCell::new(PathBuf::new()));
    let way = |job| Way { job, from, kind, changed: &changed, last: &last, number: Cell::new(0) };
    let all = [Job::Snapshot, Job::Writes, Job::Cat].map(way);
    let plan = Plan { label: title.clone(), rounds, cache: Cache::Cold };
    let rows = runner::run_rounds(&mut stage, &all, &plan, &mut |stage, round| {
        subject.change(&stage.tree(), round)?;
        space::sync(stage.source())?;
        changed.set(blocks::differing(&latest(stage), &stage.tree())? as f64);
        last.replace(repo(stage).join(fs::read_link(repo(stage).join("latest"))?));
        Ok(())
    })?;
    let (size, files) = (blocks::size(&stage.tree())?, blocks::files(&stage.tree())?);
    let sizes = format!("{} MiB in {files} files, {:.1} MiB changed", size >> 20, changed.get() / f64::from(1 << 20));
    let about = About { question: "nights", title, sizes: &sizes, checked: "the snapshot equals its source" };
    finish(about, &plan, &rows, save)?;
    stage.strike()
}

/// Rewrites the image on the repository's own filesystem, like programs that save files. Only once, because a second
/// round would not start from the same state.
fn written_whole(kind: Kind, dir: &Path, bytes: u64, save: bool) -> Result<()> {
    let mut stage = Stage::new(dir, (kind, ((2 * bytes + bytes / 4) >> 20) + (2 << 10)), None)?;
    let (subject, title) = (Subject::Image { bytes }, format!("image written whole on the same {}", kind.title()));
    stage.mark()?;
    make(&stage, subject, &title)?;
    subject.rewrite(&stage.tree())?;
    let plan = Plan { label: title.clone(), rounds: 1, cache: Cache::Cold };
    let rows = runner::run(&mut stage, &[Whole { bytes: bytes as f64 }], &plan)?;
    let sizes = format!("{} MiB; added: two snapshots without the live file, by its size", bytes >> 20);
    let about = About { question: "nights", title, sizes: &sizes, checked: "the snapshot equals its source" };
    finish(about, &plan, &rows, save)?;
    stage.strike()
}

/// Makes the source and its first snapshot.
fn make(stage: &Stage, subject: Subject, title: &str) -> Result<()> {
    println!("{title}: making it");
    fs::create_dir(stage.tree())?;
    subject.make(&stage.tree())?;
    output(&mut snapshot(stage)).map(drop)
}

fn snapshot(stage: &Stage) -> Command {
    let mut command = plain(Some(pleach()));
    command.args(["snapshot", "--json"]).arg(stage.tree()).arg(repo(stage));
    command
}

fn repo(stage: &Stage) -> PathBuf {
    stage.written().join("repo")
}

/// The path of the source in the newest snapshot.
fn latest(stage: &Stage) -> PathBuf {
    repo(stage).join("latest").join(stage.tree().strip_prefix("/").unwrap_or(&stage.tree()))
}

fn ensure_equal(stage: &Stage) -> Result<()> {
    ensure!(blocks::differing(&latest(stage), &stage.tree())? == 0, "the last snapshot does not equal its source");
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Snapshot,
    /// The floor of the space.
    Writes,
    /// The floor of the time, for a source on another filesystem.
    Cat,
}

struct Way<'a> {
    job: Job,
    from: From,
    kind: Kind,
    /// Bytes of changed blocks in this round.
    changed: &'a Cell<f64>,
    /// The newest snapshot from before this round.
    last: &'a RefCell<PathBuf>,
    /// The number of trees made by the bare writes.
    number: Cell<u32>,
}

impl Contender for Way<'_> {
    fn name(&self) -> String {
        match self.job {
            Job::Snapshot => "pleach snapshot",
            Job::Writes => "the bare writes",
            Job::Cat => "`cat` of the source",
        }
        .into()
    }

    fn role(&self) -> Role {
        if self.job == Job::Snapshot { Role::Ours } else { Role::Floor }
    }

    fn program(&self) -> Option<PathBuf> {
        match self.job {
            Job::Snapshot => Some(pleach()),
            Job::Writes => own(),
            Job::Cat => find("find"),
        }
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        if self.job == Job::Cat { Ok(()) } else { stage.mark() }
    }

    fn command(&self, stage: &Stage) -> Command {
        match self.job {
            Job::Snapshot => snapshot(stage),
            Job::Writes => {
                // The new tree stays, so that the next round does not start with half-freed space.
                self.number.set(self.number.get() + 1);
                let to = stage.written().join(format!("floor-{}", self.number.get()));
                let mut command = floor::command(["writes"]);
                command.args((self.kind == Kind::Btrfs).then_some("--subvolume"));
                command.args((self.from == From::Here).then_some("--here"));
                command.arg(&*self.last.borrow()).arg(stage.tree()).arg(to);
                command
            }
            Job::Cat => {
                let mut command = plain(self.program());
                command.arg(stage.tree()).args(["-type", "f", "-exec", "cat", "{}", "+"]);
                command
            }
        }
    }

    fn is_heard(&self) -> bool {
        self.job == Job::Snapshot
    }

    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        if self.job == Job::Cat {
            return Ok(Figures::new());
        }
        let added = stage.added()?;
        let mut figures = Figures::from([("added_bytes", added), ("added_ratio", added / self.changed.get())]);
        if self.job == Job::Snapshot {
            ensure_equal(stage)?;
            figures.insert("data_bytes", summary(said, "read_bytes")?);
        }
        Ok(figures)
    }
}

/// The second snapshot of an image that was rewritten.
struct Whole {
    bytes: f64,
}

impl Contender for Whole {
    fn name(&self) -> String {
        "pleach snapshot".into()
    }

    fn role(&self) -> Role {
        Role::Ours
    }

    fn program(&self) -> Option<PathBuf> {
        Some(pleach())
    }

    fn command(&self, stage: &Stage) -> Command {
        snapshot(stage)
    }

    fn check(&self, stage: &mut Stage, _said: &str) -> Result<Figures> {
        ensure_equal(stage)?;
        let with_live = stage.added()? / self.bytes;
        fs::remove_dir_all(stage.tree())?;
        let added = stage.added()?;
        Ok(Figures::from([("with_live_ratio", with_live), ("added_ratio", added / self.bytes), ("added_bytes", added)]))
    }
}
