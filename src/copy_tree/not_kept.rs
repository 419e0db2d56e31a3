//! Metadata that the destination did not take: counted by its kind, and reported once.
//!
//! Metadata that only root may set is no error for an ordinary user, as with `cp -a`: the copies of another's files are
//! one's own. Metadata that root could not set is an error, because then the filesystem does not have it.

use super::stats::Stats;
use crate::error::Error;
use crate::fs::metadata::Refused;
use crate::monitor::{Event, Monitor};
use crate::util::mutex::lock;
use crate::util::text;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Kinds, as the JSON summary names them.
const OWNER: &str = "owner";
const ATTRIBUTES: &str = "attributes";
const ACLS: &str = "acls";
const FLAGS: &str = "flags";
const PROJECT: &str = "project";
const HARD_LINKS: &str = "hard_links";

/// How many entries lack something, by kind, and the first of them.
#[derive(Debug, Default)]
pub(super) struct NotKept(Mutex<BTreeMap<&'static str, (u64, PathBuf)>>);

impl NotKept {
    fn note(&self, kind: &'static str, shown: impl FnOnce() -> PathBuf) {
        lock(&self.0).entry(kind).or_insert_with(|| (0, shown())).0 += 1;
    }

    /// What an entry's destination did not take.
    pub(super) fn refused(&self, refused: &Refused, is_foreign: bool, shown: impl Fn() -> PathBuf) {
        if refused.ownership || is_foreign {
            self.note(OWNER, &shown);
        }
        let is_acl = |name: &[u8]| name.starts_with(b"system.posix_acl_");
        if refused.xattrs.iter().any(|(name, _)| is_acl(name)) {
            self.note(ACLS, &shown);
        }
        if refused.xattrs.iter().any(|(name, _)| !is_acl(name)) {
            self.note(ATTRIBUTES, &shown);
        }
        if refused.fileattr.flags != 0 {
            self.note(FLAGS, &shown);
        }
        if refused.fileattr.project {
            self.note(PROJECT, &shown);
        }
    }

    /// An entry is a file of its own although its source is a further name of another.
    pub(super) fn hard_link(&self, shown: impl FnOnce() -> PathBuf) {
        self.note(HARD_LINKS, shown);
    }

    /// Adds it to the counts. `as_errors`: each is one.
    pub(super) fn count(&self, stats: &mut Stats, as_errors: bool) {
        for (kind, (entries, _)) in lock(&self.0).iter() {
            stats.not_kept.insert(kind, *entries);
            stats.errors += if as_errors { *entries } else { 0 };
        }
    }

    /// Reports each kind once.
    pub(super) fn report(&self, is_root: bool, monitor: &dyn Monitor) {
        for (kind, (entries, first)) in lock(&self.0).iter() {
            let what = match *kind {
                OWNER => "owner, group or mode",
                ATTRIBUTES => "extended attributes",
                ACLS => "access control list",
                FLAGS => "chattr flags",
                PROJECT => "project id",
                _ => "hard links",
            };
            match (is_root, entries) {
                (false, _) => monitor.event(Event::NotKept { what, entries: *entries, first }),
                (true, 1) => monitor.problem(&refusal(what, first)),
                (true, _) => {
                    let more = format!("and of {} more; the destination does not take them", text::count(entries - 1));
                    monitor.problem(&Error::failed(format!("keep the {what} of")).at(first).hint(more));
                }
            }
        }
    }
}

fn refusal(what: &str, first: &Path) -> Error {
    Error::failed(format!("keep the {what} of")).at(first).hint("the destination does not take them")
}
