//! The summary of a snapshot: text for people, an object for programs.

use super::Output;
use super::summary::{self, listed, percent};
use crate::snapshot::create::{Options, Stats};
use crate::tree::exclude::Counts;
use crate::util::text::{self, count, counted, size};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A warning is printed if less than this percentage is shared, or if much data was copied.
const SHARING_EXPECTED: f64 = 95.0;
const MUCH: u64 = 1 << 30;

/// The summary of a snapshot; its fields are fixed, scripts read them.
#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    command: &'static str,
    name: &'a str,
    files: u64,
    dirs: u64,
    symlinks: u64,
    others: u64,
    bytes: u64,
    new_files: u64,
    changed_files: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_files: Option<u64>,
    unchanged_files: u64,
    renamed_files: u64,
    removed_files: u64,
    resumed_files: u64,
    resumed_bytes: u64,
    cloned_bytes: u64,
    range_shared_bytes: u64,
    copied_bytes: u64,
    read_bytes: u64,
    inline_bytes: u64,
    hole_bytes: u64,
    excluded: u64,
    errors: u64,
    sharing_percent: f64,
    reasons: BTreeMap<&'static str, u64>,
    added_data_bytes: u64,
    added_metadata_bytes: u64,
    free_bytes: u64,
    dry_run: bool,
    seconds: f64,
}

/// Prints the summary, and warns if little is shared. `required`: the percentage of the data that must be shared.
/// Returns whether less is shared.
pub(crate) fn show(output: &Output, stats: &Stats, repo: &Path, options: &Options, required: Option<f64>) -> bool {
    let shortfall = required.and_then(|required| shortfall(stats, required));
    let messages = || {
        if let Some(sentence) = excluded(&stats.excluded) {
            output.detail(&sentence);
        }
        if stats.added.is_some_and(|added| added.suggested) {
            output.notice("hardlinks-suggested", None, &suggestion(stats));
        }
        if let Some(warning) = sharing_warning(stats).filter(|_| !options.dry_run) {
            output.warning("little-shared", &warning);
        }
        if let Some(sentence) = &shortfall {
            output.shortfall("sharing-required", sentence);
        }
    };
    if output.is_json() {
        // The summary is the last line.
        messages();
        output.json(&object(stats, options.dry_run));
        return shortfall.is_some();
    }
    if options.dry_run {
        output.info(&plan(stats, output.is_verbose()));
    } else if !output.is_quiet() {
        let head = format!("snapshot {} in {}", stats.name, text::path(repo));
        summary::print(output, &head, &rows(stats));
    }
    messages();
    shortfall.is_some()
}

fn object(stats: &Stats, dry_run: bool) -> Summary<'_> {
    Summary {
        r#type: "summary",
        command: "snapshot",
        name: &stats.name,
        files: stats.files,
        dirs: stats.dirs,
        symlinks: stats.symlinks,
        others: stats.others,
        bytes: stats.bytes,
        new_files: stats.new_files,
        changed_files: stats.changed_files,
        metadata_files: dry_run.then_some(stats.metadata_files),
        unchanged_files: stats.unchanged_files,
        renamed_files: stats.renamed_files,
        removed_files: stats.removed_files,
        resumed_files: stats.resumed_files,
        resumed_bytes: stats.resumed_bytes,
        cloned_bytes: stats.cloned_bytes,
        range_shared_bytes: stats.range_shared_bytes,
        copied_bytes: stats.copied_bytes,
        read_bytes: stats.read_bytes,
        inline_bytes: stats.inline_bytes,
        hole_bytes: stats.hole_bytes,
        excluded: stats.excluded.total(),
        errors: stats.errors,
        sharing_percent: stats.sharing_percent(),
        reasons: stats.reasons.iter().map(|(reason, bytes)| (reason.name(), *bytes)).collect(),
        added_data_bytes: stats.added.map_or(0, |added| added.data_bytes),
        added_metadata_bytes: stats.added.map_or(0, |added| added.metadata_bytes),
        free_bytes: stats.free_bytes,
        dry_run,
        seconds: stats.seconds,
    }
}

