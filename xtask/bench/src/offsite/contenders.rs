//! The ways into a store: `pleach offsite push` of a snapshot, and `restic backup` of the live tree. Each has a store
//! and a home of its own.

use crate::contender::{Contender, Figures, Role, first_line};
use crate::measure::summary;
use crate::stage::Stage;
use crate::tools::{plain, pleach};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::{find, output, program};
use xtask::image::Kind;
use xtask::noise::Noise;
use xtask::space;

/// The pushed snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// A first snapshot into an empty store.
    First,
    /// A second one, without a change.
    Unchanged,
    /// Another one, with some changed files.
    Night,
}

impl Job {
    pub(super) fn name(self) -> &'static str {
        match self {
            Job::First => "first",
            Job::Unchanged => "unchanged",
            Job::Night => "one file in a hundred changed",
        }
    }

    /// The name of the snapshot.
    fn snapshot(self) -> &'static str {
        match self {
            Job::First => "first",
            Job::Unchanged => "unchanged",
            Job::Night => "night",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Pleach,
    Restic,
}

pub(super) const TOOLS: [Tool; 2] = [Tool::Pleach, Tool::Restic];

/// A tool at a job.
pub(super) struct Way {
    pub(super) tool: Tool,
    pub(super) job: Job,
    /// The bytes of all files that the tool must read.
    pub(super) changed: u64,
}

/// Makes the tree.
pub(super) fn fill(stage: &Stage, kind: Kind, files: u32) -> Result<()> {
    let tree = stage.tree();
    if kind == Kind::Btrfs {
        output(program("btrfs").args(["subvolume", "create"]).arg(&tree))?;
    }
    for directory in 0..files.div_ceil(100) {
        fs::create_dir_all(tree.join(format!("{directory:04}")))?;
    }
    (0..files).try_for_each(|number| write(&tree, number, 0).map(drop))
}

