//! The section `[dedupe]`: where equal data is shared.

use super::fields::{Fields, Read, Value};
use super::show::{Shown, unset};
use super::values;
use crate::dedupe::{self, CacheChoice, ranges};
use crate::error::Result;
use crate::tree::exclude::{self, Line, Patterns};
use std::path::PathBuf;
use std::time::Duration;

const RANGES: &[(&str, ranges::Mode)] =
    &[("auto", ranges::Mode::Auto), ("always", ranges::Mode::Always), ("never", ranges::Mode::Never)];

/// The section `[dedupe]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dedupe {
    pub(crate) paths: Vec<PathBuf>,
    exclude: Vec<String>,
    one_file_system: bool,
    ranges: ranges::Mode,
    min_run: u64,
    index_memory: u64,
    cache: CacheChoice,
    max_time: Option<Duration>,
}

impl Dedupe {
    pub(super) fn read(fields: &mut Fields<'_>) -> Dedupe {
        let defaults = ranges::Options::default();
        Dedupe {
            paths: fields.required("paths", |value| values::filled(value, values::absolute)),
            exclude: fields.or("exclude", Vec::new(), |value| values::list(value, values::pattern)),
            one_file_system: fields.or("one_file_system", false, values::flag),
            ranges: fields.or("ranges", defaults.mode, |value| values::choice(value, RANGES)),
            min_run: fields.or("min_run", defaults.min_run, values::min_run),
            index_memory: fields.or("index_memory", defaults.index_memory, values::size),
            cache: fields.or("cache", CacheChoice::Usual, cache),
            max_time: fields.optional("max_time", values::duration),
        }
    }

    pub(super) fn show(&self) -> Shown {
        vec![
            ("paths", self.paths.clone().into()),
            ("exclude", self.exclude.clone().into()),
            ("one_file_system", self.one_file_system.into()),
            ("ranges", values::word(RANGES, &self.ranges).into()),
            ("min_run", values::size_text(self.min_run).into()),
            ("index_memory", values::size_text(self.index_memory).into()),
            (
                "cache",
                match &self.cache {
                    CacheChoice::File(path) => path.clone().into(),
                    CacheChoice::None => "none".into(),
                    CacheChoice::Usual => "usual".into(),
                },
            ),
            ("max_time", self.max_time.map_or_else(unset, |duration| values::duration_text(duration).into())),
        ]
    }

    /// The options of the dedupe.
    ///
    /// # Errors
    /// If a pattern is invalid.
    pub(crate) fn options(&self, threads: Option<usize>, dry_run: bool) -> Result<dedupe::Options> {
        Ok(dedupe::Options {
            excludes: exclude::Options {
                patterns: Patterns::new(self.exclude.iter().map(|text| Line::from(text.as_str())))?,
                one_file_system: self.one_file_system,
                ..exclude::Options::default()
            },
            cache: self.cache.clone(),
            max_time: self.max_time,
            dry_run,
            ranges: ranges::Options { mode: self.ranges, min_run: self.min_run, index_memory: self.index_memory },
            threads,
        })
    }
}

fn cache(value: &Value<'_>) -> Read<CacheChoice> {
    match value.get_ref().as_str() {
        Some("usual") => Ok(CacheChoice::Usual),
        Some("none") => Ok(CacheChoice::None),
        _ => values::absolute(value).map(CacheChoice::File),
    }
}
