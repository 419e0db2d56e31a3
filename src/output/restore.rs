//! What a restore did, for people and for scripts.

use super::Output;
use super::summary;
use pleach::snapshot::restore::{Options, Stats};
use pleach::text::{self, size};
use serde::Serialize;

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    files: u64,
    dirs: u64,
    symlinks: u64,
    others: u64,
    bytes: u64,
    cloned_bytes: u64,
    copied_bytes: u64,
    unchanged_files: u64,
    deleted: u64,
    errors: u64,
    seconds: f64,
}

/// Tells what was done.
pub(crate) fn show(output: &Output, stats: &Stats, id: &str, options: &Options) {
    if output.is_json() {
        output.json(&object(stats));
    } else if options.dry_run {
        output.notice(&format!("dry run, nothing was written: {}", plan(stats)));
    } else if !output.is_quiet() {
        let heading = format!("restored {} below {}", text::path(id.as_ref()), text::path(&options.target));
        summary::print(output, &heading, &rows(stats));
    }
}

fn object(stats: &Stats) -> Summary {
    Summary {
        r#type: "summary",
        command: "restore",
        files: stats.files,
        dirs: stats.dirs,
        symlinks: stats.symlinks,
        others: stats.others,
        bytes: stats.bytes,
        cloned_bytes: stats.cloned_bytes,
        copied_bytes: stats.copied_bytes,
        unchanged_files: stats.unchanged_files,
        deleted: stats.deleted,
        errors: stats.errors,
        seconds: stats.seconds,
    }
}

fn rows(stats: &Stats) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("files", summary::files(stats.files, stats.unchanged_files, "restored")),
        ("size", summary::extent(stats.bytes, stats.dirs, stats.symlinks, stats.others)),
    ];
    if stats.cloned_bytes > 0 {
        rows.push(("shared", format!("{} with the snapshot", size(stats.cloned_bytes))));
    }
    if stats.copied_bytes > 0 {
        rows.push(("copied", size(stats.copied_bytes)));
    }
    if stats.deleted > 0 {
        rows.push(("removed", summary::entries(stats.deleted)));
    }
    summary::end(&mut rows, stats.errors, stats.seconds);
    rows
}

fn plan(stats: &Stats) -> String {
    let missing = stats.files.saturating_sub(stats.unchanged_files);
    let parts = [(missing, "to restore"), (stats.unchanged_files, "there already"), (stats.deleted, "to remove")];
    summary::listed_or_none(parts)
}
