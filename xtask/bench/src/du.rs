//! `cargo xtask bench du`: what a repository takes and shares, told by pleach and by `btrfs filesystem du -s`, `du -s`
//! beside them.
//!
//! The repository holds 20 snapshots, of which each differs from the one before in some of its files. All are asked the
//! same, in turns; that the figures agree is checked in every run.

use super::measure::{Cache, Sample, median, sample_into, temporary_file, turns};
use super::{Common, pleach, report};
use anyhow::{Result, bail};
use clap::Args;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use xtask::command::{output, program};
use xtask::image::{Kind, Mounted};
use xtask::noise::Noise;
use xtask::space;

const SNAPSHOTS: u32 = 20;
/// One of so many files changes between two snapshots.
const CHANGING: u32 = 100;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each command runs; medians are given
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    common: Common,
    /// Files in each of the 20 snapshots
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(100..))]
    files: u32,
}

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    super::on_own_filesystems(|| Ok(()), |dir| options.common.kinds.iter().try_for_each(|&kind| on(kind, dir, options)))
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Pleach,
    Btrfs,
    Du,
}

impl Contender {
    fn on(kind: Kind) -> Vec<Contender> {
        let btrfs = (kind == Kind::Btrfs).then_some(Contender::Btrfs);
        [Some(Contender::Pleach), btrfs, Some(Contender::Du)].into_iter().flatten().collect()
    }

    fn name(self) -> &'static str {
        match self {
            Contender::Pleach => "pleach du",
            Contender::Btrfs => "btrfs filesystem du -s",
            Contender::Du => "du -s",
        }
    }

    fn command(self, repo: &Path) -> Command {
        let mut command = match self {
            Contender::Pleach => program(pleach()),
            Contender::Btrfs => program("btrfs"),
            Contender::Du => program("du"),
        };
        match self {
            Contender::Pleach => command.args(["du", "--json"]),
            Contender::Btrfs => command.args(["filesystem", "du", "-s", "--raw"]),
            Contender::Du => command.args(["-s", "--block-size=1"]),
        };
        command.arg(repo);
        command
    }

    /// Total, exclusive and shared bytes, as it told them, as far as it does.
    fn figures(self, said: &str) -> Option<Vec<u64>> {
        match self {
            Contender::Pleach => {
                let row = said.lines().find(|line| line.contains("\"type\":\"path\""))?;
                ["disk_bytes", "exclusive_bytes", "shared_bytes"].iter().map(|field| json_number(row, field)).collect()
            }
            Contender::Btrfs => said.lines().last()?.split_whitespace().take(3).map(|word| word.parse().ok()).collect(),
            Contender::Du => None,
        }
    }
}

