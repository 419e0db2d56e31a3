//! The tools that replicate: the whole repository, or its last night.

use super::nights::{COUNT, Nights, name, repository};
use crate::contender::{Contender, Figures, Role};
use crate::measure::summary;
use crate::stage::{Stage, remove_all};
use crate::tools::{plain, pleach};
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::{find, output, program};
use xtask::space;

/// The most bytes of the stream for one entry.
const ENTRY: u64 = 80;

/// `pleach replicate` of the whole repository.
pub(super) struct Whole<'n> {
    pub(super) nights: &'n Nights,
}

impl Contender for Whole<'_> {
    fn name(&self) -> String {
        "pleach replicate".into()
    }

    fn role(&self) -> Role {
        Role::Ours
    }

    fn program(&self) -> Option<PathBuf> {
        Some(pleach())
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        stage.clear()
    }

    fn command(&self, stage: &Stage) -> Command {
        replicate(stage)
    }

    fn is_heard(&self) -> bool {
        true
    }

    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        let (stream, sent) = (summary(said, "stream_bytes")?, summary(said, "sent_bytes")?);
        ensure!(summary(said, "snapshots")? as u32 == COUNT, "{said}");
        let bound = self.nights.changed as f64 + (self.nights.entries * ENTRY) as f64;
        ensure!(stream <= 1.05 * bound, "the stream has {stream} bytes for {bound}");
        for night in 1..=COUNT {
            let (from, to) = (repository(stage).join(name(night)), stage.fresh().join(name(night)));
            let has_content_read = [1, COUNT / 2, COUNT].contains(&night);
            ensure_equal(&from, &to, if has_content_read { &["--checksum"] } else { &[] })?;
        }
        let again = output(&mut replicate(stage))?;
        let wire = summary(&again, "wire_bytes")?;
        ensure!(summary(&again, "snapshots")? == 0.0 && wire < f64::from(COUNT) * 1024.0, "{again}");
        let here = disk_bytes(&[repository(stage), stage.tree()])?;
        let there = disk_bytes(&[stage.fresh()])?;
        let ratio = there / here;
        ensure!((0.98..=1.02).contains(&ratio), "the replica takes {there} bytes of the disk, the original {here}");
        Ok(Figures::from([
            ("stream_bytes", stream),
            ("sent_bytes", sent),
            ("stream_ratio", stream / bound),
            ("again_bytes", wire),
            ("disk_ratio", ratio),
        ]))
    }
}

/// The data of trees on the disk, each extent counted once: nothing else holds it, so it is what deleting them frees,
/// without inodes and trees, which differ between filesystems.
fn disk_bytes(trees: &[PathBuf]) -> Result<f64> {
    let said = output(plain(Some(pleach())).args(["du", "--json"]).args(trees))?;
    let [all, inodes, metadata] =
        ["set_freed_bytes", "set_freed_inode_bytes", "set_freed_metadata_bytes"].map(|field| summary(&said, field));
    Ok(all? - inodes? - metadata?)
}

fn replicate(stage: &Stage) -> Command {
    let mut command = plain(Some(pleach()));
    command.args(["replicate", "--json"]).arg(repository(stage)).arg(stage.fresh());
    command
}

/// A way of replicating the last night.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Pleach,
    Rsync,
    Send,
}

/// The last night by one of the tools. The replica of the whole repository is there already.
pub(super) struct Night(pub(super) Tool);

impl Night {
    /// Makes the night before, from which the tool starts.
    pub(super) fn begin(&self, stage: &Stage) -> Result<()> {
        let before = name(COUNT - 1);
        match self.0 {
            Tool::Pleach => remove_last(stage),
            Tool::Rsync => {
                let mut copy = program("cp");
                copy.args(["-a", "--reflink=always"]).arg(stage.fresh().join(before)).arg(self.base(stage));
                output(&mut copy).map(|_| ())
            }
            Tool::Send => {
                fs::create_dir(self.dir(stage))?;
                let mut send = pipeline("btrfs send -q \"$1\" | btrfs receive -q \"$2\"");
                output(send.arg(repository(stage).join(before)).arg(self.dir(stage))).map(|_| ())
            }
        }
    }

