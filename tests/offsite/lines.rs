//! The lines of `pleach offsite --json`.

use crate::harness::Run;
use crate::harness::json_lines::Line;
use serde::Deserialize;

/// A snapshot that `push` sent, or would send.
#[derive(Debug, Deserialize)]
pub(super) struct Pushed {
    pub(super) name: String,
    pub(super) id: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) files: Option<u64>,
    pub(super) read_bytes: Option<u64>,
    pub(super) stored_bytes: Option<u64>,
}

impl Line for Pushed {
    const TYPE: &'static str = "snapshot";
}

/// The summary of `push`.
#[derive(Debug, Deserialize)]
pub(super) struct PushSums {
    pub(super) command: String,
    pub(super) snapshots: u64,
    pub(super) files: u64,
    pub(super) read_bytes: u64,
    pub(super) stored_bytes: u64,
    pub(super) errors: u64,
    pub(super) seconds: f64,
}

impl Line for PushSums {
    const TYPE: &'static str = "summary";
}

/// A snapshot of `list`.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) created: String,
    pub(super) host: String,
    pub(super) sources: Vec<Source>,
    pub(super) tags: Vec<String>,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// A source of a snapshot.
#[derive(Debug, Deserialize)]
pub(super) struct Source {
    pub(super) path: String,
}

impl Listed {
    pub(super) fn paths(&self) -> Vec<&str> {
        self.sources.iter().map(|source| source.path.as_str()).collect()
    }
}

impl Line for Listed {
    const TYPE: &'static str = "snapshot";
}

/// The summary of `list`.
#[derive(Debug, Deserialize)]
pub(super) struct ListSums {
    pub(super) command: String,
    pub(super) snapshots: u64,
    pub(super) errors: u64,
    pub(super) seconds: f64,
}

impl Line for ListSums {
    const TYPE: &'static str = "summary";
}

/// The summary of `restore`.
#[derive(Debug, Deserialize)]
pub(super) struct RestoreSums {
    pub(super) command: String,
    pub(super) snapshot: String,
    pub(super) files: u64,
    pub(super) dirs: u64,
    pub(super) restored_bytes: u64,
    pub(super) errors: u64,
    pub(super) seconds: f64,
}

impl Line for RestoreSums {
    const TYPE: &'static str = "summary";
}

/// The summary of `check`.
#[derive(Debug, Deserialize)]
pub(super) struct CheckSums {
    pub(super) command: String,
    pub(super) read_data: f64,
    pub(super) damaged: u64,
    pub(super) errors: u64,
    pub(super) seconds: f64,
}

impl Line for CheckSums {
    const TYPE: &'static str = "summary";
}

/// A snapshot that `prune` judged.
#[derive(Debug, Deserialize)]
pub(super) struct Judged {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) created: String,
    pub(super) kept: bool,
    pub(super) reasons: Vec<String>,
}

impl Line for Judged {
    const TYPE: &'static str = "snapshot";
}

/// The summary of `prune`.
#[derive(Debug, Deserialize)]
pub(super) struct PruneSums {
    pub(super) command: String,
    pub(super) kept: u64,
    pub(super) removed: u64,
    pub(super) freed_bytes: u64,
    pub(super) later_bytes: u64,
    pub(super) errors: u64,
    pub(super) seconds: f64,
}

impl Line for PruneSums {
    const TYPE: &'static str = "summary";
}

/// The only summary of a run.
#[track_caller]
pub(super) fn sums<L: Line>(run: &Run) -> L {
    run.lines().pop().expect("a summary")
}

/// All that a run says: results and problems.
pub(super) fn said(run: &Run) -> String {
    run.stdout.clone() + &run.stderr
}