fn rows(stats: &Stats) -> Vec<(&'static str, String)> {
    let mut rows =
        vec![("files", files(stats)), ("size", summary::extent(stats.bytes, stats.dirs, stats.symlinks, stats.others))];
    let mut shared = format!("{} ({})", percent(stats.sharing_percent()), size(stats.cloned_bytes));
    if stats.range_shared_bytes > 0 {
        shared += &format!(", {} of it in changed files", size(stats.range_shared_bytes));
    }
    rows.push(("shared", shared));
    let copied = if stats.copied_bytes == 0 { "nothing".to_string() } else { copied(stats) };
    rows.push(("copied", copied));
    if stats.resumed_files > 0 {
        let text = format!("{} that an interrupted run had finished", counted(stats.resumed_files, "file"));
        rows.push(("resumed", format!("{text}, {} of it written", summary::size_or_nothing(stats.resumed_bytes))));
    }
    rows.push(("read", summary::size_or_nothing(stats.read_bytes)));
    if stats.inline_bytes > 0 {
        rows.push(("inline", format!("{} in files too small to share extents", size(stats.inline_bytes))));
    }
    if stats.hole_bytes > 0 {
        rows.push(("holes", size(stats.hole_bytes)));
    }
    if let Some(added) = &stats.added {
        let (data, metadata) = (size(added.data_bytes), size(added.metadata_bytes));
        let free = size(stats.free_bytes);
        rows.push(("added", format!("{data} of data, about {metadata} of metadata on disk; {free} free")));
    }
    summary::end(&mut rows, stats.errors, stats.seconds);
    rows
}

