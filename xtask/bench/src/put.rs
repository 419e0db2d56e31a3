//! `cargo xtask bench put`: a text of 5 million lines goes through sed, which changes a few lines in place, and takes the place
//! of its last version; the same with a block inserted at its beginning; and it is made anew. By `pleach put`, and by
//! the shell's `>` with fsync and rename, from sed itself and from `cat` behind it.
//!
//! All of them take turns on the same file. A clone of the last version stays, as a snapshot's would: so what is added on the
//! disk is what the new version costs. What is shared is told by xfs_io.

use super::measure::{Cache, Sample, median, sample, turns};
use super::{Common, pleach, report};
use anyhow::{Context, Result};
use clap::Args;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use xtask::command::{output, program};
use xtask::image::{Kind, Mounted};
use xtask::noise::Noise;
use xtask::space;

/// The lines of the text whose figures are written down.
const LINES: u64 = 5_000_000;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each way is taken; medians are given
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    common: Common,
    /// How many lines the text has; with another number than the usual docs/benchmarks.md is left alone
    #[arg(long, default_value_t = LINES, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    lines: u64,
}

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    super::on_own_filesystems(|| Ok(()), |dir| options.common.kinds.iter().try_for_each(|&kind| on(kind, dir, options)))
}

/// Where the stream comes from, and what becomes of it. In the directory are `text`, a `block`, `file` and its clone `kept`.
struct Case {
    title: &'static str,
    /// The program whose output is the new content; `LAST` and `MIDDLE` stand for numbers of lines.
    stream: &'static str,
    /// Whether there is a last version.
    replaces: bool,
    ways: &'static [Way],
}

/// How the stream becomes a file.
struct Way {
    name: &'static str,
    /// `STREAM` stands for the stream's program, `PLEACH` for ours.
    script: &'static str,
}

const PUT: Way = Way { name: "`… \\| pleach put file`", script: "STREAM | PLEACH put --quiet file" };
const CAT: Way =
    Way { name: "`… \\| cat > new`, fsync, rename", script: "STREAM | cat > new && sync new && mv new file" };

const CASES: [Case; 3] = [
    Case {
        title: "three lines changed by sed",
        stream: "sed -e '1000s/^00/zz/' -e 'MIDDLEs/^00/zz/' -e 'LASTs/^00/zz/' text",
        replaces: true,
        ways: &[
            PUT,
            CAT,
            Way { name: "`sed … > new`, fsync, rename", script: "STREAM > new && sync new && mv new file" },
        ],
    },
    Case { title: "a block of 4 KiB put in before it", stream: "cat block text", replaces: true, ways: &[PUT, CAT] },
    Case { title: "a new file", stream: "cat text", replaces: false, ways: &[PUT, CAT] },
];

/// What one run took.
struct Run {
    sample: Sample,
    /// Bytes that `df` shows in addition.
    added: i64,
    /// Bytes of the file that something else holds too.
    shared: u64,
}

fn on(kind: Kind, dir: &Path, options: &Options) -> Result<()> {
    // Three times the text, and as much again for what is being freed.
    let fs = Mounted::create(kind, dir, kind.name(), ((options.lines * 84 * 6) >> 20) + (1 << 10))?;
    let root = fs.path();
    println!("{}: writing the text", kind.name());
    write_text(&root.join("text"), options.lines)?;
    write_text(&root.join("kept"), options.lines)?;
    fs::write(root.join("block"), Noise::from(9).bytes(4096))?;
    let mut tables = Vec::new();
    for &cache in &options.common.caches {
        for case in &CASES {
            let runs = measure(kind, cache, case, root, options)?;
            tables.push((cache, case, runs));
        }
    }
    let size = fs::metadata(root.join("text"))?.len();
    let section = section(kind, size, options, &tables);
    println!("\n{section}");
    if options.lines == LINES {
        report::write(&format!("put {}", kind.name()), &section)?;
    }
    fs.check()
}

/// Lines of 84 bytes, one in five of 83: 419 MB of 5 million. A write goes to the disk as `cat` would have it.
fn write_text(path: &Path, lines: u64) -> Result<()> {
    let mut text = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut noise = Noise::from(7);
    for line in 0..lines {
        let words: String = noise.bytes(36).iter().map(|byte| format!("{byte:02x}")).collect();
        let length = if line % 5 == 0 { 71 } else { 72 };
        writeln!(text, "{line:010} {}", &words[..length])?;
    }
    Ok(text.into_inner().context("cannot write the text")?.sync_all()?)
}

