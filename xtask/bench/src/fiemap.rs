//! `cargo xtask bench fiemap`: lists the extents of a file with a million extents, by pleach in each of its formats, by
//! filefrag and by xfs_io.
//!
//! Their output is discarded, so that none of them waits for a reader.

use crate::contender::{Contender, Role, first_line, present};
use crate::record::{About, finish};
use crate::report;
use crate::runner::{self, Plan};
use crate::session::{self, Common, ensure_usual};
use crate::stage::Stage;
use crate::tools::{plain, pleach};
use anyhow::{Context, Result};
use clap::Args;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use xtask::command::{find, output};
use xtask::image::Kind;
use xtask::packages;

/// The number of extents for recorded figures.
const EXTENTS: u64 = 1_000_000;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each command runs; medians are given
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    common: Common,
    /// How many extents the file has; only the usual number can be recorded
    #[arg(long, default_value_t = EXTENTS, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    extents: u64,
}

/// Runs the bench.
pub(crate) fn run(options: &Options, save: bool) -> Result<ExitCode> {
    ensure_usual(save, options.extents == EXTENTS)?;
    let gather = || packages::install(packages::LISTERS).map(drop);
    session::on_each(&options.common.kinds, gather, |kind, dir| on(kind, dir, options, save))
}

fn on(kind: Kind, dir: &Path, options: &Options, save: bool) -> Result<()> {
    let sizes = format!("{} extents of a block, a hole behind each", report::thousands(options.extents));
    // Offsets are twice as far apart as extents are long; one extent in eight takes space that is written.
    let mut stage = Stage::new(dir, (kind, (options.extents >> 7) + (2 << 10)), None)?;
    println!("{}: making a file of {sizes}", kind.name());
    scatter(&stage.tree(), options.extents).with_context(|| format!("cannot make {}", stage.tree().display()))?;
    let all = present(LISTERS.to_vec());
    for &cache in &options.common.caches {
        let title = format!("{}, {}", kind.title(), cache.name());
        let plan = Plan { label: title.clone(), rounds: options.runs, cache };
        // From here on the extent map is in memory, unless it is dropped each time. The content never needs to be.
        output(&mut LISTERS[0].command(&stage))?;
        let rows = runner::run(&mut stage, &all, &plan)?;
        let about = About { question: "fiemap", title, sizes: &sizes, checked: "the exit status" };
        finish(about, &plan, &rows, save)?;
    }
    stage.strike()
}

/// Alternates blocks and holes of one block. One block in eight is written, the others are preallocated.
fn scatter(path: &Path, extents: u64) -> Result<()> {
    const BLOCK: u64 = 4096;
    let file = File::create(path)?;
    // Writing beyond the end would make XFS preallocate more, between the extents.
    file.set_len(extents * 2 * BLOCK)?;
    let content = [0x70; BLOCK as usize];
    for n in 0..extents {
        match n % 8 {
            0 => file.write_all_at(&content, n * 2 * BLOCK)?,
            _ => fallocate(&file, FallocateFlags::empty(), n * 2 * BLOCK, BLOCK)?,
        }
    }
    Ok(file.sync_all()?)
}

/// A program that lists extents: its name, and its arguments before the file's name.
#[derive(Clone, Copy)]
struct Lister {
    name: &'static str,
    role: Role,
    program: &'static str,
    args: &'static [&'static str],
}

const LISTERS: [Lister; 8] = [
    Lister { name: "`pleach fiemap`", role: Role::Ours, program: "pleach", args: &["fiemap"] },
    Lister { name: "`… --json`", role: Role::Variant, program: "pleach", args: &["fiemap", "--json"] },
    Lister {
        name: "`… --format filefrag`",
        role: Role::Variant,
        program: "pleach",
        args: &["fiemap", "--format", "filefrag"],
    },
    Lister {
        name: "`… --format xfs_io`",
        role: Role::Variant,
        program: "pleach",
        args: &["fiemap", "--format", "xfs_io"],
    },
    Lister {
        name: "`… --format xfs_io -q`",
        role: Role::Variant,
        program: "pleach",
        args: &["fiemap", "--format", "xfs_io", "-q"],
    },
    Lister { name: "`filefrag -v`", role: Role::Peer, program: "filefrag", args: &["-v"] },
    Lister { name: "`xfs_io -c 'fiemap -v'`", role: Role::Peer, program: "xfs_io", args: &["-r", "-c", "fiemap -v"] },
    Lister { name: "`xfs_io -c fiemap`", role: Role::Peer, program: "xfs_io", args: &["-r", "-c", "fiemap"] },
];

impl Contender for Lister {
    fn name(&self) -> String {
        self.name.into()
    }

    fn role(&self) -> Role {
        self.role
    }

    fn program(&self) -> Option<PathBuf> {
        if self.program == "pleach" { Some(pleach()) } else { find(self.program) }
    }

    fn version(&self) -> String {
        let flag = if self.program == "pleach" { "--version" } else { "-V" };
        self.program().map(|program| first_line(&program, flag)).unwrap_or_default()
    }

    fn command(&self, stage: &Stage) -> Command {
        let mut command = plain(self.program());
        command.args(self.args).arg(stage.tree());
        command
    }
}
