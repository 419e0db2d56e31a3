//! `cargo xtask bench nights`: the cost of a snapshot in space and time when little of the data changed. The subjects
//! are the image of a virtual machine, changed in place and rewritten as a whole, the data directory of a database, and
//! many small files on Btrfs.
//!
//! Each round changes the source. Then the contenders take turns: the snapshot, the bare writes (the floor of its
//! space), and `cat`, which reads the source once (the floor of its time). Small files are also written in place, in
//! a subvolume snapshot of the last tree, which is the floor of the metadata. Space is the value of `df` once it no
//! longer changes. The changed blocks are found by comparing the last snapshot with the source, block by block; after
//! the snapshot this comparison must find none.

pub(crate) mod blocks;
pub(crate) mod subject;

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

/// The sizes for recorded figures: GiB of the image, pgbench's scale, and the number of small files.
const GIB: u64 = 8;
const SCALE: u32 = 100;
const FILES: u64 = 300_000;

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
    /// The number of small files
    #[arg(long, default_value_t = FILES, value_parser = clap::value_parser!(u64).range(1000..=10_000_000))]
    files: u64,
    /// Only these subjects; all of them, if none is named
    #[arg(long, value_delimiter = ',')]
    only: Vec<Only>,
}

/// A subject, as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    /// The image of a virtual machine.
    Image,
    /// The data directory of a database.
    Database,
    /// Many small files, on Btrfs.
    Small,
}

/// The location of the source relative to the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// On another filesystem, which is XFS.
    Elsewhere,
    /// On the same filesystem.
    Here,
}

impl From {
    /// The filesystems, of this size, for a repository on a filesystem of this kind.
    pub(crate) fn stage(self, dir: &Path, kind: Kind, mebibytes: u64) -> Result<Stage> {
        match self {
            From::Here => Stage::new(dir, (kind, mebibytes), None),
            From::Elsewhere => Stage::new(dir, (Kind::Xfs, mebibytes), Some((kind, mebibytes))),
        }
    }

    /// The subject and its place, for titles.
    pub(crate) fn title(self, subject: Subject, kind: Kind) -> String {
        match self {
            From::Here => format!("{} on the same {}", subject.name(), kind.title()),
            From::Elsewhere => format!("{} elsewhere, {}", subject.name(), kind.title()),
        }
    }
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.gib == GIB && options.scale == SCALE && options.files == FILES)?;
    let gather = || packages::install(packages::DATABASE).map(drop);
    session::on_each(&options.rounds.kinds, gather, |kind, dir| on(kind, dir, options, save))
}

fn on(kind: Kind, dir: &Path, options: &Options, save: bool) -> Result<()> {
    let is_wanted = |only: Only| options.only.is_empty() || options.only.contains(&only);
    let image = subject::image(options.gib << 30);
    let database = subject::database(options.scale);
    if database.is_none() && is_wanted(Only::Database) {
        println!("skipped: no PostgreSQL with pgbench here");
    }
    let small = (kind == Kind::Btrfs).then_some(Subject::Small { files: options.files });
    let all = [(Only::Image, Some(image)), (Only::Database, database), (Only::Small, small)];
    for (_, subject) in all.into_iter().filter(|(only, _)| is_wanted(*only)) {
        for (subject, from) in subject.into_iter().flat_map(|one| [(one, From::Elsewhere), (one, From::Here)]) {
            changed_in_place(kind, dir, subject, from, options.rounds.runs, save)?;
        }
    }
    if is_wanted(Only::Image) { written_whole(kind, dir, options.gib << 30, save) } else { Ok(()) }
}

fn changed_in_place(kind: Kind, dir: &Path, subject: Subject, from: From, rounds: u32, save: bool) -> Result<()> {
    let mebibytes = (subject.size() + subject.size() / 4 + (3 << 30)) >> 20;
    let (mut stage, title) = (from.stage(dir, kind, mebibytes)?, from.title(subject, kind));
    make(&stage, subject, &title)?;
    let (changed, last) = (Cell::new(0.0), RefCell::new(PathBuf::new()));
    let way =
        |job| Way { job, from, kind, changed: &changed, last: &last, number: Cell::new(0), metadata: Cell::new(None) };
    let in_place = matches!(subject, Subject::Small { .. }).then_some(Job::InPlace);
    let all: Vec<_> = [Job::Snapshot, Job::Writes, Job::Cat].into_iter().chain(in_place).map(way).collect();
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
    let (subject, title) = (subject::image(bytes), format!("image written whole on the same {}", kind.title()));
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
pub(crate) fn make(stage: &Stage, subject: Subject, title: &str) -> Result<()> {
    println!("{title}: making it");
    fs::create_dir(stage.tree())?;
    subject.make(&stage.tree())?;
    output(&mut snapshot(stage)).map(drop)
}

/// A snapshot of the source.
pub(crate) fn snapshot(stage: &Stage) -> Command {
    let mut command = plain(Some(pleach()));
    command.args(["snapshot", "--json"]).arg(stage.tree()).arg(repo(stage));
    command
}

fn repo(stage: &Stage) -> PathBuf {
    stage.written().join("repo")
}

/// The path of the source in the newest snapshot.
pub(crate) fn latest(stage: &Stage) -> PathBuf {
    latest_tree(stage).join(stage.tree().strip_prefix("/").unwrap_or(&stage.tree()))
}

/// The newest snapshot.
pub(crate) fn latest_tree(stage: &Stage) -> PathBuf {
    repo(stage).join("latest")
}

/// Checks that the newest snapshot has the content of the source.
pub(crate) fn ensure_equal(stage: &Stage) -> Result<()> {
    ensure!(blocks::differing(&latest(stage), &stage.tree())? == 0, "the last snapshot does not equal its source");
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Snapshot,
    /// The floor of the space.
    Writes,
    /// The floor of the metadata on Btrfs.
    InPlace,
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
    /// The metadata of Btrfs in use before a run.
    metadata: Cell<Option<u64>>,
}

impl Contender for Way<'_> {
    fn name(&self) -> String {
        match self.job {
            Job::Snapshot => "pleach snapshot",
            Job::Writes => "the bare writes",
            Job::InPlace => "the bare writes, in place",
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
            Job::Writes | Job::InPlace => own(),
            Job::Cat => find("find"),
        }
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        if self.job == Job::Cat {
            return Ok(());
        }
        stage.mark()?;
        self.metadata.set(space::metadata(stage.written())?);
        Ok(())
    }

    fn command(&self, stage: &Stage) -> Command {
        match self.job {
            Job::Snapshot => snapshot(stage),
            Job::Writes | Job::InPlace => {
                // The new tree stays, so that the next round does not start with half-freed space.
                self.number.set(self.number.get() + 1);
                let name = if self.job == Job::InPlace { "in-place" } else { "floor" };
                let to = stage.written().join(format!("{name}-{}", self.number.get()));
                let mut command = floor::command(["writes"]);
                command.args((self.kind == Kind::Btrfs).then_some("--subvolume"));
                command.args((self.job == Job::InPlace).then_some("--in-place"));
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
        if let (Some(before), Some(after)) = (self.metadata.get(), space::metadata(stage.written())?) {
            figures.insert("metadata_bytes", after as f64 - before as f64);
        }
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
