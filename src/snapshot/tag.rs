//! Changes the tags of a snapshot, and pins it.

use super::repository::{self, Marks, Repository};
use crate::error::{ErrorKind, Result};
use crate::monitor::Monitor;
use std::path::Path;
use std::time::Instant;

/// What to change.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Tags to add.
    pub add: Vec<String>,
    /// Tags to remove.
    pub remove: Vec<String>,
    /// Whether it will be pinned, so that neither `prune` nor `remove` deletes it; `None`: as before.
    pub pin: Option<bool>,
}

/// The marks of a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The snapshot's name.
    pub name: String,
    /// Its tags now.
    pub tags: Vec<String>,
    /// Whether it is pinned now.
    pub pinned: bool,
    /// Tags that it should lose and did not have.
    pub missing: Vec<String>,
    /// Whether anything was changed.
    pub changed: bool,
    /// Failures; each was reported to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Changes the tags and the pin of the snapshot that `id` means, and returns them. Without changes, it only reads.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, tag};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// create::create(&[source], &repo, &create::Options::default(), &Silent)?;
///
/// let mut options = tag::Options::default();
/// options.add = vec!["before-upgrade".into()];
/// options.pin = Some(true);
/// let stats = tag::tag(&repo, "latest", &options, &Silent)?;
/// assert_eq!((stats.tags, stats.pinned), (vec!["before-upgrade".to_string()], true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If there is no such snapshot, its manifest is damaged, a tag is invalid, or the repository is locked.
pub fn tag(repo: &Path, id: &str, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    options.add.iter().try_for_each(|tag| repository::check_tag(tag))?;
    let repository = Repository::open(repo)?;
    let is_change = !options.add.is_empty() || !options.remove.is_empty() || options.pin.is_some();
    let _lock = if is_change { Some(repository.lock(monitor)?) } else { None };
    let info = repository.resolve(id)?;
    let mut errors = 0;
    let before = match repository::marks(&repository, &info.name, &info.header.tags) {
        Ok(marks) => marks,
        Err(error) if is_change || error.kind() != ErrorKind::Damage => return Err(error),
        Err(error) => {
            monitor.problem(&error);
            errors += 1;
            Marks { tags: info.header.tags.clone(), pinned: true }
        }
    };
    let mut marks = before.clone();
    for tag in &options.add {
        if !marks.tags.contains(tag) {
            marks.tags.push(tag.clone());
        }
    }
    let missing = options.remove.iter().filter(|tag| !marks.tags.contains(tag)).cloned().collect();
    marks.tags.retain(|tag| !options.remove.contains(tag));
    marks.pinned = options.pin.unwrap_or(marks.pinned);
    let changed = marks != before;
    if changed {
        repository::set_marks(&repository, &info.name, &marks)?;
    } else if is_change {
        // An earlier run may have made the change and failed to sync it.
        repository::sync_marks(&repository)?;
    }
    let Marks { tags, pinned } = marks;
    Ok(Stats { name: info.name, tags, pinned, missing, changed, errors, seconds: begun.elapsed().as_secs_f64() })
}
