//! `cargo xtask bench fiemap`: the extents of a file that has a million of them, listed by pleach in each of its formats, by
//! filefrag and by xfs_io.
//!
//! All of them take turns: each round runs every one once, every other round backwards, on the same file. What they print
//! is thrown away, so that nobody waits for a reader.

use super::measure::{Cache, Sample, median, sample, turns};
use super::{Common, pleach, report};
use anyhow::{Context, Result};
use clap::Args;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use xtask::command::{find, output, program};
use xtask::image::{Kind, Mounted};
use xtask::packages;

/// The extents of the file whose figures are written down.
const EXTENTS: u64 = 1_000_000;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each command runs; medians are given
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    common: Common,
    /// How many extents the file has; with another number than the usual docs/benchmarks.md is left alone
    #[arg(long, default_value_t = EXTENTS, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    extents: u64,
}

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let gather = || packages::install(packages::LISTERS).map(drop);
    super::on_own_filesystems(gather, |dir| on_all(dir, options))
}

fn on_all(dir: &Path, options: &Options) -> Result<()> {
    for &kind in &options.common.kinds {
        // Offsets are twice as far apart as extents are long; one extent in eight takes space that is written.
        let fs = Mounted::create(kind, dir, kind.name(), (options.extents >> 7) + (2 << 10))?;
        let file = fs.path().join("file");
        println!("{}: making a file of {} extents", kind.name(), report::thousands(options.extents));
        scatter(&file, options.extents).with_context(|| format!("cannot make {}", file.display()))?;
        for &cache in &options.common.caches {
            let rows = measure(kind, cache, fs.path(), &file, options.runs)?;
            let section = section(kind, cache, options, &rows);
            println!("\n{section}");
            if options.extents == EXTENTS {
                report::write(&format!("fiemap {} {}", kind.name(), cache.name()), &section)?;
            }
        }
        fs.check()?;
    }
    Ok(())
}

/// A block, a hole of a block, and so on; one block in eight is written, the others are reserved.
fn scatter(path: &Path, extents: u64) -> Result<()> {
    const BLOCK: u64 = 4096;
    let file = File::create(path)?;
    // Writing beyond the end would make XFS reserve more, between the extents.
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

/// Something that is measured: its name, and what it is called with before the file's name.
struct Lister {
    name: &'static str,
    program: &'static str,
    args: &'static [&'static str],
}

const LISTERS: [Lister; 8] = [
    Lister { name: "`pleach fiemap`", program: "pleach", args: &["fiemap"] },
    Lister { name: "`… --json`", program: "pleach", args: &["fiemap", "--json"] },
    Lister { name: "`… --format filefrag`", program: "pleach", args: &["fiemap", "--format", "filefrag"] },
    Lister { name: "`… --format xfs_io`", program: "pleach", args: &["fiemap", "--format", "xfs_io"] },
    Lister { name: "`… --format xfs_io -q`", program: "pleach", args: &["fiemap", "--format", "xfs_io", "-q"] },
    Lister { name: "`filefrag -v`", program: "filefrag", args: &["-v"] },
    Lister { name: "`xfs_io -c 'fiemap -v'`", program: "xfs_io", args: &["-r", "-c", "fiemap -v"] },
    Lister { name: "`xfs_io -c fiemap`", program: "xfs_io", args: &["-r", "-c", "fiemap"] },
];

impl Lister {
    fn command(&self, file: &Path) -> Command {
        let mut command = if self.is_ours() { program(pleach()) } else { program(self.program) };
        command.args(self.args).arg(file).env("LC_ALL", "C");
        command
    }

    fn is_ours(&self) -> bool {
        self.program == "pleach"
    }

    fn is_present(&self) -> bool {
        self.is_ours() || find(self.program).is_some()
    }

    fn version(&self) -> String {
        let flag = if self.program == "pleach" { "--version" } else { "-V" };
        let mut command = if self.is_ours() { program(pleach()) } else { program(self.program) };
        // filefrag says it on stderr.
        let said = command.arg(flag).output().map(|said| [said.stdout, said.stderr].concat()).unwrap_or_default();
        String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_string()
    }
}

/// What was measured of one of them.
struct Row {
    who: &'static Lister,
    samples: Vec<Sample>,
}

fn measure(kind: Kind, cache: Cache, root: &Path, file: &Path, runs: u32) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for who in &LISTERS {
        match who.is_present() {
            true => rows.push(Row { who, samples: Vec::new() }),
            false => println!("skipped: {}: not installed", who.name),
        }
    }
    // The map is in memory from here on, unless it is dropped each time. The content never needs to be.
    output(&mut LISTERS[2].command(file))?;
    for round in 0..runs {
        for index in turns(round, rows.len()) {
            if cache == Cache::Cold {
                cache.prepare(root, root, &[])?;
            }
            let who = rows[index].who;
            let taken = sample(&mut who.command(file), root)?;
            println!("{} {} {}: {:.2} s", kind.name(), cache.name(), who.name, taken.wall.as_secs_f64());
            rows[index].samples.push(taken);
        }
    }
    Ok(rows)
}

fn section(kind: Kind, cache: Cache, options: &Options, rows: &[Row]) -> String {
    let extents = report::thousands(options.extents);
    let mut text = format!("## A file of {extents} extents on {}, {} cache\n\n", kind.title(), cache.name());
    text.push_str(&format!("{}. Medians of {} runs in turns; ", report::machine(), options.runs));
    text.push_str(
        "what is printed goes to `/dev/null`. Each extent is one block with a hole\n\
         behind it, one in eight is written and the others are reserved. Memory is the peak that the kernel tells of the\n\
         running process. `xfs_io` has the kernel sync the file with each of its batches of 32 extents, pleach once, `filefrag`\n\
         never; there is nothing to sync here.\n\n",
    );
    let wall = |row: &Row| median(row.samples.iter().map(|sample| sample.wall.as_secs_f64()).collect());
    let filefrag = rows.iter().find(|row| row.who.program == "filefrag").map_or(f64::NAN, wall);
    let figure = |row: &Row, what: fn(&Sample) -> f64| median(row.samples.iter().map(what).collect());
    let cells = |row: &Row| {
        let seconds = wall(row);
        let all = row.samples.iter().map(|sample| sample.wall.as_secs_f64());
        let (least, most) = all.fold((f64::MAX, 0.0_f64), |(least, most), wall| (least.min(wall), most.max(wall)));
        vec![
            row.who.name.to_string(),
            format!("{seconds:.2}"),
            format!("{least:.2}–{most:.2}"),
            format!("{:.2}", seconds / filefrag),
            format!("{:.2}", figure(row, |sample| sample.user.as_secs_f64())),
            format!("{:.2}", figure(row, |sample| sample.system.as_secs_f64())),
            format!("{:.2}", seconds * 1e6 / options.extents as f64),
            report::mebibytes(figure(row, |sample| sample.memory as f64)),
        ]
    };
    let heading = ["", "s", "least–most", "/ filefrag", "user s", "system s", "µs an extent", "memory MiB"];
    text.push_str(&report::table(&heading, &rows.iter().map(cells).collect::<Vec<_>>()));
    text.push_str("\nVersions:\n\n");
    for program in ["pleach", "filefrag", "xfs_io"] {
        if let Some(row) = rows.iter().find(|row| row.who.program == program) {
            text.push_str(&format!("- {program}: {}\n", row.who.version()));
        }
    }
    text
}
