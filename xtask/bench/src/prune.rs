//! `cargo xtask bench prune`: 50 of 60 snapshots removed, against `rm -rf` of the same trees.
//!
//! The snapshots lie on the filesystem of their source, so on Btrfs they are subvolumes. There pleach also runs without
//! the wait until the space is free. The floor is `btrfs subvolume delete` with that wait, and on XFS two runs of
//! `rm -rf` at a time.

use crate::contender::{Contender, Figures, Role, present};
use crate::measure::summary;
use crate::record::{About, finish};
use crate::report;
use crate::runner::{self, Plan};
use crate::session::{self, Common, ensure_usual};
use crate::stage::Stage;
use crate::tools::{plain, pleach};
use anyhow::{Result, ensure};
use clap::Args;
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use xtask::command::{find, output, program};
use xtask::image::Kind;
use xtask::noise::Noise;
use xtask::space;

const SNAPSHOTS: u32 = 60;
const STAYING: u32 = 10;
/// One file in this many changes between two snapshots.
const CHANGING: u32 = 100;
/// The number of files for recorded figures.
const FILES: u32 = 50_000;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each way is taken; medians are given
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    common: Common,
    /// Files in each of the 60 snapshots
    #[arg(long, default_value_t = FILES, value_parser = clap::value_parser!(u32).range(100..))]
    files: u32,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.files == FILES)?;
    session::on_each(&options.common.kinds, || Ok(()), |kind, dir| on(kind, dir, options, save))
}

fn on(kind: Kind, dir: &Path, options: &Options, save: bool) -> Result<()> {
    let mut stage = Stage::new(dir, (kind, 2048 + u64::from(options.files) * 4 / 25), None)?;
    fill(&stage, options.files)?;
    stage.keep()?;
    let ways = match kind {
        Kind::Btrfs => vec![How::Pleach, How::Rm, How::PleachNoWait, How::Subvolumes],
        _ => vec![How::Pleach, How::Rm, How::RmTwice],
    };
    let all = present(ways.into_iter().map(|how| Way { how, foretold: Cell::new(0.0) }).collect());
    let sizes = format!(
        "{} of {SNAPSHOTS} snapshots of {} files of 4 to 12 KiB, one of {CHANGING} changed between two",
        SNAPSHOTS - STAYING,
        report::thousands(options.files.into())
    );
    for &cache in &options.common.caches {
        let title = format!("{}, {}", kind.title(), cache.name());
        let plan = Plan { label: title.clone(), rounds: options.runs, cache };
        stage.known = if kind == Kind::Btrfs { Vec::new() } else { removed(&stage) };
        let rows = runner::run(&mut stage, &all, &plan)?;
        let checked = "the right snapshots are left; the freed space is what the dry run foretold";
        finish(About { question: "prune", title, sizes: &sizes, checked }, &plan, &rows, save)?;
    }
    stage.strike()
}

/// Makes the repository.
fn fill(stage: &Stage, files: u32) -> Result<()> {
    let tree = stage.tree();
    println!("{}: writing {files} files and {SNAPSHOTS} snapshots", stage.kind().name());
    if stage.kind() == Kind::Btrfs {
        output(program("btrfs").args(["subvolume", "create"]).arg(&tree))?;
    }
    let file = |number: u32| tree.join(format!("{:04}/file-{number:06}", number / 100));
    let write = |number: u32, round: u32| {
        let seed = (u64::from(number) << 32 | u64::from(round)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        fs::write(file(number), Noise::from(seed).bytes(4096 + number as usize % 9 * 1000))
    };
    for number in 0..files {
        if number % 100 == 0 {
            fs::create_dir_all(tree.join(format!("{:04}", number / 100)))?;
        }
        write(number, 0)?;
    }
    for round in 1..=SNAPSHOTS {
        let mut snapshot = plain(Some(pleach()));
        snapshot.args(["snapshot", "--quiet", "--hash", "none", "--name", &name(round)]);
        output(snapshot.arg(&tree).arg(stage.fresh()))?;
        (0..files).filter(|number| number % CHANGING == round).try_for_each(|number| write(number, round))?;
    }
    space::sync(stage.source())
}

fn name(round: u32) -> String {
    format!("s{round:02}")
}

/// The trees that go.
fn removed(stage: &Stage) -> Vec<PathBuf> {
    (1..=SNAPSHOTS - STAYING).map(|round| stage.fresh().join(name(round))).collect()
}

/// The manner of removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Pleach,
    PleachNoWait,
    Rm,
    RmTwice,
    Subvolumes,
}

