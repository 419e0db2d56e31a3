//! `cargo xtask bench chain`: a year of snapshots. One block in a thousand of an image changes before each, and the
//! last ones are compared with those around the tenth.
//!
//! Each change cuts extents of the image, so the list of its extents grows from night to night, and with it the work of
//! each call that walks this list. A clone of the image and its deletion show what the kernel takes for that, and the
//! floor what it takes to write the changed blocks into a version of the last snapshot.

use crate::contender::{Contender, Figures, Role};
use crate::floor;
use crate::measure::summary;
use crate::nights::subject::Subject;
use crate::nights::{From, ensure_equal, latest, latest_tree, make, snapshot};
use crate::record::{About, finish};
use crate::runner::{self, Plan};
use crate::session::{self, Rounds, ensure_usual};
use crate::stage::{Cache, Stage, remove_all};
use crate::tools::pleach;
use anyhow::Result;
use clap::Args;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use xtask::command::{find, output, program};
use xtask::image::Kind;
use xtask::space;

/// The sizes for recorded figures.
const NIGHTS: u32 = 365;
const GIB: u64 = 4;
/// One block in this many changes before each snapshot.
const CHANGING: u64 = 1000;
/// The night that the last one is compared with.
const EARLY: u32 = 10;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// The number of nights
    #[arg(long, default_value_t = NIGHTS, value_parser = clap::value_parser!(u32).range(20..=10_000))]
    nights: u32,
    /// How large the image is, in GiB
    #[arg(long, default_value_t = GIB, value_parser = clap::value_parser!(u64).range(1..=1024))]
    gib: u64,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.nights == NIGHTS && options.gib == GIB)?;
    session::on_each(
        &options.rounds.kinds,
        || Ok(()),
        |kind, dir| [From::Elsewhere, From::Here].into_iter().try_for_each(|from| on(kind, dir, from, options, save)),
    )
}

fn on(kind: Kind, dir: &Path, from: From, options: &Options, save: bool) -> Result<()> {
    let image = Subject::Image { bytes: options.gib << 30, changing: CHANGING };
    // Each snapshot keeps the changed blocks, and on Btrfs a leaf of the tree for nearly each of them.
    let gib = options.gib * (4 + u64::from(options.nights) / 40);
    let mut stage = from.stage(dir, kind, gib << 10)?;
    let place = from.title(image, kind);
    make(&stage, image, &place)?;
    let sizes = format!("{} GiB, one block in {CHANGING} changed before each snapshot", options.gib);
    let (night, mut medians) = (Cell::new(1), Vec::new());
    let change = |stage: &Stage| {
        night.set(night.get() + 1);
        image.change(&stage.tree(), night.get())
    };
    for last in [EARLY, options.nights] {
        let title = format!("{place}, night {last}");
        while night.get() + options.rounds.runs < last {
            change(&stage)?;
            output(&mut snapshot(&stage))?;
        }
        let plan = Plan { label: title.clone(), rounds: options.rounds.runs, cache: Cache::Cold };
        let bytes = options.gib << 30;
        let jobs = [Job::Writes, Job::Snapshot, Job::Clone, Job::Delete];
        let jobs = jobs.map(|job| Way { job, kind, bytes, night: &night });
        let rows = runner::run_rounds(&mut stage, &jobs, &plan, &mut |stage, _| {
            change(stage)?;
            space::sync(stage.source())
        })?;
        let own = rows.iter().find(|row| row.role == Role::Ours);
        medians.push(own.map_or(0.0, |row| row.median("seconds")));
        finish(
            About { question: "chain", title, sizes: &sizes, checked: "the snapshot equals its source" },
            &plan,
            &rows,
            save,
        )?;
    }
    println!("night {} took {:.2} of the time of night {EARLY}", options.nights, medians[1] / medians[0]);
    stage.strike()
}

/// A clone of the newest image in the repository.
fn clone(stage: &Stage) -> Command {
    let mut command = program("cp");
    command.arg("--reflink=always").arg(latest(stage).join("image")).arg(stage.fresh());
    command
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Snapshot,
    /// The changed blocks, written into a version of the last snapshot.
    Writes,
    /// A clone of the image.
    Clone,
    /// The deletion of a clone. XFS does most of it later, in the background.
    Delete,
}

struct Way<'n> {
    job: Job,
    kind: Kind,
    /// The size of the image.
    bytes: u64,
    /// The changes that the next snapshot meets.
    night: &'n Cell<u32>,
}

impl Contender for Way<'_> {
    fn name(&self) -> String {
        match self.job {
            Job::Snapshot => "pleach snapshot",
            Job::Writes => "floor: the changed blocks, written in place",
            Job::Clone => "`cp --reflink=always`",
            Job::Delete => "`rm` of a clone",
        }
        .into()
    }

    fn role(&self) -> Role {
        if self.job == Job::Snapshot { Role::Ours } else { Role::Floor }
    }

    fn program(&self) -> Option<PathBuf> {
        match self.job {
            Job::Snapshot => Some(pleach()),
            Job::Writes => std::env::current_exe().ok(),
            Job::Clone => find("cp"),
            Job::Delete => find("rm"),
        }
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        if self.job == Job::Delete { output(&mut clone(stage)).map(drop) } else { Ok(()) }
    }

    fn command(&self, stage: &Stage) -> Command {
        match self.job {
            Job::Snapshot => snapshot(stage),
            Job::Writes => {
                let mut command = floor::command(["change"]);
                command.args((self.kind == Kind::Btrfs).then_some("--subvolume"));
                command.args(["--bytes".into(), self.bytes.to_string(), "--changing".into(), CHANGING.to_string()]);
                command.args(["--round".into(), self.night.get().to_string()]);
                let within = stage.tree();
                command.arg(latest_tree(stage)).arg(within.strip_prefix("/").unwrap_or(&within)).arg(stage.fresh());
                command
            }
            Job::Clone => clone(stage),
            Job::Delete => {
                let mut command = program("rm");
                command.arg(stage.fresh());
                command
            }
        }
    }

    fn is_heard(&self) -> bool {
        self.job == Job::Snapshot
    }

    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        if self.job == Job::Snapshot {
            ensure_equal(stage)?;
            return Ok(Figures::from([("data_bytes", summary(said, "read_bytes")?)]));
        }
        // Nothing of it may be left to do while the next contender runs.
        remove_all(stage.written(), &[stage.fresh()])?;
        stage.settle()?;
        Ok(Figures::new())
    }
}
