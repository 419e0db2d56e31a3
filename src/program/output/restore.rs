//! The summary of a restore: text for people, an object for programs.

use super::Output;
use super::summary;
use crate::error::Error;
use crate::snapshot::restore::{Options, Stats};
use crate::util::text::{self, counted, size};
use serde::Serialize;

#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    command: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    snapshot: &'a str,
    files: u64,
    dirs: u64,
    symlinks: u64,
    others: u64,
    bytes: u64,
    cloned_bytes: u64,
    copied_bytes: u64,
    unchanged_files: u64,
    new_entries: u64,
    replaced_entries: u64,
    metadata_entries: u64,
    deleted: u64,
    compared_files: u64,
    verified_files: u64,
    read_bytes: u64,
    damaged: u64,
    errors: u64,
    dry_run: bool,
    /// Whether the restore finished.
    complete: bool,
    seconds: f64,
}

/// Prints the summary.
pub(crate) fn show(output: &Output, stats: &Stats, options: &Options) {
    let name = text::path(stats.snapshot.as_ref());
    if output.is_json() {
        output.json(&object(stats, options.dry_run, true));
    } else if options.dry_run {
        output.info(&format!("dry run of {name}, nothing was written: {}", plan(stats)));
    } else if !output.is_quiet() {
        let has_failed = stats.errors > 0 && stats.files + stats.dirs + stats.symlinks + stats.others == 0;
        let what = if has_failed { "nothing was restored of" } else { "restored" };
        let heading = format!("{what} {name} below {}", text::path(&options.target));
        summary::print(output, &heading, &rows(stats, options));
    }
}

/// Prints why a restore ended early, how much it had done, and how to continue.
pub(crate) fn show_stopped(output: &Output, error: Error, stats: &Stats, options: &Options) {
    let error = error.hint_also(&if options.dry_run { "nothing was changed".into() } else { state(stats) });
    output.error(&error);
    if output.is_json() {
        output.json(&object(stats, options.dry_run, false));
    }
}

/// The changes that a restore made before it ended early.
fn state(stats: &Stats) -> String {
    let counts = summary::listed([
        (stats.new_entries, "created"),
        (stats.replaced_entries, "replaced"),
        (stats.metadata_entries, "given other metadata"),
        (stats.deleted, "deleted"),
    ]);
    if counts.is_empty() {
        return "nothing in the target was changed".into();
    }
    let restored = stats.new_entries + stats.replaced_entries + stats.metadata_entries + stats.deleted;
    format!(
        "the target is partly restored from {}: {} changed ({counts}), all others are unchanged; directories may still \
         lack their owner, mode and times; run the same command again to continue",
        text::path(stats.snapshot.as_ref()),
        summary::entries(restored)
    )
}

fn object(stats: &Stats, dry_run: bool, complete: bool) -> Summary<'_> {
    Summary {
        r#type: "summary",
        command: "restore",
        snapshot: &stats.snapshot,
        files: stats.files,
        dirs: stats.dirs,
        symlinks: stats.symlinks,
        others: stats.others,
        bytes: stats.bytes,
        cloned_bytes: stats.cloned_bytes,
        copied_bytes: stats.copied_bytes,
        unchanged_files: stats.unchanged_files,
        new_entries: stats.new_entries,
        replaced_entries: stats.replaced_entries,
        metadata_entries: stats.metadata_entries,
        deleted: stats.deleted,
        compared_files: stats.compared_files,
        verified_files: stats.verified_files,
        read_bytes: stats.read_bytes,
        damaged: stats.damaged,
        errors: stats.errors,
        dry_run,
        complete,
        seconds: stats.seconds,
    }
}

fn rows(stats: &Stats, options: &Options) -> Vec<(&'static str, String)> {
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
    if stats.compared_files > 0 {
        rows.push(("read", format!("{}, to compare", counted(stats.compared_files, "file"))));
    }
    if options.verify {
        rows.push(("checked", format!("{} against the manifest", counted(stats.verified_files, "restored file"))));
    }
    if stats.damaged > 0 {
        rows.push(("damaged", format!("{} in the snapshot, not restored", counted(stats.damaged, "file"))));
    }
    summary::end(&mut rows, stats.errors, stats.seconds);
    rows
}

fn plan(stats: &Stats) -> String {
    let missing = stats.files.saturating_sub(stats.unchanged_files);
    let parts = [(missing, "to restore"), (stats.unchanged_files, "there already"), (stats.deleted, "to remove")];
    let plan = summary::listed_or_none(parts);
    // A plan reads nothing in the snapshot, so it does not know whether a file is damaged.
    if missing > 0 { format!("{plan}; contents are checked when they are restored") } else { plan }
}
