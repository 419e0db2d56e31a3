//! `cargo xtask bench versus --old BINARY`: compares another build of pleach with this one, in turns, for the jobs that
//! a change must not slow down. Both work on the same prepared tree; nothing is recorded.

use crate::contender::{Contender, Figures, Role};
use crate::copy::regular;
use crate::measure::summary;
use crate::put::{self, Case};
use crate::report::table;
use crate::runner::{self, Measured, Plan};
use crate::session;
use crate::stage::{Cache, Stage, remove_all};
use crate::statistics::{Spread, paired_ratio};
use crate::tools::{plain, pleach};
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;
use xtask::command::{output, program};
use xtask::image::Kind;
use xtask::space;

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// The build to compare with
    #[arg(long, value_name = "BINARY")]
    old: PathBuf,
    /// Take this build instead of the present release build
    #[arg(long, value_name = "BINARY")]
    new: Option<PathBuf>,
    /// How often each of both runs
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// These jobs
    #[arg(long = "job", value_delimiter = ',', default_value = "unchanged,first,dedupe,copy-small,copy-large,put")]
    jobs: Vec<Job>,
    /// In these places; between two filesystems only trees are copied
    #[arg(long = "place", value_delimiter = ',', default_value = "xfs,btrfs,ext4-xfs")]
    places: Vec<Place>,
    /// With these caches
    #[arg(long = "cache", value_delimiter = ',', default_value = "cold,warm")]
    caches: Vec<Cache>,
    /// How large the trees are, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    scale: u64,
}

/// The job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Job {
    /// A snapshot of 20,000 files of 4 KiB that did not change.
    Unchanged,
    /// Their first snapshot.
    First,
    /// A dedupe of 20,000 files of 4 KiB, each of them twice.
    Dedupe,
    /// A copy of 20,000 files of 4 KiB.
    CopySmall,
    /// A copy of 3 files of 512 MiB.
    CopyLarge,
    /// A text of 100 MB with three lines changed that replaces its last version.
    Put,
}

/// The source and the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    Xfs,
    Btrfs,
    Ext4Xfs,
    XfsBtrfs,
}

impl Place {
    fn kinds(self) -> (Kind, Option<Kind>) {
        match self {
            Place::Xfs => (Kind::Xfs, None),
            Place::Btrfs => (Kind::Btrfs, None),
            Place::Ext4Xfs => (Kind::Ext4, Some(Kind::Xfs)),
            Place::XfsBtrfs => (Kind::Xfs, Some(Kind::Btrfs)),
        }
    }

    /// Whether a job makes sense in this place.
    fn fits(self, job: Job) -> bool {
        self.kinds().1.is_none() || matches!(job, Job::CopySmall | Job::CopyLarge)
    }
}

/// The name of a value on the command line.
fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
}

/// Runs the bench.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let bench = |dir: &Path| on_all(dir, options);
    match options.new {
        Some(_) => session::enter(|| Ok(()), bench),
        None => session::on_own_filesystems(|| Ok(()), bench),
    }
}

fn on_all(dir: &Path, options: &Options) -> Result<()> {
    let find = |path: &Path| fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()));
    let binaries = [find(&options.old)?, find(options.new.as_ref().unwrap_or(&pleach()))?];
    let mut rows = Vec::new();
    for &place in &options.places {
        for &job in options.jobs.iter().filter(|&&job| place.fits(job)) {
            let (source, destination) = place.kinds();
            let mut stage = Stage::new(dir, (source, 10 << 10), destination.map(|kind| (kind, 10 << 10)))?;
            println!("{} {}: making the tree", name(job), name(place));
            let lines = fill(&mut stage, job, options.scale)?;
            let way = |(label, binary): (_, &PathBuf)| Way {
                label,
                binary: binary.clone(),
                job,
                lines,
                number: Cell::new(0),
            };
            let all: Vec<_> = ["old", "new"].into_iter().zip(&binaries).map(way).collect();
            if job == Job::Unchanged {
                all.iter().try_for_each(|way| output(&mut way.command(&stage)).map(drop))?;
                stage.known = all.iter().map(|way| way.repo(&stage)).collect();
            }
            for &cache in &options.caches {
                let label = format!("{} {} {}", name(job), name(place), cache.name());
                let plan = Plan { label: label.clone(), rounds: options.rounds, cache };
                let measured = runner::run(&mut stage, &all, &plan)?;
                rows.push(compared(label, &measured));
            }
            stage.strike()?;
        }
    }
    let heading = ["", "old s", "least–most", "new s", "least–most", "new / old", "median of pairs"];
    println!("\n{} rounds each\n\n{}", options.rounds, table(&heading.map(String::from), &rows));
    Ok(())
}

/// A row of the table.
fn compared(label: String, measured: &[Measured]) -> Vec<String> {
    let values = |row: usize| measured.get(row).map_or(&[][..], |row| row.values("alone_seconds"));
    let (old, new) = (values(0), values(1));
    let mut row = vec![label];
    for spread in [Spread::of(old), Spread::of(new)] {
        let edge = |edge: Option<f64>| edge.unwrap_or(f64::NAN);
        row.extend([format!("{:.3}", spread.median), format!("{:.3}–{:.3}", edge(spread.min), edge(spread.max))]);
    }
    let medians = Spread::of(new).median / Spread::of(old).median;
    row.extend([format!("{medians:.2}"), format!("{:.2}", paired_ratio(new, old))]);
    row
}

