//! What a bench measures: one trait for pleach, its peers and the floors.
//!
//! How contenders take turns is in `runner`, how one run is timed in `measure`.

use crate::stage::Stage;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Named quantities of one run: `seconds`, and any in bytes that end in `_bytes`.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// What a contender is to pleach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// pleach as a user runs it.
    Ours,
    /// pleach with an option that no user needs, such as a named engine.
    Variant,
    /// Another tool.
    Peer,
    /// The work that no tool can avoid.
    Floor,
}

/// Something that is measured.
pub(crate) trait Contender {
    /// Its name in tables.
    fn name(&self) -> String;

    fn role(&self) -> Role;

    /// The program that it needs, if that is installed.
    fn program(&self) -> Option<PathBuf>;

    /// The program's version in its own words.
    fn version(&self) -> String {
        self.program().map(|program| first_line(&program, "--version")).unwrap_or_default()
    }

    /// Makes everything ready. Caches are brought into their state afterwards.
    fn prepare(&self, _stage: &mut Stage) -> Result<()> {
        Ok(())
    }

    /// The work that is timed.
    fn command(&self, stage: &Stage) -> Command;

    /// Whether [`Contender::check`] needs what the command printed; else that is thrown away.
    fn is_heard(&self) -> bool {
        false
    }

    /// Checks what the command left behind, and adds figures of its own.
    fn check(&self, _stage: &mut Stage, _said: &str) -> Result<Figures> {
        Ok(Figures::new())
    }

    /// Removes what the command left behind.
    fn cleanup(&self, _stage: &mut Stage) -> Result<()> {
        Ok(())
    }
}

/// Those that are installed; the others are named.
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

/// The first line that a program prints when it is given `flag`.
pub(crate) fn first_line(program: &std::path::Path, flag: &str) -> String {
    let done = Command::new(program).arg(flag).output();
    // Some say it on stderr.
    let said = done.map(|done| [done.stdout, done.stderr].concat()).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
