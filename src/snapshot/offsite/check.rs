//! Checks a store.

use super::held::Held;
use super::progress::watch;
use super::store::{Access, Store};
use super::verified::directories;
use super::{fault, guard, library_log};
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::Monitor;
use rustic_core::{CheckResults, ReadSubsetOption};
use std::time::Instant;

/// How a store is checked.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct CheckOptions {
    /// Read this part of the data, in percent, chosen at random.
    pub read_data: Option<f64>,
}

/// The result.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckStats {
    /// The damage, in the library's words.
    pub damage: Vec<String>,
    /// Unusual facts that harm nothing.
    pub notes: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// Checks a store: that all data of all snapshots is there, and if asked for, that it can be decrypted and has its
/// hashes.
///
/// # Errors
/// If the store cannot be read.
pub fn check(access: &Access, options: &CheckOptions, monitor: &dyn Monitor) -> Result<CheckStats> {
    let begun = Instant::now();
    // The cache would answer for the store.
    let store = Store::open(&Access { no_cache: true, ..access.clone() }, monitor)?;
    let mut library = rustic_core::CheckOptions::default();
    if let Some(percent) = options.read_data {
        library.read_data = true;
        library.read_data_subset =
            if percent >= 100.0 { ReadSubsetOption::All } else { ReadSubsetOption::Percentage(percent) };
    }
    let action = "check the store";
    let phase = if options.read_data.is_some() { "reading data" } else { "checking" };
    let work = || {
        let held = Held::read(&store)?;
        let trees: Vec<_> = held.all.iter().map(|stored| stored.file.tree).collect();
        let results = guard::despite_own_threads(|| store.repository.check_with_trees(library, trees.clone()));
        let directories = results.is_ok().then(|| directories(&store, &held.all, action)).transpose()?;
        Ok::<_, Error>((held, results, directories.unwrap_or_default()))
    };
    let (result, _) = watch(&store.counts, Some(phase), monitor, || store.watch.end(), work)?;
    library_log::take();
    if monitor.is_cancelled() {
        return Err(Error::interrupted());
    }
    // What cannot be read now may be intact.
    let failure = match store.read_failure(action) {
        Some(error) if error.kind() == ErrorKind::Damage || fault::is_of_host(&error) => return Err(error),
        failure => failure,
    };
    let (held, results, directories) = match result {
        Ok(found) => found?,
        Err(panic) => return Err(guard::error(&format!("{action} {}", store.url), &*panic)),
    };
    let mut stats = match results {
        Ok(results) => sorted(results),
        Err(error) if is_damage(&error) => {
            return Err(fault::damage(action, &store.url, fault::in_one_line(&error)));
        }
        Err(error) => return Err(failure.unwrap_or_else(|| store.fault(action)(error))),
    };
    // The library has words for those that cannot be read.
    stats.damage.extend(directories.unread.filter(|_| stats.damage.is_empty()));
    stats.damage.extend(directories.exchanged);
    stats.damage.extend(held.damaged);
    stats.damage.extend(store.watch.odd_keys());
    Ok(CheckStats { seconds: begun.elapsed().as_secs_f64(), ..stats })
}

/// Whether something in the store cannot be decrypted or understood.
fn is_damage(error: &rustic_core::RusticError) -> bool {
    let text = error.display_log();
    ["cryptographic", "internal operations", "the repository", "verification"].iter().any(|kind| text.contains(kind))
}

fn sorted(results: CheckResults) -> CheckStats {
    let mut stats = CheckStats::default();
    for (level, finding) in results.0 {
        let text = finding.to_string();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = fault::shortened(&fault::without_kind(&text));
        // The library does not export the type of the level.
        match format!("{level:?}").as_str() {
            "Error" => stats.damage.push(text),
            _ => stats.notes.push(text),
        }
    }
    stats
}
