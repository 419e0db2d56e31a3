//! Metadata that the destination refused: counted by kind, and reported once.
//!
//! If an ordinary user cannot set metadata because only root may set it, this is not an error, as with `cp -a`: copies
//! of other users' files belong to the user who copies. If root could not set it, this is an error, because the
//! filesystem does not store it.

use super::stats::Stats;
use crate::error::Error;
use crate::fs::metadata::{Refused, RefusedAttr};
use crate::monitor::{Event, Monitor};
use crate::util::mutex::lock;
use crate::util::text;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// Kinds, as the JSON summary names them.
const OWNER: &str = "owner";
const ATTRIBUTES: &str = "attributes";
const ACLS: &str = "acls";
const FLAGS: &str = "flags";
const PROJECT: &str = "project";
const HARD_LINKS: &str = "hard_links";

/// How many entries lack each kind of metadata, and the first such entry.
#[derive(Debug, Default)]
pub(super) struct NotKept(Mutex<BTreeMap<&'static str, (u64, PathBuf)>>);

impl NotKept {
    fn note(&self, kind: &'static str, shown: impl FnOnce() -> PathBuf) {
        lock(&self.0).entry(kind).or_insert_with(|| (0, shown())).0 += 1;
    }

    /// Counts the metadata that the destination refused for an entry.
    pub(super) fn refused(&self, refused: &Refused, is_foreign: bool, shown: impl Fn() -> PathBuf) {
        if refused.ownership || is_foreign {
            self.note(OWNER, &shown);
        }
        let acls = refused.acls().count();
        if acls > 0 {
            self.note(ACLS, &shown);
        }
        if refused.xattrs.len() > acls {
            self.note(ATTRIBUTES, &shown);
        }
        if refused.fileattr.flags != 0 {
            self.note(FLAGS, &shown);
        }
        if refused.fileattr.project {
            self.note(PROJECT, &shown);
        }
    }

    /// Counts the parts of its seal that the destination refused for an entry.
    pub(super) fn seal(&self, fileattr: RefusedAttr, shown: impl Fn() -> PathBuf) {
        self.refused(&Refused { fileattr, ..Refused::default() }, false, shown);
    }

    /// Counts an entry that is a separate file although its source is another name of an inode.
    pub(super) fn hard_link(&self, shown: impl FnOnce() -> PathBuf) {
        self.note(HARD_LINKS, shown);
    }

    /// Adds the counts to `stats`. `as_errors`: each is an error.
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
            let why = match *kind {
                ACLS => "the destination takes none, or it contradicts the mode",
                _ => "the destination does not take them",
            };
            let error = || Error::failed(format!("keep the {what} of")).at(first);
            match (is_root, entries) {
                (false, _) => monitor.event(Event::NotKept { what, entries: *entries, first }),
                (true, 1) => monitor.problem(&error().hint(why)),
                (true, _) => {
                    monitor.problem(&error().hint(format!("and of {} more; {why}", text::count(entries - 1))));
                }
            }
        }
    }
}
