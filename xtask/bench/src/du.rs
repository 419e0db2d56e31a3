//! `cargo xtask bench du`: the space that a repository uses and shares, by pleach and by `btrfs filesystem du -s`, with
//! `du -s` as the floor. On an XFS with a reverse map also by pleach without the right to read the map.
//!
//! The repository holds 20 snapshots; each differs from the previous one in some of its files.

use crate::contender::{Contender, Figures, Role, present};
use crate::record::{About, finish};
use crate::report;
use crate::runner::{self, Measured, Plan};
use crate::session::{self, Common, ensure_usual};
use crate::stage::Stage;
use crate::tools::{plain, pleach};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use xtask::command::{find, output};
use xtask::image::Kind;
use xtask::noise::Noise;
use xtask::space;

const SNAPSHOTS: u32 = 20;
/// One file in this many changes between two snapshots.
const CHANGING: u32 = 100;
/// The number of files for recorded figures.
const FILES: u32 = 50_000;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each command runs; medians are given
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    common: Common,
    /// Files in each of the 20 snapshots
    #[arg(long, default_value_t = FILES, value_parser = clap::value_parser!(u32).range(100..))]
    files: u32,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.files == FILES)?;
    session::on_each(&options.common.kinds, || Ok(()), |kind, dir| on(kind, dir, options, save))
}

