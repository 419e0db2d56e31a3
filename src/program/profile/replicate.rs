//! The section `[replicate]`: the repositories that get a copy of the snapshots.

use super::fields::{Fields, Read, Value};
use super::show::{Shown, unset};
use super::values;
use crate::snapshot::replicate::{Destination, Options};
use std::ffi::OsStr;

/// The section `[replicate]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replicate {
    /// The destinations, as they were written.
    to: Vec<String>,
    last: Option<u64>,
    /// Whether a destination may be missing, if another one is there.
    pub(crate) skip_missing: bool,
}

impl Replicate {
    pub(super) fn read(fields: &mut Fields<'_>) -> Replicate {
        Replicate {
            to: fields.required("to", |value| values::filled(value, destination)),
            last: fields.optional("last", values::positive),
            skip_missing: fields.or("skip_missing", false, values::flag),
        }
    }

    pub(super) fn show(&self) -> Shown {
        vec![
            ("to", self.to.clone().into()),
            ("last", self.last.map_or_else(unset, |last| i64::try_from(last).unwrap_or(i64::MAX).into())),
            ("skip_missing", self.skip_missing.into()),
        ]
    }

    /// The destinations.
    pub(crate) fn destinations(&self) -> Vec<Destination> {
        self.to.iter().filter_map(|text| Destination::parse(OsStr::new(text)).ok()).collect()
    }

    /// The options. An unattended run makes no repository: where a disk is not mounted, it would fill another one.
    pub(crate) fn options(&self, threads: Option<usize>, dry_run: bool) -> Options {
        let last = self.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX));
        Options { last, must_exist: true, dry_run, threads, ..Options::default() }
    }
}

/// An absolute path, or an address.
fn destination(value: &Value<'_>) -> Read<String> {
    let text = values::string(value)?;
    match Destination::parse(OsStr::new(&text)) {
        Ok(Destination::Remote(_)) => Ok(text),
        Ok(Destination::Path(_)) => values::absolute(value).map(|_| text),
        Err(mistake) => values::refused(value, mistake),
    }
}