    fn base(&self, stage: &Stage) -> PathBuf {
        stage.written().join("base")
    }

    /// The directory that gets the tree.
    fn dir(&self, stage: &Stage) -> PathBuf {
        match self.0 {
            Tool::Pleach => stage.fresh(),
            Tool::Rsync => stage.written().join("synced"),
            Tool::Send => stage.written().join("received"),
        }
    }

    /// The tree of the last night.
    fn tree(&self, stage: &Stage) -> PathBuf {
        match self.0 {
            Tool::Rsync => self.dir(stage),
            Tool::Pleach | Tool::Send => self.dir(stage).join(name(COUNT)),
        }
    }
}

impl Contender for Night {
    fn name(&self) -> String {
        match self.0 {
            Tool::Pleach => "pleach replicate",
            Tool::Rsync => "`rsync -aHAX --inplace --no-whole-file`",
            Tool::Send => "`btrfs send -p`, `btrfs receive`",
        }
        .into()
    }

    fn role(&self) -> Role {
        if self.0 == Tool::Pleach { Role::Ours } else { Role::Peer }
    }

    fn program(&self) -> Option<PathBuf> {
        match self.0 {
            Tool::Pleach => Some(pleach()),
            Tool::Rsync => find("rsync"),
            Tool::Send => find("btrfs"),
        }
    }

    fn prepare(&self, stage: &mut Stage) -> Result<()> {
        if self.0 == Tool::Rsync {
            output(program("cp").args(["-a", "--reflink=always"]).arg(self.base(stage)).arg(self.dir(stage)))?;
        }
        space::sync(stage.written())
    }

    fn command(&self, stage: &Stage) -> Command {
        let last = repository(stage).join(name(COUNT));
        match self.0 {
            Tool::Pleach => replicate(stage),
            Tool::Rsync => {
                let mut command = program("rsync");
                let mut from = last.into_os_string();
                from.push("/");
                command.args(["-aHAX", "--inplace", "--no-whole-file", "--delete"]).arg(from).arg(self.dir(stage));
                command
            }
            Tool::Send => {
                let mut command = pipeline("btrfs send -q -p \"$1\" \"$2\" | btrfs receive -q \"$3\"");
                command.arg(repository(stage).join(name(COUNT - 1))).arg(last).arg(self.dir(stage));
                command
            }
        }
    }

    fn is_heard(&self) -> bool {
        self.0 == Tool::Pleach
    }

    fn check(&self, stage: &mut Stage, said: &str) -> Result<Figures> {
        // `btrfs receive` leaves the time of the top as it is.
        let options: &[&str] = if self.0 == Tool::Send { &["--checksum", "--omit-dir-times"] } else { &["--checksum"] };
        ensure_equal(&repository(stage).join(name(COUNT)), &self.tree(stage), options)?;
        if self.0 != Tool::Pleach {
            return Ok(Figures::new());
        }
        Ok(Figures::from([
            ("stream_bytes", summary(said, "stream_bytes")?),
            ("sent_bytes", summary(said, "sent_bytes")?),
        ]))
    }

    fn cleanup(&self, stage: &mut Stage) -> Result<()> {
        match self.0 {
            Tool::Pleach => remove_last(stage),
            Tool::Rsync | Tool::Send => remove_all(stage.written(), &[self.tree(stage)]),
        }
    }
}

fn remove_last(stage: &Stage) -> Result<()> {
    output(plain(Some(pleach())).args(["remove", "--quiet"]).arg(stage.fresh()).arg(name(COUNT)))?;
    space::sync(stage.written())
}

fn pipeline(script: &str) -> Command {
    let mut command = program("bash");
    command.args(["-c", &format!("set -o pipefail; {script}"), "bash"]);
    command
}

/// Two trees must be equal by rsync's check, with these options.
fn ensure_equal(from: &Path, to: &Path, options: &[&str]) -> Result<()> {
    let mut check = program("rsync");
    check.args(["-naHAXi", "--delete"]).args(options);
    let mut slashed = from.as_os_str().to_os_string();
    slashed.push("/");
    let found = output(check.arg(slashed).arg(to))?;
    anyhow::ensure!(found.trim().is_empty(), "{} differs:\n{found}", to.display());
    Ok(())
}
