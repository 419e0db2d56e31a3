//! The programs that a bench measures: one trait for pleach, its peers and the floors.
//!
//! `runner` has the contenders take turns, `measure` times one run.

use crate::stage::Stage;
use crate::tools::own;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Named quantities of one run: `seconds`, and any others; names ending in `_bytes` are in bytes.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// A contender's role in a comparison with pleach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// pleach as a user runs it.
    Ours,
    /// pleach with an option that no user needs, such as a named engine.
    Variant,
    /// Another tool for the same job.
    Peer,
    /// The work that no tool can avoid.
    Floor,
}

/// A program or a way of using it that is measured.
pub(crate) trait Contender {
    /// Its name in tables.
    fn name(&self) -> String;

    fn role(&self) -> Role;

    /// The program that it needs, if that program is installed.
    fn program(&self) -> Option<PathBuf>;

    /// The program's version, as the program prints it. Empty for the floors in this program.
    fn version(&self) -> String {
        let other = self.program().filter(|program| own().as_ref() != Some(program));
        other.map(|program| first_line(&program, "--version")).unwrap_or_default()
    }

    /// Prepares a run. The caches are set afterwards.
    fn prepare(&self, _stage: &mut Stage) -> Result<()> {
        Ok(())
    }

    /// The work that is timed.
    fn command(&self, stage: &Stage) -> Command;

    /// Whether [`Contender::check`] needs the output of the command; otherwise the output is discarded.
    fn is_heard(&self) -> bool {
        false
    }

    /// Checks the result of the command, and adds the contender's own figures.
    fn check(&self, _stage: &mut Stage, _said: &str) -> Result<Figures> {
        Ok(Figures::new())
    }

    /// Removes the result of the command.
    fn cleanup(&self, _stage: &mut Stage) -> Result<()> {
        Ok(())
    }
}

/// Returns the contenders that are installed, and prints the names of the missing ones.
pub(crate) fn present<C: Contender>(all: Vec<C>) -> Vec<C> {
    let is_present = |who: &C| {
        let present = who.program().is_some_and(|path| path.is_file());
        if !present {
            println!("skipped: {}: not installed", who.name());
        }
        present
    };
    all.into_iter().filter(is_present).collect()
}

/// The first line that a program prints when called with `flag`.
pub(crate) fn first_line(program: &std::path::Path, flag: &str) -> String {
    let done = Command::new(program).arg(flag).output();
    // Some programs print their version to stderr.
    let said = done.map(|done| [done.stdout, done.stderr].concat()).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