/// The numbers of files in the source, by their change since the last snapshot.
fn found(stats: &Stats) -> [(u64, &'static str); 5] {
    [
        (stats.new_files, "new"),
        (stats.changed_files.saturating_sub(stats.metadata_files), "changed"),
        (stats.metadata_files, "with other metadata"),
        (stats.unchanged_files, "unchanged"),
        (stats.renamed_files, "renamed"),
    ]
}

fn files(stats: &Stats) -> String {
    let parts = listed(found(stats));
    let mut text = count(stats.files);
    if !parts.is_empty() {
        text += &format!(": {parts}");
    }
    if stats.removed_files > 0 {
        text += &format!("; {} removed", count(stats.removed_files));
    }
    text
}

/// The amount, and the reasons for copying it.
fn copied(stats: &Stats) -> String {
    summary::with_reasons(size(stats.copied_bytes), &stats.reasons)
}

/// The number of excluded entries, by reason.
fn excluded(counts: &Counts) -> Option<String> {
    let parts = listed([
        (counts.patterns, "by pattern"),
        (counts.tags, "by a tag in the directory"),
        (counts.filesystems, "on another filesystem"),
        (counts.sizes, "too large"),
        (counts.ages, "too old"),
    ]);
    (counts.total() > 0).then(|| format!("excluded: {parts} (directories with everything in them)"))
}

fn plan(stats: &Stats, is_listed: bool) -> String {
    let parts = summary::listed_or_none(found(stats).into_iter().chain([(stats.removed_files, "removed")]));
    let list = if stats.is_first && !is_listed { " (-v lists them)" } else { "" };
    format!("dry run, nothing was written: {parts}{list}")
}

/// The message if less of the data is shared than required, in percent.
fn shortfall(stats: &Stats, required: f64) -> Option<String> {
    let shared = stats.sharing_percent();
    (shared < required).then(|| {
        format!(
            "{} of the data is shared, but {required} % is required; the snapshot {} was made nevertheless",
            percent(shared),
            stats.name
        )
    })
}

/// The message if hard links for unchanged files would have saved much. It is shown once per repository.
fn suggestion(stats: &Stats) -> String {
    let what = match stats.added {
        Some(added) if added.metadata_bytes > added.data_bytes => {
            format!("about {} of metadata in this snapshot", size(added.metadata_bytes))
        }
        _ => format!("{} copied for this snapshot", size(stats.copied_bytes)),
    };
    format!(
        "{what}, mostly for unchanged files: `--unchanged hardlink` stores these only once \
         (changing such a file in one snapshot then changes it in all of them; keep the repository read-only)"
    )
}

/// The warning if much was copied: full copies that nobody notices are the classic failure of such tools.
fn sharing_warning(stats: &Stats) -> Option<String> {
    let shared = stats.sharing_percent();
    let fell_short = stats.copied_bytes > 0 && (shared < SHARING_EXPECTED || stats.copied_bytes >= MUCH);
    fell_short.then(|| {
        let how_much = if stats.cloned_bytes == 0 {
            "no data is".into()
        } else {
            format!("only {} of the data is", percent(shared))
        };
        format!("{how_much} shared with the source or an earlier snapshot; copied: {}", copied(stats))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::copy::Reason;

    fn stats() -> Stats {
        Stats {
            name: "2026-11-20T020000Z".into(),
            files: 1234,
            dirs: 1,
            symlinks: 2,
            bytes: 3 << 20,
            new_files: 1,
            unchanged_files: 1233,
            removed_files: 4,
            cloned_bytes: 3 << 20,
            seconds: 0.5,
            ..Stats::default()
        }
    }

    #[test]
    fn the_summary_names_only_what_happened() {
        let text: Vec<_> = rows(&stats()).into_iter().map(|(label, value)| format!("{label} {value}")).collect();
        assert_eq!(
            text,
            [
                "files 1,234: 1 new, 1,233 unchanged; 4 removed",
                "size 3.0 MiB, in 1 directory, 2 symlinks",
                "shared 100 % (3.0 MiB)",
                "copied nothing",
                "read nothing",
                "time 0.50 s"
            ]
        );
    }

    #[test]
    fn excluded_entries_are_counted_by_reason() {
        assert_eq!(excluded(&Counts::default()), None);
        let counts = Counts { patterns: 1200, sizes: 1, ..Counts::default() };
        assert_eq!(
            excluded(&counts).unwrap(),
            "excluded: 1,200 by pattern, 1 too large (directories with everything in them)"
        );
    }

    #[test]
    fn less_sharing_than_required_is_reported() {
        let stats = Stats { cloned_bytes: 1, copied_bytes: 2, ..stats() };
        assert_eq!(shortfall(&stats, 33.3), None);
        assert_eq!(
            shortfall(&stats, 50.0).unwrap(),
            "33.3 % of the data is shared, but 50 % is required; the snapshot 2026-11-20T020000Z was made nevertheless"
        );
    }

    #[test]
    fn a_warning_names_the_reasons_for_copies() {
        assert_eq!(sharing_warning(&stats()), None);
        let reasons = BTreeMap::from([(Reason::SwapFile, 1 << 20), (Reason::OtherFilesystem, 2 << 20)]);
        let stats = Stats { copied_bytes: 3 << 20, reasons, ..stats() };
        assert_eq!(
            sharing_warning(&stats).unwrap(),
            "only 50.0 % of the data is shared with the source or an earlier snapshot; \
             copied: 3.0 MiB (the source lies on another filesystem: 2.0 MiB; the file is a swap file: 1.0 MiB)"
        );
    }

    #[test]
    fn the_json_summary_has_the_documented_fields() {
        let json = serde_json::to_value(object(&stats(), false)).unwrap();
        let fields: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut documented = vec![
            "type",
            "command",
            "name",
            "files",
            "dirs",
            "symlinks",
            "others",
            "bytes",
            "new_files",
            "changed_files",
            "unchanged_files",
            "renamed_files",
            "removed_files",
            "resumed_files",
            "resumed_bytes",
            "cloned_bytes",
            "range_shared_bytes",
            "copied_bytes",
            "read_bytes",
            "inline_bytes",
            "hole_bytes",
            "excluded",
            "errors",
            "sharing_percent",
            "reasons",
            "added_data_bytes",
            "added_metadata_bytes",
            "free_bytes",
            "dry_run",
            "seconds",
        ];
        documented.sort_unstable();
        assert_eq!(fields, documented);
    }
}