/// The integer behind a field's name.
pub(super) fn json_number(line: &str, field: &str) -> Option<u64> {
    let (_, rest) = line.split_once(&format!("\"{field}\":"))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn on(kind: Kind, dir: &Path, options: &Options) -> Result<()> {
    let mebibytes = 4096 + u64::from(options.files) * 16 / 25;
    let mut fs = Mounted::create(kind, dir, kind.name(), mebibytes)?;
    let repo = fill(kind, fs.path(), options.files)?;
    // Content is nothing that anybody here reads.
    let nothing = fs.path().join("nothing");
    fs::create_dir(&nothing)?;
    fs.remount()?;
    for &cache in &options.common.caches {
        let mut rows: Vec<_> = Contender::on(kind).into_iter().map(|who| (who, Vec::new())).collect();
        let mut extents = 0;
        for round in 0..options.runs {
            let mut told: Vec<(Contender, Vec<u64>)> = Vec::new();
            for index in turns(round, rows.len()) {
                let who = rows[index].0;
                cache.prepare(fs.path(), &nothing, &[&repo])?;
                let mut said = temporary_file()?;
                let sample = sample_into(&mut who.command(&repo), fs.path(), said.try_clone()?.into())?;
                let mut text = String::new();
                said.seek(SeekFrom::Start(0))?;
                said.read_to_string(&mut text)?;
                println!("{} {} {}: {:.2} s", kind.name(), cache.name(), who.name(), sample.wall.as_secs_f64());
                told.extend(who.figures(&text).map(|figures| (who, figures)));
                if who == Contender::Pleach {
                    extents = json_number(&text, "set_references").unwrap_or(0);
                }
                rows[index].1.push(sample);
            }
            if let Some(pair) = told.windows(2).find(|pair| pair[0].1 != pair[1].1) {
                bail!("{} and {} do not agree: {pair:?}", pair[0].0.name(), pair[1].0.name());
            }
        }
        let section = section(kind, cache, options, extents, &rows);
        println!("\n{section}");
        report::write(&format!("du {} {}", kind.name(), cache.name()), &section)?;
    }
    Ok(())
}

/// Makes a repository of snapshots; its path.
fn fill(kind: Kind, root: &Path, files: u32) -> Result<PathBuf> {
    let (tree, repo) = (root.join("tree"), root.join("repo"));
    println!("{}: writing {files} files", kind.name());
    let file = |number: u32| tree.join(format!("{:04}/file-{number:06}", number / 100));
    for number in 0..files {
        if number % 100 == 0 {
            fs::create_dir_all(tree.join(format!("{:04}", number / 100)))?;
        }
        fs::write(file(number), content(number, 0))?;
    }
    for round in 1..=SNAPSHOTS {
        println!("{}: snapshot {round} of {SNAPSHOTS}", kind.name());
        let mut snapshot = program(pleach());
        snapshot.args(["snapshot", "--quiet", "--hash", "none", "--name", &format!("s{round:02}")]);
        output(snapshot.arg(&tree).arg(&repo))?;
        for number in (0..files).filter(|number| number % CHANGING == round) {
            fs::write(file(number), content(number, round))?;
        }
    }
    space::sync(root)?;
    Ok(repo)
}

/// 4 to 12 KiB that nothing else contains.
fn content(number: u32, round: u32) -> Vec<u8> {
    let seed = (u64::from(number) << 32 | u64::from(round)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    Noise::from(seed).bytes(4096 + number as usize % 9 * 1000)
}

fn section(kind: Kind, cache: Cache, options: &Options, extents: u64, rows: &[(Contender, Vec<Sample>)]) -> String {
    let files = report::thousands(options.files.into());
    let mut text = format!("## Usage on {}, {} cache\n\n", kind.title(), cache.name());
    text.push_str(&format!(
        "A repository of {SNAPSHOTS} snapshots of {files} files of 4 to 12 KiB, one of {CHANGING} changed between two. \
         {}. Medians of {} runs in turns.",
        report::machine(),
        options.runs
    ));
    if kind == Kind::Btrfs {
        text.push_str(
            "\nTotal, exclusive and shared bytes of `pleach du` and `btrfs filesystem du -s` were equal to the byte in \
             each run.",
        );
    }
    text.push_str("\n\n");
    let figure = |runs: &[Sample], what: fn(&Sample) -> f64| median(runs.iter().map(what).collect());
    let seconds = |runs: &[Sample]| figure(runs, |sample| sample.wall.as_secs_f64());
    let ours = rows.iter().find(|(who, _)| *who == Contender::Pleach).map_or(f64::NAN, |(_, runs)| seconds(runs));
    let row = |(who, runs): &(Contender, Vec<Sample>)| {
        let memory = figure(runs, |sample| sample.memory as f64);
        vec![
            who.name().to_string(),
            format!("{:.2}", seconds(runs)),
            format!("{:.2}", ours / seconds(runs)),
            format!("{:.2}", figure(runs, |sample| sample.user.as_secs_f64())),
            format!("{:.2}", figure(runs, |sample| sample.system.as_secs_f64())),
            report::mebibytes(memory),
            format!("{:.0}", memory / extents.max(1) as f64),
        ]
    };
    let heading = ["", "s", "pleach / it", "user s", "system s", "memory MiB", "bytes a reference"];
    text.push_str(&report::table(&heading, &rows.iter().map(row).collect::<Vec<_>>()));
    text.push_str(&format!(
        "\nMemory is the whole process's at its peak; it is divided by the {} references of files to extents.\n",
        report::thousands(extents)
    ));
    for (who, tool) in [(Contender::Btrfs, "btrfs"), (Contender::Du, "du")] {
        if rows.iter().any(|(row, _)| *row == who)
            && let Ok(version) = output(program(tool).arg("--version"))
        {
            text.push_str(&format!("{}: {}.\n", who.name(), version.lines().next().unwrap_or_default()));
        }
    }
    text
}
