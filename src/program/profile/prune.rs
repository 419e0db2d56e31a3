//! The section `[prune]`: which snapshots stay. A run without a new snapshot removes none, so the section needs
//! `[snapshot]`; the profile as a whole checks that.

use super::fields::{Fields, Read, Value};
use super::show::{Shown, Shows, unset};
use super::values;
use crate::snapshot::prune::{Free, Keep, Options};

/// The section `[prune]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prune {
    keep: Keep,
}

impl Prune {
    pub(super) fn read(fields: &mut Fields<'_>) -> Prune {
        let before = fields.problems();
        let keep = Keep {
            last: fields.or("keep_last", 0, values::count),
            hourly: fields.or("keep_hourly", 0, values::count),
            daily: fields.or("keep_daily", 0, values::count),
            weekly: fields.or("keep_weekly", 0, values::count),
            monthly: fields.or("keep_monthly", 0, values::count),
            yearly: fields.or("keep_yearly", 0, values::count),
            within: fields.optional("keep_within", values::duration),
            tags: fields.or("keep_tag", Vec::new(), |value| values::list(value, values::tag)),
            free: fields.optional("keep_free", free),
        };
        // A rule with a mistake is reported already.
        if keep.is_empty() && fields.problems() == before {
            fields.refuse("[prune] has no rule: say what to keep, as in keep_daily = 7");
        }
        Prune { keep }
    }

    pub(super) fn show(&self) -> Shown {
        let Keep { last, hourly, daily, weekly, monthly, yearly, tags, within, free } = &self.keep;
        let count = |count: &u64| Shows::from(i64::try_from(*count).unwrap_or(i64::MAX));
        vec![
            ("keep_last", count(last)),
            ("keep_hourly", count(hourly)),
            ("keep_daily", count(daily)),
            ("keep_weekly", count(weekly)),
            ("keep_monthly", count(monthly)),
            ("keep_yearly", count(yearly)),
            ("keep_within", within.map_or_else(unset, |within| values::duration_text(within).into())),
            ("keep_tag", tags.clone().into()),
            (
                "keep_free",
                match free {
                    None => unset(),
                    Some(Free::Bytes(bytes)) => values::size_text(*bytes).into(),
                    Some(Free::Percent(percent)) => format!("{percent}%").into(),
                },
            ),
        ]
    }

    /// The options of the pruning.
    pub(crate) fn options(&self, threads: Option<usize>, dry_run: bool) -> Options {
        Options { keep: self.keep.clone(), dry_run, threads, ..Options::default() }
    }
}

/// A size, or a percentage of the filesystem.
fn free(value: &Value<'_>) -> Read<Free> {
    match value.get_ref().as_str() {
        Some(text) if text.ends_with('%') => values::less_than_all(value).map(Free::Percent),
        _ => values::size_or_none(value).map(Free::Bytes),
    }
}