struct Way {
    how: How,
    /// The freed space that the dry run reported.
    foretold: Cell<f64>,
}

impl Contender for Way {
    fn name(&self) -> String {
        match self.how {
            How::Pleach => "pleach prune",
            How::PleachNoWait => "pleach prune --no-wait",
            How::Rm => "`rm -rf`",
            How::RmTwice => "`rm -rf`, two at a time",
            How::Subvolumes => "`btrfs subvolume delete`",
        }
        .into()
    }

    fn role(&self) -> Role {
        match self.how {
            How::Pleach | How::PleachNoWait => Role::Ours,
            How::Rm => Role::Peer,
            How::RmTwice | How::Subvolumes => Role::Floor,
        }
    }

    fn program(&self) -> Option<PathBuf> {
        match self.how {
            How::Pleach | How::PleachNoWait => Some(pleach()),
            How::Rm | How::RmTwice => find("rm"),
            How::Subvolumes => find("btrfs"),
        }
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        stage.restore()?;
        match self.how {
            How::Pleach => {
                let said = output(&mut prune(stage, &["--dry-run"]))?;
                self.foretold.set(summary(&said, "freed_bytes")?);
            }
            // `rm` cannot delete from a snapshot that is read-only.
            How::Rm if stage.kind() == Kind::Btrfs => {
                for tree in removed(stage) {
                    output(program("btrfs").args(["property", "set", "-f", "-ts"]).arg(tree).args(["ro", "false"]))?;
                }
            }
            How::PleachNoWait | How::Rm | How::RmTwice | How::Subvolumes => {}
        }
        stage.mark()
    }

    fn command(&self, stage: &Stage) -> Command {
        let trees = removed(stage);
        match self.how {
            How::Pleach => prune(stage, &[]),
            How::PleachNoWait => prune(stage, &["--no-wait"]),
            How::Rm => {
                let mut command = plain(self.program());
                command.arg("-rf").args(trees);
                command
            }
            How::RmTwice => {
                let mut command = program("bash");
                command.args(["-c", "printf '%s\\0' \"$@\" | xargs -0 -n 1 -P 2 rm -rf", "bash"]).args(trees);
                command
            }
            How::Subvolumes => {
                let mut command = program("bash");
                let script =
                    "btrfs subvolume delete --commit-after \"$@\" && btrfs subvolume sync \"$(dirname \"$1\")\"";
                command.args(["-c", script, "bash"]).args(trees);
                command
            }
        }
    }

    fn is_heard(&self) -> bool {
        matches!(self.how, How::Pleach | How::PleachNoWait)
    }

    fn check(&self, stage: &mut Stage, _said: &str) -> Result<Figures> {
        ensure!(removed(stage).iter().all(|tree| !tree.exists()), "a tree is still there");
        if stage.kind() == Kind::Btrfs {
            output(program("btrfs").args(["subvolume", "sync"]).arg(stage.source()))?;
        }
        let freed = -stage.added()?;
        let mut figures = Figures::from([("freed_bytes", freed)]);
        if self.how == How::Pleach {
            let stay = fs::read_dir(stage.fresh())?.flatten().filter(|entry| entry.file_name() != "latest");
            let stay = stay.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count();
            ensure!(stay == STAYING as usize, "{stay} snapshots are left");
            let foretold = self.foretold.get();
            figures.extend([("foretold_bytes", foretold), ("foretold_ratio", foretold / freed)]);
        }
        Ok(figures)
    }
}

fn prune(stage: &Stage, options: &[&str]) -> Command {
    let mut command = plain(Some(pleach()));
    command.args(["prune", "--json", "--keep-last", &STAYING.to_string()]);
    command.args(options).arg(stage.fresh());
    command
}
