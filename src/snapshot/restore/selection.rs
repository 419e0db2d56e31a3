//! Which part of a snapshot is restored.

use crate::error::{Error, Result};
use crate::snapshot::manifest::{Reader, compare_paths};
use crate::snapshot::part::Part;
use crate::snapshot::source_path::normal;
use crate::tree::walk::absolute;
use crate::util::path::is_below;
use crate::util::text;
use std::path::PathBuf;

/// How many missing paths an error names.
const SHOWN: usize = 5;

/// The parts to restore, in the order of the manifest, none inside another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selection(Vec<Part>);

impl Selection {
    /// Finds the requested paths in a snapshot. Without paths, all of it is selected.
    pub(super) fn resolve(manifest: &Reader, snapshot: &str, paths: &[PathBuf]) -> Result<Selection> {
        if paths.is_empty() {
            return Ok(Selection(vec![Part::Subtree(Vec::new())]));
        }
        let mut wanted = paths.iter().map(|path| normal("restore", path)).collect::<Result<Vec<_>>>()?;
        wanted.sort_by(|a, b| compare_paths(a, b));
        wanted.dedup_by(|later, earlier| is_below(later, earlier));
        let mut parts = Vec::new();
        let mut missing = Vec::new();
        for path in wanted {
            match Part::find(manifest, &path)? {
                Some(part) => parts.push(part),
                None => missing.push(text::path(&absolute(&path))),
            }
        }
        if missing.is_empty() {
            return Ok(Selection(parts));
        }
        let more = missing.len().saturating_sub(SHOWN);
        missing.truncate(SHOWN);
        if more > 0 {
            missing.push(format!("{more} more"));
        }
        Err(Error::failed(format!("find {} in the snapshot {snapshot}", missing.join(", ")))
            .hint("give absolute paths, as in the sources"))
    }

    /// Whether the whole snapshot is selected.
    pub(super) fn is_all(&self) -> bool {
        self.0 == [Part::Subtree(Vec::new())]
    }

    /// The parts.
    pub(super) fn parts(&self) -> &[Part] {
        &self.0
    }
}