/// Writes a version of a file. Returns its size.
fn write(tree: &Path, number: u32, version: u32) -> Result<u64> {
    let seed = (u64::from(number) << 32 | u64::from(version)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let content = Noise::from(seed).bytes(2000 + number as usize % 13 * 1000);
    fs::write(tree.join(format!("{:04}/file-{number:06}", number / 100)), &content)?;
    Ok(content.len() as u64)
}

/// Prepares the tree, its snapshot and the stores for a job. Returns the bytes that must be read.
pub(super) fn begin(stage: &Stage, job: Job, files: u32, changing: u32) -> Result<u64> {
    let mut changed = 0;
    match job {
        Job::First => changed = (0..files).map(|number| 2000 + u64::from(number) % 13 * 1000).sum(),
        // The store that both start from.
        Job::Unchanged => {
            for tool in TOOLS {
                let way = Way { tool, job: Job::First, changed: 0 };
                way.init(stage)?;
                output(&mut way.command(stage)).with_context(|| way.name())?;
            }
        }
        Job::Night => {
            for number in (0..files).filter(|number| number % changing == 1) {
                changed += write(&stage.tree(), number, 1)?;
            }
        }
    }
    let mut snapshot = plain(Some(pleach()));
    snapshot.args(["snapshot", "--quiet", "--name", job.snapshot()]).arg(stage.tree()).arg(repository(stage));
    output(&mut snapshot)?;
    space::sync(stage.source())?;
    Ok(changed)
}

fn repository(stage: &Stage) -> PathBuf {
    stage.source().join("repository")
}

impl Way {
    /// The directory of all that the tool writes: its store and its home.
    fn dir(&self, stage: &Stage) -> PathBuf {
        stage.written().join(match self.tool {
            Tool::Pleach => "pleach",
            Tool::Restic => "restic",
        })
    }

    fn store(&self, stage: &Stage) -> PathBuf {
        self.dir(stage).join("store")
    }

    /// A program with the tool's home and password.
    fn run(&self, stage: &Stage, program: Option<PathBuf>) -> Command {
        let mut command = plain(program);
        let home = self.dir(stage).join("home");
        for name in ["RESTIC_REPOSITORY", "RESTIC_CACHE_DIR", "PLEACH_OFFSITE", "RESTIC_PASSWORD_FILE"] {
            command.env_remove(name);
        }
        command.env("XDG_CACHE_HOME", home.join("cache")).env("HOME", home).env("RESTIC_PASSWORD", "bench");
        command
    }

    fn restic(&self, stage: &Stage) -> Command {
        let mut restic = self.run(stage, find("restic"));
        restic.arg("--repo").arg(self.store(stage));
        restic
    }

    /// Makes an empty store and home.
    fn init(&self, stage: &Stage) -> Result<()> {
        let dir = self.dir(stage);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(dir.join("home"))?;
        let mut init = match self.tool {
            Tool::Pleach => self.run(stage, Some(pleach())),
            Tool::Restic => self.restic(stage),
        };
        match self.tool {
            Tool::Pleach => init.args(["offsite", "init", "--quiet", "--to"]).arg(self.store(stage)),
            Tool::Restic => init.arg("init"),
        };
        output(&mut init).map(drop)
    }

    /// A list of the files that the tool has written, next to its directory.
    fn list(&self, stage: &Stage) -> PathBuf {
        self.dir(stage).with_extension("list")
    }

    fn files(&self, stage: &Stage) -> Result<BTreeSet<String>> {
        let found = output(program("find").arg(self.dir(stage)).args(["-type", "f"]))?;
        Ok(found.lines().map(String::from).collect())
    }
}

impl Contender for Way {
    fn name(&self) -> String {
        match self.tool {
            Tool::Pleach => "pleach offsite push",
            Tool::Restic => "`restic backup` of the live tree",
        }
        .into()
    }

    fn role(&self) -> Role {
        if self.tool == Tool::Pleach { Role::Ours } else { Role::Peer }
    }

    fn program(&self) -> Option<PathBuf> {
        if self.tool == Tool::Pleach { Some(pleach()) } else { find("restic") }
    }

    fn version(&self) -> String {
        let flag = if self.tool == Tool::Pleach { "--version" } else { "version" };
        self.program().map(|program| first_line(&program, flag)).unwrap_or_default()
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        if self.job == Job::First {
            self.init(stage)?;
        }
        let files: Vec<_> = self.files(stage)?.into_iter().collect();
        fs::write(self.list(stage), files.join("\n"))?;
        Ok(())
    }

    fn command(&self, stage: &Stage) -> Command {
        match self.tool {
            Tool::Pleach => {
                let mut push = self.run(stage, Some(pleach()));
                push.args(["offsite", "push", "--json", "--to"]).arg(self.store(stage));
                push.arg(repository(stage)).arg(self.job.snapshot());
                push
            }
            Tool::Restic => {
                let mut backup = self.restic(stage);
                backup.args(["backup", "--json"]).arg(stage.tree());
                backup
            }
        }
    }

    fn is_heard(&self) -> bool {
        true
    }

    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        output(self.restic(stage).arg("check"))?;
        let (read, stored) = match self.tool {
            Tool::Pleach => {
                ensure!(summary(said, "snapshots")? == 1.0 && summary(said, "errors")? == 0.0, "{said}");
                let read = summary(said, "read_bytes")?;
                ensure!(read == self.changed as f64, "{read} bytes were read for {}", self.changed);
                (read, summary(said, "stored_bytes")?)
            }
            // Its counts are of content that is new.
            Tool::Restic => (f64::NAN, summary(said, "data_added")?),
        };
        let figures = [("data_bytes", read), ("stored_bytes", stored)];
        Ok(figures.into_iter().filter(|(_, figure)| figure.is_finite()).collect())
    }

    /// Takes back all that the run added: a store's files never change.
    fn cleanup(&self, stage: &mut Stage) -> Result<()> {
        let list = fs::read_to_string(self.list(stage))?;
        let before: BTreeSet<_> = list.lines().collect();
        let after = self.files(stage)?;
        after.iter().filter(|file| !before.contains(file.as_str())).try_for_each(fs::remove_file)?;
        space::sync(stage.written())
    }
}
