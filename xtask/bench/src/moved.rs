//! `cargo xtask bench moved`: a directory of 64 GiB that was moved on another filesystem since the last snapshot.
//!
//! No content may be copied. `cp -a` of the directory shows the cost of copying it.

use crate::contender::{Contender, Figures, Role};
use crate::measure::summary;
use crate::record::{About, finish};
use crate::runner::{self, Plan};
use crate::session::{self, Rounds};
use crate::stage::{Cache, Stage};
use crate::tools::{plain, pleach};
use anyhow::{Result, ensure};
use clap::Args;
use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use xtask::command::{find, output};
use xtask::image::Kind;
use xtask::noise::Noise;
use xtask::space;

const SMALL_FILES: u32 = 20_000;
/// The number of large files, their size, and the amount of data in the middle of each.
const LARGE: (u32, u64, usize) = (8, 8 << 30, 8 << 20);

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    let Rounds { runs, kinds } = &options.rounds;
    session::on_each(kinds, || Ok(()), |kind, dir| on(kind, dir, *runs, save))
}

fn on(kind: Kind, dir: &Path, rounds: u32, save: bool) -> Result<()> {
    let mut stage = Stage::new(dir, (Kind::Xfs, 4 << 10), Some((kind, 8 << 10)))?;
    println!("{}: writing the directory", kind.name());
    fill(&stage.tree().join("0/data"))?;
    output(plain(Some(pleach())).args(["snapshot", "--quiet"]).arg(stage.tree()).arg(repo(&stage)))?;
    let all = [Change::Unchanged, Change::Moved, Change::Renamed, Change::Cp];
    let all = all.map(|change| Way { change, number: Cell::new(0) });
    let plan = Plan { label: kind.name().into(), rounds, cache: Cache::Cold };
    let rows = runner::run(&mut stage, &all, &plan)?;
    let about = About {
        question: "moved",
        title: kind.title().into(),
        sizes: "8 files of 8 GiB with 8 MiB of data each, 20,000 files of 4 to 12 KiB; on another XFS",
        checked: "no data copied",
    };
    finish(about, &plan, &rows, save)?;
    stage.strike()
}

fn repo(stage: &Stage) -> PathBuf {
    stage.written().join("repo")
}

fn fill(dir: &Path) -> Result<()> {
    let mut noise = Noise::from(7);
    for number in 0..SMALL_FILES {
        let inner = dir.join(format!("small/{:03}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&inner)?;
        }
        fs::write(inner.join(format!("file-{number:05}")), noise.bytes(4096 + number as usize % 9 * 1000))?;
    }
    for number in 0..LARGE.0 {
        let file = File::create(dir.join(format!("large-{number}")))?;
        file.set_len(LARGE.1)?;
        file.write_all_at(&noise.bytes(LARGE.2), LARGE.1 / 2)?;
    }
    space::sync(dir)
}

/// The change to the directory since the last snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Unchanged,
    Moved,
    Renamed,
    /// No snapshot, but a copy.
    Cp,
}

struct Way {
    change: Change,
    /// The number of changes so far.
    number: Cell<u32>,
}

impl Way {
    fn next(&self) -> u32 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }
}

impl Contender for Way {
    fn name(&self) -> String {
        match self.change {
            Change::Unchanged => "unchanged",
            Change::Moved => "directory moved",
            Change::Renamed => "every file renamed",
            Change::Cp => "`cp -a`",
        }
        .into()
    }

    fn role(&self) -> Role {
        if self.change == Change::Cp { Role::Peer } else { Role::Ours }
    }

    fn program(&self) -> Option<PathBuf> {
        if self.change == Change::Cp { find("cp") } else { Some(pleach()) }
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        match self.change {
            Change::Unchanged | Change::Cp => {}
            Change::Moved => {
                let from = only_entry(&stage.tree())?;
                let above = stage.tree().join(format!("moved-{}", self.next()));
                fs::create_dir(&above)?;
                fs::rename(from.join("data"), above.join("data"))?;
                fs::remove_dir(from)?;
            }
            Change::Renamed => rename_all(&only_entry(&stage.tree())?, self.next())?,
        }
        stage.mark()
    }

    fn command(&self, stage: &Stage) -> Command {
        let mut command = plain(self.program());
        match self.change {
            Change::Cp => command.arg("-a").arg(stage.tree()).arg(stage.fresh()),
            _ => command.args(["snapshot", "--json"]).arg(stage.tree()).arg(repo(stage)),
        };
        command
    }

    fn is_heard(&self) -> bool {
        self.change != Change::Cp
    }

    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        let added = stage.added()?;
        if self.change == Change::Cp {
            return Ok(Figures::from([("copied_bytes", added), ("added_bytes", added)]));
        }
        let (copied, read) = (summary(said, "copied_bytes")?, summary(said, "read_bytes")?);
        ensure!(copied == 0.0, "{copied} bytes were copied");
        Ok(Figures::from([("copied_bytes", copied), ("data_bytes", read), ("added_bytes", added)]))
    }

    fn cleanup(&self, stage: &mut Stage) -> Result<()> {
        // The snapshots stay, because later snapshots build upon them.
        if self.change == Change::Cp { crate::stage::remove_all(stage.written(), &[stage.fresh()]) } else { Ok(()) }
    }
}

/// The only entry of a directory.
fn only_entry(dir: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    ensure!(entries.len() == 1, "{} has {} entries", dir.display(), entries.len());
    Ok(entries[0].clone())
}

fn rename_all(dir: &Path, number: u32) -> Result<()> {
    for entry in fs::read_dir(dir)?.collect::<std::io::Result<Vec<_>>>()? {
        if entry.file_type()?.is_dir() {
            rename_all(&entry.path(), number)?;
        } else {
            fs::rename(entry.path(), entry.path().with_extension(format!("{number}")))?;
        }
    }
    Ok(())
}
