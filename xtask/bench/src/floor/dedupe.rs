//! The floor of a dedupe of whole files: only the calls that no such tool can avoid.
//!
//! Which files are equal is known beforehand, from pleach's dry run. For each group: open, readahead (the kernel itself
//! reads page by page while it compares), FIDEDUPERANGE, close. No walk, no look at the extents before or after, no
//! accounting, no cache, no ranges. The time of this floor is the kernel's; any time beyond it is pleach's own.

use crate::tools::pleach;
use anyhow::{Context, Result};
use pleach::testing::fidedupe::submit;
use pleach::testing::reflink::MAX_DEDUPE_DESTINATIONS;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use rustix::fs::Advice;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use xtask::command::{output, program};

/// The number of threads that share at once, each a different group.
const THREADS: usize = 4;

/// Writes the plan for [`run`]: the files of the tree that are equal and do not share yet. Each path of a group ends
/// with a zero byte; the file to share with is first; an empty path ends the group.
pub(crate) fn plan(tree: &Path, plan: &Path) -> Result<()> {
    let mut command = program(pleach());
    command.args(["dedupe", "--dry-run", "--json", "--no-cache", "--ranges", "never"]).arg(tree);
    fs::write(plan, grouped(&output(&mut command)?)?).with_context(|| format!("cannot write {}", plan.display()))
}

/// The groups, in the order of the dry run's output.
fn grouped(said: &str) -> Result<String> {
    let mut places = HashMap::new();
    let mut groups: Vec<String> = Vec::new();
    for line in said.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        if line["type"] != "share" {
            continue;
        }
        let text = |value: &serde_json::Value| {
            value.as_str().map(|path| format!("{path}\0")).with_context(|| format!("no path in {line}"))
        };
        let source = text(&line["source"]["path"])?;
        let place = *places.entry(source.clone()).or_insert_with(|| {
            groups.push(source);
            groups.len() - 1
        });
        groups[place].push_str(&text(&line["path"])?);
    }
    Ok(groups.into_iter().map(|group| group + "\0").collect())
}

/// Shares the files of the plan.
pub(super) fn run(plan: &Path) -> Result<()> {
    let text = fs::read_to_string(plan).with_context(|| format!("cannot read {}", plan.display()))?;
    let groups: Vec<_> = text.split_terminator("\0\0").collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build()?;
    pool.install(|| groups.par_iter().try_for_each(|group| share(group)))
}

fn share(group: &str) -> Result<()> {
    let open = |path: &str| -> Result<(File, u64)> {
        let file = File::open(path).with_context(|| format!("cannot open {path}"))?;
        let size = file.metadata()?.len();
        rustix::fs::fadvise(&file, 0, None, Advice::WillNeed)?;
        Ok((file, size))
    };
    let mut paths = group.split('\0');
    let (source, size) = open(paths.next().unwrap_or_default())?;
    let paths: Vec<_> = paths.collect();
    for some in paths.chunks(MAX_DEDUPE_DESTINATIONS) {
        let files = some.iter().map(|path| open(path)).collect::<Result<Vec<_>>>()?;
        let places: Vec<_> = files.iter().map(|(file, _)| (file.as_fd(), 0)).collect();
        // A refused file frees nothing, which shows in the figures.
        submit((source.as_fd(), 0), size, &places);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_the_same_source_are_a_group() {
        let said = r#"{"type":"share","path":"/b","source":{"path":"/a"},"bytes":7}
            {"type":"share","path":"/y","source":{"path":"/x"},"bytes":7}
            {"type":"share","path":"/c","source":{"path":"/a"},"bytes":7}
            {"type":"summary"}"#;
        assert_eq!(grouped(said).unwrap(), "/a\0/b\0/c\0\0/x\0/y\0\0");
        assert!(grouped(r#"{"type":"share"}"#).is_err());
    }
}
