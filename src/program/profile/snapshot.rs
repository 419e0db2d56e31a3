//! The section `[snapshot]`: what a snapshot contains, and how it is taken.

use super::fields::Fields;
use super::show::{Shown, unset};
use super::values;
use crate::error::Result;
use crate::snapshot::create::{self, Hash, Unchanged};
use crate::tree::exclude::{self, Line, Patterns};
use std::path::PathBuf;
use std::time::Duration;

const HASHES: &[(&str, Hash)] = &[("new", Hash::New), ("none", Hash::None)];
const UNCHANGED: &[(&str, Unchanged)] = &[("clone", Unchanged::Clone), ("hardlink", Unchanged::Hardlink)];

/// The section `[snapshot]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) sources: Vec<PathBuf>,
    exclude: Vec<String>,
    exclude_from: Vec<PathBuf>,
    exclude_caches: bool,
    exclude_if_present: Vec<String>,
    exclude_larger_than: Option<u64>,
    exclude_older_than: Option<Duration>,
    pub(crate) one_file_system: bool,
    tags: Vec<String>,
    unchanged: Unchanged,
    hash: Hash,
    freeze: bool,
    full_walk_every: u64,
    allow_empty: bool,
    pub(crate) require_sharing: Option<f64>,
}

impl Snapshot {
    pub(super) fn read(fields: &mut Fields<'_>) -> Snapshot {
        Snapshot {
            sources: fields.required("sources", |value| values::filled(value, values::absolute)),
            exclude: fields.or("exclude", Vec::new(), |value| values::list(value, values::pattern)),
            exclude_from: fields.or("exclude_from", Vec::new(), |value| values::list(value, values::absolute)),
            exclude_caches: fields.or("exclude_caches", false, values::flag),
            exclude_if_present: fields.or("exclude_if_present", Vec::new(), |value| values::list(value, values::name)),
            exclude_larger_than: fields.optional("exclude_larger_than", values::size_or_none),
            exclude_older_than: fields.optional("exclude_older_than", values::duration),
            one_file_system: fields.or("one_file_system", false, values::flag),
            tags: fields.or("tags", Vec::new(), |value| values::list(value, values::tag)),
            unchanged: fields.or("unchanged", Unchanged::Clone, |value| values::choice(value, UNCHANGED)),
            hash: fields.or("hash", Hash::New, |value| values::choice(value, HASHES)),
            freeze: fields.or("freeze", false, values::flag),
            full_walk_every: fields.or("full_walk_every", 30, values::positive),
            allow_empty: fields.or("allow_empty", false, values::flag),
            require_sharing: fields.optional("require_sharing", values::percent),
        }
    }

    pub(super) fn show(&self) -> Shown {
        vec![
            ("sources", self.sources.clone().into()),
            ("exclude", self.exclude.clone().into()),
            ("exclude_from", self.exclude_from.clone().into()),
            ("exclude_caches", self.exclude_caches.into()),
            ("exclude_if_present", self.exclude_if_present.clone().into()),
            ("exclude_larger_than", self.exclude_larger_than.map_or_else(unset, |b| values::size_text(b).into())),
            ("exclude_older_than", self.exclude_older_than.map_or_else(unset, |d| values::duration_text(d).into())),
            ("one_file_system", self.one_file_system.into()),
            ("tags", self.tags.clone().into()),
            ("unchanged", values::word(UNCHANGED, &self.unchanged).into()),
            ("hash", values::word(HASHES, &self.hash).into()),
            ("freeze", self.freeze.into()),
            ("full_walk_every", i64::try_from(self.full_walk_every).unwrap_or(i64::MAX).into()),
            ("allow_empty", self.allow_empty.into()),
            ("require_sharing", self.require_sharing.map_or_else(unset, Into::into)),
        ]
    }

    /// The options of the snapshot.
    ///
    /// # Errors
    /// If a file of patterns cannot be read, or has an invalid pattern.
    pub(crate) fn options(&self, threads: Option<usize>, dry_run: bool) -> Result<create::Options> {
        let mut lines = Vec::new();
        for file in &self.exclude_from {
            lines.extend(exclude::read(file)?);
        }
        lines.extend(self.exclude.iter().map(|text| Line::from(text.as_str())));
        Ok(create::Options {
            name: None,
            tags: self.tags.clone(),
            parent: None,
            excludes: exclude::Options {
                patterns: Patterns::new(lines)?,
                caches: self.exclude_caches,
                if_present: self.exclude_if_present.iter().map(|name| name.clone().into_bytes()).collect(),
                one_file_system: self.one_file_system,
                larger_than: self.exclude_larger_than,
                older_than: self.exclude_older_than,
            },
            hash: self.hash,
            freeze: self.freeze && !dry_run,
            subvolumes: create::Subvolumes::Auto,
            unchanged: self.unchanged,
            threads,
            narrow_walks: Some(self.full_walk_every.saturating_sub(1)),
            allow_empty: self.allow_empty,
            dry_run,
        })
    }
}
