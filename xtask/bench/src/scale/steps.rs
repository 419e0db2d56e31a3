//! The steps that are measured, each as a contender.

use super::growth::Sample;
use crate::contender::{Contender, Figures, Role};
use crate::measure::summary;
use crate::report::thousands;
use crate::runner::{self, Plan};
use crate::stage::{Cache, Stage};
use crate::tools::{plain, pleach};
use anyhow::{Result, ensure};
use clap::ValueEnum;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A step. They run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Step {
    /// The first snapshot.
    First,
    /// A snapshot of the unchanged tree.
    Second,
    /// The snapshots of the repository.
    List,
    /// The versions of one file.
    Find,
    /// What changed between the two snapshots.
    Diff,
    /// The metadata of all files of the newest snapshot.
    Verify,
    /// What deleting the older snapshot would free.
    DuSnapshots,
    /// What deleting the tree would free.
    Du,
    /// All extents of the tree.
    Fiemap,
    /// One directory, restored.
    Restore,
    /// What would be deleted, and what that would free.
    PruneDry,
    /// The older snapshot, deleted.
    Prune,
    /// The first dedupe.
    Dedupe,
    /// A dedupe of the unchanged tree.
    DedupeAgain,
}

/// A step, as a contender.
pub(super) struct Run {
    pub(super) step: Step,
}

impl Run {
    fn arguments(&self) -> &'static [&'static str] {
        match self.step {
            Step::First => &["snapshot", "--name", "first"],
            Step::Second => &["snapshot", "--name", "second"],
            Step::List => &["list"],
            Step::Find => &["find"],
            Step::Diff => &["diff"],
            Step::Verify => &["verify", "--quick"],
            Step::DuSnapshots => &["du", "--snapshots"],
            Step::Du => &["du"],
            Step::Fiemap => &["fiemap", "--quiet"],
            Step::Restore => &["restore", "--target"],
            Step::PruneDry => &["prune", "--keep-last", "1", "--dry-run"],
            Step::Prune => &["prune", "--keep-last", "1"],
            Step::Dedupe | Step::DedupeAgain => &["dedupe", "--cache"],
        }
    }

    fn operands(&self, stage: &Stage) -> Vec<PathBuf> {
        let (tree, repo) = (stage.tree(), stage.fresh());
        match self.step {
            Step::First | Step::Second => vec![tree, repo],
            Step::List | Step::PruneDry | Step::Prune => vec![repo],
            Step::Find => vec![repo, "file-0000007".into()],
            Step::Diff => vec![repo, "first".into(), "second".into()],
            Step::Verify => vec![repo, "second".into()],
            Step::DuSnapshots => vec![repo, "first".into()],
            Step::Du | Step::Fiemap => vec![tree],
            Step::Restore => vec![stage.source().join("restored"), repo, "second".into(), tree.join("0000")],
            Step::Dedupe | Step::DedupeAgain => vec![cache(stage), tree],
        }
    }
}

impl Contender for Run {
    fn name(&self) -> String {
        match self.step {
            Step::First => "`snapshot`, first",
            Step::Second => "`snapshot`, unchanged",
            Step::List => "`list`",
            Step::Find => "`find`",
            Step::Diff => "`diff`",
            Step::Verify => "`verify --quick`",
            Step::DuSnapshots => "`du --snapshots`",
            Step::Du => "`du`",
            Step::Fiemap => "`fiemap`",
            Step::Restore => "`restore`, one directory",
            Step::PruneDry => "`prune --dry-run`",
            Step::Prune => "`prune`",
            Step::Dedupe => "`dedupe`, first",
            Step::DedupeAgain => "`dedupe`, unchanged",
        }
        .into()
    }

    fn role(&self) -> Role {
        Role::Ours
    }

    fn program(&self) -> Option<PathBuf> {
        Some(pleach())
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        // It may be that of another size.
        if self.step == Step::Dedupe && cache(stage).exists() {
            fs::remove_file(cache(stage))?;
        }
        stage.remount()
    }

    fn command(&self, stage: &Stage) -> Command {
        let mut command = plain(self.program());
        command.args(self.arguments()).args(self.operands(stage));
        if self.step != Step::Fiemap {
            command.arg("--json");
        }
        command
    }

    fn is_heard(&self) -> bool {
        self.step != Step::Fiemap
    }

    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        match self.step {
            Step::Second | Step::DedupeAgain => {
                ensure!(summary(said, "read_bytes")? == 0.0, "an unchanged tree was read: {said}");
            }
            Step::Diff => ensure!(said.lines().count() == 1, "an unchanged tree has changes: {said}"),
            _ => {}
        }
        Ok(match self.step {
            Step::First => kept(&manifest(stage, "first"))?,
            Step::Second => kept(&manifest(stage, "second"))?,
            Step::Dedupe | Step::DedupeAgain => kept(&cache(stage))?,
            _ => Figures::new(),
        })
    }
}

/// Runs steps one after the other.
pub(super) fn take(stage: &mut Stage, steps: &[Step], size: u64) -> Result<Vec<Sample>> {
    let plan = Plan { label: format!("{}, {}", stage.kind().name(), thousands(size)), rounds: 1, cache: Cache::Cold };
    let mut samples = Vec::new();
    for &step in steps {
        let rows = runner::run(stage, &[Run { step }], &plan)?;
        for row in rows {
            let sample = Sample::of(row.name.clone(), |figure| row.values(figure).first().copied());
            println!("{}: {}", plan.label, sample.line(size));
            samples.push(sample);
        }
    }
    Ok(samples)
}

/// The cache of dedupe.
fn cache(stage: &Stage) -> PathBuf {
    stage.dir().join("cache")
}

/// The manifest of a snapshot.
fn manifest(stage: &Stage, name: &str) -> PathBuf {
    stage.fresh().join(".pleach/manifests").join(name)
}

/// The size of a file of pleach's own.
fn kept(path: &Path) -> Result<Figures> {
    Ok(Figures::from([("kept_bytes", fs::metadata(path)?.len() as f64)]))
}
