//! `cargo xtask bench verify`: 20 snapshots that share 2 GiB, against `cat` of one of them.

use crate::contender::{Contender, Figures, Role, present};
use crate::measure::summary;
use crate::record::{About, finish};
use crate::report;
use crate::runner::{self, Plan};
use crate::session::{self, Rounds, ensure_usual};
use crate::stage::{Cache, Stage};
use crate::tools::{plain, pleach};
use anyhow::{Result, ensure};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use xtask::command::{find, output, program};
use xtask::image::Kind;
use xtask::noise::Noise;
use xtask::space;

const SNAPSHOTS: u32 = 20;
/// The data of a snapshot in MiB for recorded figures.
const MEBIBYTES: u64 = 2048;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// The data of a snapshot, in MiB
    #[arg(long, default_value_t = MEBIBYTES, value_parser = clap::value_parser!(u64).range(64..))]
    size: u64,
}

/// The sizes of the files: many small ones, some of a megabyte, and few large ones, each kind a third of the data.
const SIZES: [usize; 3] = [64 << 10, 1 << 20, 32 << 20];

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.size == MEBIBYTES)?;
    session::on_each(&options.rounds.kinds, || Ok(()), |kind, dir| on(kind, dir, options, save))
}

fn on(kind: Kind, dir: &Path, options: &Options, save: bool) -> Result<()> {
    let mut stage = Stage::new(dir, (kind, options.size * 3 / 2 + 2048), None)?;
    let data = fill(&stage, options.size)?;
    stage.remount()?;
    let all = present(vec![Way { is_ours: true, data }, Way { is_ours: false, data }]);
    let title = format!("{}, cold", kind.title());
    let sizes = format!("{SNAPSHOTS} snapshots that share {} bytes", report::thousands(data));
    let plan = Plan { label: title.clone(), rounds: options.rounds.runs, cache: Cache::Cold };
    let rows = runner::run(&mut stage, &all, &plan)?;
    let checked = "all files are verified, and each byte is read once";
    finish(About { question: "verify", title, sizes: &sizes, checked }, &plan, &rows, save)?;
    stage.strike()
}

/// Makes the repository, and returns the bytes of data of each snapshot.
fn fill(stage: &Stage, mebibytes: u64) -> Result<u64> {
    let tree = stage.tree();
    println!("{}: writing {mebibytes} MiB and {SNAPSHOTS} snapshots", stage.kind().name());
    if stage.kind() == Kind::Btrfs {
        output(program("btrfs").args(["subvolume", "create"]).arg(&tree))?;
    }
    let (mut noise, mut data) = (Noise::from(5), 0);
    for size in SIZES {
        let dir = tree.join(format!("{size}"));
        fs::create_dir_all(&dir)?;
        let count = (mebibytes << 20) / 3 / size as u64;
        for number in 0..count {
            fs::write(dir.join(format!("file-{number}")), noise.bytes(size))?;
        }
        data += count * size as u64;
    }
    space::sync(&tree)?;
    for round in 1..=SNAPSHOTS {
        let mut snapshot = plain(Some(pleach()));
        snapshot.args(["snapshot", "--quiet", "--name", &format!("s{round:02}")]).arg(&tree).arg(stage.fresh());
        output(&mut snapshot)?;
    }
    space::sync(stage.source())?;
    Ok(data)
}

struct Way {
    is_ours: bool,
    data: u64,
}

impl Contender for Way {
    fn name(&self) -> String {
        if self.is_ours { "pleach verify" } else { "`cat` of one snapshot" }.into()
    }

    fn role(&self) -> Role {
        if self.is_ours { Role::Ours } else { Role::Floor }
    }

    fn program(&self) -> Option<PathBuf> {
        if self.is_ours { Some(pleach()) } else { find("cat") }
    }

    fn command(&self, stage: &Stage) -> Command {
        if self.is_ours {
            let mut command = plain(self.program());
            command.args(["verify", "--json"]).arg(stage.fresh());
            return command;
        }
        let mut command = program("bash");
        command.args(["-c", "find \"$1\" -type f -exec cat {} + > /dev/null", "bash"]);
        command.arg(stage.fresh().join("s07"));
        command
    }

    fn is_heard(&self) -> bool {
        self.is_ours
    }

    fn check(&self, _stage: &mut Stage, said: &str) -> Result<Figures> {
        if !self.is_ours {
            return Ok(Figures::new());
        }
        let read = summary(said, "read_bytes")?;
        ensure!(read == self.data as f64, "{read} bytes were read instead of {}", self.data);
        Ok(Figures::from([("data_bytes", read)]))
    }
}
