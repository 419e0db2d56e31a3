//! Which files share with each other: tables for people (`tables`), objects for scripts (`objects`), and the words for
//! groups (`words`).

mod objects;
mod tables;
mod words;

pub(crate) use words::{SharingReport, letter, name_of};

use super::Output;
use crate::error::Result;
use crate::monitor::Monitor;

/// Shows which files share with each other.
///
/// # Errors
/// Only if the monitor asks to stop.
pub(crate) fn show(output: &Output, report: &SharingReport<'_>, monitor: &dyn Monitor) -> Result<()> {
    if output.is_json() { objects::show(output, report, monitor) } else { tables::show(output, report, monitor) }
}