/// A way to make a filesystem: its name, the arguments for mkfs, and a contender besides pleach and `du -s`.
type Form = (&'static str, &'static [&'static str], Option<Way>);

fn on(kind: Kind, dir: &Path, options: &Options, save: bool) -> Result<()> {
    let forms: &[Form] = match kind {
        Kind::Xfs => {
            &[("XFS", &["-m", "rmapbt=0"], None), ("XFS with a reverse map", &["-m", "rmapbt=1"], Some(Way::EachFile))]
        }
        Kind::Btrfs => &[("Btrfs", &[], Some(Way::Btrfs))],
        Kind::Ext4 => &[("ext4", &[], None)],
    };
    forms.iter().try_for_each(|form| on_form((kind, *form), dir, options, save))
}

fn on_form((kind, (name, mkfs, peer)): (Kind, Form), dir: &Path, options: &Options, save: bool) -> Result<()> {
    let mebibytes = 4096 + u64::from(options.files) * 16 / 25;
    let mut stage = Stage::with(dir, (kind, mebibytes), mkfs)?;
    fill(&stage, options.files)?;
    // No contender reads content, so only names and inodes need to be in memory.
    stage.known = vec![stage.fresh()];
    stage.remount()?;
    let all = present([Some(Way::Pleach), peer, Some(Way::Du)].into_iter().flatten().collect());
    let sizes = format!(
        "{SNAPSHOTS} snapshots of {} files of 4 to 12 KiB, one of {CHANGING} changed between two",
        report::thousands(options.files.into())
    );
    for &cache in &options.common.caches {
        let title = format!("{name}, {}", cache.name());
        let plan = Plan { label: title.clone(), rounds: options.runs, cache };
        let rows = runner::run(&mut stage, &all, &plan)?;
        agree(&rows)?;
        let checked = match peer {
            Some(peer) => format!("total, exclusive and shared bytes equal those of {}", peer.name()),
            None => "the exit status".into(),
        };
        finish(About { question: "du", title, sizes: &sizes, checked: &checked }, &plan, &rows, save)?;
    }
    stage.strike()
}

/// All contenders that report the same quantity must agree on it.
fn agree(rows: &[Measured]) -> Result<()> {
    for figure in ["total_bytes", "exclusive_bytes", "shared_bytes"] {
        let values: Vec<_> = rows.iter().flat_map(|row| row.values(figure)).collect();
        ensure!(values.windows(2).all(|pair| pair[0] == pair[1]), "{figure} do not agree: {values:?}");
    }
    Ok(())
}

/// Makes the repository.
fn fill(stage: &Stage, files: u32) -> Result<()> {
    let tree = stage.tree();
    println!("{}: writing {files} files", stage.kind().name());
    let file = |number: u32| tree.join(format!("{:04}/file-{number:06}", number / 100));
    for number in 0..files {
        if number % 100 == 0 {
            fs::create_dir_all(tree.join(format!("{:04}", number / 100)))?;
        }
        fs::write(file(number), content(number, 0))?;
    }
    for round in 1..=SNAPSHOTS {
        println!("{}: snapshot {round} of {SNAPSHOTS}", stage.kind().name());
        let mut snapshot = plain(Some(pleach()));
        snapshot.args(["snapshot", "--quiet", "--hash", "none", "--name", &format!("s{round:02}")]);
        output(snapshot.arg(&tree).arg(stage.fresh()))?;
        for number in (0..files).filter(|number| number % CHANGING == round) {
            fs::write(file(number), content(number, round))?;
        }
    }
    space::sync(stage.source())
}

/// Unique content of 4 to 12 KiB.
fn content(number: u32, round: u32) -> Vec<u8> {
    let seed = (u64::from(number) << 32 | u64::from(round)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    Noise::from(seed).bytes(4096 + number as usize % 9 * 1000)
}

/// The program that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Pleach,
    /// pleach without `CAP_SYS_ADMIN`.
    EachFile,
    Btrfs,
    Du,
}

impl Contender for Way {
    fn name(&self) -> String {
        match self {
            Way::Pleach => "pleach du",
            Way::EachFile => "`pleach du` from the extents of each file",
            Way::Btrfs => "`btrfs filesystem du -s`",
            Way::Du => "`du -s`",
        }
        .into()
    }

    fn role(&self) -> Role {
        match self {
            Way::Pleach => Role::Ours,
            Way::EachFile | Way::Btrfs => Role::Peer,
            Way::Du => Role::Floor,
        }
    }

    fn program(&self) -> Option<PathBuf> {
        match self {
            Way::Pleach => Some(pleach()),
            Way::EachFile => find("setpriv"),
            Way::Btrfs => find("btrfs"),
            Way::Du => find("du"),
        }
    }

    fn command(&self, stage: &Stage) -> Command {
        let mut command = plain(self.program());
        match self {
            Way::Pleach => command.args(["du", "--json"]),
            Way::EachFile => {
                command.args(["--inh-caps=-all", "--bounding-set=-sys_admin"]).arg(pleach()).args(["du", "--json"])
            }
            Way::Btrfs => command.args(["filesystem", "du", "-s", "--raw"]),
            Way::Du => command.args(["-s", "--block-size=1"]),
        };
        command.arg(stage.fresh());
        command
    }

    fn is_heard(&self) -> bool {
        true
    }

    fn check(&self, _stage: &mut Stage, said: &str) -> Result<Figures> {
        let figures = reported(*self, said).with_context(|| format!("cannot read the figures in {said}"))?;
        Ok(["total_bytes", "exclusive_bytes", "shared_bytes"].into_iter().zip(figures).collect())
    }
}

/// Total, exclusive and shared bytes, from the programs that report them.
fn reported(who: Way, said: &str) -> Option<Vec<f64>> {
    match who {
        Way::Pleach | Way::EachFile => {
            let row = said.lines().find(|line| line.contains("\"type\":\"path\""))?;
            let row: serde_json::Value = serde_json::from_str(row).ok()?;
            ["disk_bytes", "exclusive_bytes", "shared_bytes"].iter().map(|field| row[field].as_f64()).collect()
        }
        Way::Btrfs => said.lines().last()?.split_whitespace().take(3).map(|word| word.parse().ok()).collect(),
        Way::Du => Some(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_both() {
        let json =
            "{\"type\":\"path\",\"disk_bytes\":3,\"exclusive_bytes\":1,\"shared_bytes\":2}\n{\"type\":\"summary\"}\n";
        assert_eq!(reported(Way::Pleach, json), Some(vec![3.0, 1.0, 2.0]));
        let table = "     Total   Exclusive  Set shared  Filename\n         3           1           2  /repo\n";
        assert_eq!(reported(Way::Btrfs, table), Some(vec![3.0, 1.0, 2.0]));
        assert_eq!(reported(Way::Pleach, ""), None);
    }
}