/// Makes the tree of a job; for a text, returns its number of lines.
fn fill(stage: &mut Stage, job: Job, percent: u64) -> Result<u64> {
    let (tree, files, lines) = (stage.tree(), 200 * percent, 12_000 * percent);
    match job {
        Job::Unchanged | Job::First | Job::CopySmall => regular(&tree, files, 4 << 10)?,
        Job::CopyLarge => regular(&tree, 3, (512 << 20) * percent / 100)?,
        Job::Dedupe => {
            regular(&tree.join("one"), files / 2, 4 << 10)?;
            output(program("cp").args(["-a", "--reflink=never"]).arg(tree.join("one")).arg(tree.join("two")))?;
            stage.keep()?;
        }
        Job::Put => {
            fs::create_dir(&tree)?;
            put::write_text(&stage.source().join("text"), lines)?;
            put::write_text(&stage.source().join("kept"), lines)?;
            stage.always = vec![stage.source().join("text")];
        }
    }
    stage.warm = vec![tree];
    space::sync(stage.source())?;
    // A file changed in the second in which a snapshot begins counts as changed in the next one.
    sleep(Duration::from_secs(2));
    Ok(lines)
}

/// One of the two builds.
struct Way {
    label: &'static str,
    binary: PathBuf,
    job: Job,
    lines: u64,
    /// The number of snapshots so far.
    number: Cell<u32>,
}

impl Way {
    fn repo(&self, stage: &Stage) -> PathBuf {
        stage.written().join(format!("repo-{}", self.label))
    }
}

impl Contender for Way {
    fn name(&self) -> String {
        self.label.into()
    }

    fn role(&self) -> Role {
        Role::Ours
    }

    fn program(&self) -> Option<PathBuf> {
        Some(self.binary.clone())
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        match self.job {
            Job::Unchanged => Ok(()),
            Job::Dedupe => stage.restore(),
            Job::First | Job::CopySmall | Job::CopyLarge => stage.clear(),
            Job::Put => {
                let (kept, file) = (stage.source().join("kept"), stage.source().join("file"));
                remove_all(stage.source(), std::slice::from_ref(&file))?;
                output(program("cp").arg("--reflink=always").arg(kept).arg(file)).map(drop)
            }
        }
    }

    fn command(&self, stage: &Stage) -> Command {
        let mut command = plain(self.program());
        match self.job {
            Job::Unchanged => {
                self.number.set(self.number.get() + 1);
                let name = format!("n{:05}", self.number.get());
                command.args(["snapshot", "--json", "--name", &name]).arg(stage.tree()).arg(self.repo(stage));
            }
            Job::First => {
                command.args(["snapshot", "--json"]).arg(stage.tree()).arg(stage.fresh());
            }
            Job::Dedupe => {
                command.args(["dedupe", "--json", "--no-cache"]).arg(stage.tree());
            }
            Job::CopySmall | Job::CopyLarge => {
                command.args(["copy", "--json"]).arg(stage.tree()).arg(stage.fresh());
            }
            Job::Put => {
                let stream = Case::Changed.stream(self.lines);
                let script = format!("{stream} | '{}' put --json file", self.binary.display());
                command = put::shell(&script, stage);
            }
        }
        command
    }

    fn is_heard(&self) -> bool {
        true
    }

    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        match self.job {
            Job::Unchanged => {
                let (unchanged, files) = (summary(said, "unchanged_files")?, summary(said, "files")?);
                ensure!(unchanged == files, "{unchanged} of {files} files were unchanged");
            }
            Job::First => ensure!(summary(said, "copied_bytes")? == 0.0, "data was copied: {said}"),
            Job::Dedupe => ensure!(summary(said, "freed_bytes")? > 0.0, "nothing was freed: {said}"),
            Job::CopySmall | Job::CopyLarge => ensure!(stage.fresh().is_dir(), "nothing was copied"),
            Job::Put => ensure!(summary(said, "shared_bytes")? > 0.0, "nothing is shared: {said}"),
        }
        Ok(Figures::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_row_has_both_medians_and_the_median_of_the_pairs() {
        let measured = |name: &str, values: [f64; 3]| Measured {
            name: name.into(),
            role: Role::Ours,
            version: String::new(),
            figures: BTreeMap::from([("alone_seconds", values.to_vec())]),
            failure: None,
        };
        let row = compared("put".into(), &[measured("old", [1.0, 2.0, 4.0]), measured("new", [1.1, 1.8, 4.4])]);
        assert_eq!(row, ["put", "2.000", "1.000–4.000", "1.800", "1.100–4.400", "0.90", "1.10"]);
    }

    #[test]
    fn between_filesystems_trees_are_only_copied() {
        assert!(
            Place::Ext4Xfs.fits(Job::CopySmall) && !Place::Ext4Xfs.fits(Job::Dedupe) && Place::Btrfs.fits(Job::Dedupe)
        );
        assert_eq!(name(Place::Ext4Xfs), "ext4-xfs");
    }
}