fn measure(kind: Kind, cache: Cache, case: &Case, root: &Path, options: &Options) -> Result<Vec<Vec<Run>>> {
    let mut runs: Vec<Vec<Run>> = case.ways.iter().map(|_| Vec::new()).collect();
    let stream = case.stream.replace("MIDDLE", &(options.lines / 2).to_string());
    let stream = stream.replace("LAST", &(options.lines - 10).to_string());
    for round in 0..options.runs {
        for index in turns(round, case.ways.len()) {
            let way = &case.ways[index];
            let file = root.join("file");
            if file.exists() {
                fs::remove_file(&file)?;
            }
            if case.replaces {
                output(program("cp").arg("--reflink=always").arg(root.join("kept")).arg(&file))?;
            }
            let before = space::used(root)?;
            Cache::Cold.prepare(root, root, &[])?;
            // The stream's program is not to wait for the disk.
            for name in ["text", "block"].into_iter().chain((cache == Cache::Warm && case.replaces).then_some("file")) {
                read(&root.join(name))?;
            }
            let script = way.script.replace("STREAM", &stream).replace("PLEACH", &pleach().display().to_string());
            let sample = sample(shell(&script, root).env("LC_ALL", "C"), root)?;
            output(&mut shell(&format!("{stream} | cmp - file"), root)).context("the file is not the stream")?;
            let shared = shared(&file)?;
            let added = space::used(root)? as i64 - before as i64;
            println!(
                "{} {} {}: {} {:.2} s",
                kind.name(),
                cache.name(),
                case.title,
                way.name,
                sample.wall.as_secs_f64()
            );
            runs[index].push(Run { sample, added, shared });
        }
    }
    Ok(runs)
}

fn shell(script: &str, root: &Path) -> Command {
    let mut shell = program("bash");
    shell.args(["-o", "pipefail", "-c", script]).current_dir(root);
    shell
}

/// Reads a file, so that it is in memory.
fn read(path: &Path) -> Result<()> {
    let mut file = File::open(path)?;
    std::io::copy(&mut file, &mut std::io::sink()).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(())
}

/// The bytes of a file that xfs_io tells as shared: lines such as `0: [0..7]:  96..103   8  0x2001`.
fn shared(path: &Path) -> Result<u64> {
    let told = output(program("xfs_io").args(["-r", "-c", "fiemap -v"]).arg(path))?;
    let words = told.lines().map(|line| line.split_whitespace().rev().take(2).collect::<Vec<_>>());
    let extents = words.filter_map(|words| {
        let flags = u32::from_str_radix(words.first()?.strip_prefix("0x")?, 16).ok()?;
        (flags & 0x2000 != 0).then(|| words.get(1)?.parse::<u64>().ok()).flatten()
    });
    Ok(extents.sum::<u64>() * 512)
}

fn section(kind: Kind, size: u64, options: &Options, tables: &[(Cache, &Case, Vec<Vec<Run>>)]) -> String {
    let mut text = format!("## A text that replaces its last version, on {}\n\n", kind.title());
    text.push_str(&format!(
        "{} lines, {} bytes. {}. Medians of {} runs in turns. The text is in memory, and so is its last version when the \
         cache is \"warm\". Each way ends when the file is on the disk and in its place. A clone of the last version stays: \
         \"added\" is what `df` shows in addition, \"shared\" what `xfs_io` tells of the file at the end.\n",
        report::thousands(options.lines),
        report::thousands(size),
        report::machine(),
        options.runs
    ));
    for (cache, case, runs) in tables {
        text.push_str(&format!("\n{}, {} cache:\n\n", case.title, cache.name()));
        let wall = |runs: &[Run]| median(runs.iter().map(|run| run.sample.wall.as_secs_f64()).collect());
        let cat = runs.get(1).map_or(f64::NAN, |runs| wall(runs));
        let row = |(way, runs): (&Way, &Vec<Run>)| {
            let middle = |what: fn(&Run) -> f64| median(runs.iter().map(what).collect());
            let all = runs.iter().map(|run| run.sample.wall.as_secs_f64());
            let (least, most) = all.fold((f64::MAX, 0.0_f64), |(least, most), wall| (least.min(wall), most.max(wall)));
            vec![
                way.name.to_string(),
                format!("{:.2}", wall(runs)),
                format!("{least:.2}–{most:.2}"),
                format!("{:.2}", wall(runs) / cat),
                format!("{:.2}", middle(|run| run.sample.user.as_secs_f64())),
                format!("{:.2}", middle(|run| run.sample.system.as_secs_f64())),
                report::mebibytes(middle(|run| run.added as f64)),
                report::mebibytes(middle(|run| run.shared as f64)),
                report::mebibytes(middle(|run| run.sample.memory as f64)),
            ]
        };
        let heading = ["", "s", "least–most", "/ cat", "user s", "system s", "added MiB", "shared MiB", "memory MiB"];
        text.push_str(&report::table(&heading, &case.ways.iter().zip(runs).map(row).collect::<Vec<_>>()));
    }
    text
}
