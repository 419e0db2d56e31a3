//! The summary of a copy: text for people, an object for programs.

use super::Output;
use super::summary;
use crate::copy_tree::{Options, Stats};
use crate::error::{Error, ErrorKind};
use crate::util::text::{self, count, counted, size};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    command: &'static str,
    files: u64,
    dirs: u64,
    symlinks: u64,
    others: u64,
    bytes: u64,
    copied_entries: u64,
    unchanged_files: u64,
    cloned_bytes: u64,
    copied_bytes: u64,
    read_bytes: u64,
    inline_bytes: u64,
    hole_bytes: u64,
    verified_files: u64,
    damaged: u64,
    errors: u64,
    dry_run: bool,
    /// Whether the copy finished.
    complete: bool,
    engines: BTreeMap<&'static str, u64>,
    reasons: BTreeMap<&'static str, u64>,
    not_kept: &'a BTreeMap<&'static str, u64>,
    seconds: f64,
}

/// Prints the summary.
pub(crate) fn show(output: &Output, stats: &Stats, destination: &Path, options: &Options) {
    if output.is_json() {
        output.json(&object(stats, options.dry_run, true));
    } else if options.dry_run {
        output.info(&format!("dry run, nothing was written: {}", plan(stats)));
    } else if !output.is_quiet() {
        let heading = if has_failed(stats) { "nothing was copied to" } else { "copied to" };
        summary::print(output, &format!("{heading} {}", text::path(destination)), &rows(stats));
    }
}

/// Whether nothing at all could be copied.
pub(crate) fn has_failed(stats: &Stats) -> bool {
    stats.errors > 0 && stats.entries() == 0
}

/// Shows why a copy ended early and how much it had copied by then; `how_to_continue` is the command to continue,
/// unless it is the same.
pub(crate) fn show_stopped(
    output: &Output,
    error: Error,
    stats: &Stats,
    options: &Options,
    how_to_continue: impl FnOnce() -> Option<String>,
) {
    let mut command = None;
    let error = match state(&error, stats, options) {
        None => error,
        Some(State { text, may_continue: false }) => error.hint_also(&text),
        Some(State { text, may_continue: true }) => {
            command = how_to_continue();
            let how = match &command {
                Some(_) => "the command below continues",
                None => "run the same command again to continue",
            };
            error.hint_also(&text).hint_also(how)
        }
    };
    output.error(&error);
    if let Some(command) = command {
        output.command(&command);
    }
    if output.is_json() {
        output.json(&object(stats, options.dry_run, false));
    }
}

/// The state that a copy which ended early has left behind.
struct State {
    text: String,
    /// Whether another run continues from this state.
    may_continue: bool,
}

/// `None`: the error itself says everything.
fn state(error: &Error, stats: &Stats, options: &Options) -> Option<State> {
    if stats.sync_failed {
        return None;
    }
    Some(match stats.copied_entries {
        _ if options.dry_run => State { text: "nothing was changed".into(), may_continue: false },
        0 => State { text: "nothing was copied".into(), may_continue: false },
        copied => State {
            text: format!("copied and kept: {}", summary::entries(copied)),
            // Other failures would occur again.
            may_continue: error.kind() == ErrorKind::Interrupted || error.code() == "no-space",
        },
    })
}

fn object(stats: &Stats, dry_run: bool, complete: bool) -> Summary<'_> {
    Summary {
        r#type: "summary",
        command: "copy",
        files: stats.files,
        dirs: stats.dirs,
        symlinks: stats.symlinks,
        others: stats.others,
        bytes: stats.bytes,
        copied_entries: stats.copied_entries,
        unchanged_files: stats.unchanged_files,
        cloned_bytes: stats.cloned_bytes,
        copied_bytes: stats.copied_bytes,
        read_bytes: stats.read_bytes,
        inline_bytes: stats.inline_bytes,
        hole_bytes: stats.hole_bytes,
        verified_files: stats.verified_files,
        damaged: stats.damaged,
        errors: stats.errors,
        dry_run,
        complete,
        engines: stats.engines.iter().map(|(engine, files)| (engine.name(), *files)).collect(),
        reasons: stats.reasons.iter().map(|(reason, bytes)| (reason.name(), *bytes)).collect(),
        not_kept: &stats.not_kept,
        seconds: stats.seconds,
    }
}

fn rows(stats: &Stats) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("files", summary::files(stats.files, stats.unchanged_files, "copied")),
        ("size", summary::extent(stats.bytes, stats.dirs, stats.symlinks, stats.others)),
    ];
    if stats.cloned_bytes > 0 {
        rows.push(("shared", format!("{} with the source", size(stats.cloned_bytes))));
    }
    if stats.copied_bytes > 0 {
        rows.push(("copied", copied(stats)));
    }
    if stats.inline_bytes > 0 {
        rows.push(("inline", format!("{} in files too small to share extents", size(stats.inline_bytes))));
    }
    if stats.hole_bytes > 0 {
        rows.push(("holes", size(stats.hole_bytes)));
    }
    if stats.verified_files > 0 {
        let what = counted(stats.verified_files, "file");
        let found = match stats.damaged {
            0 => "read back, equal to its source".to_string(),
            damaged => format!("read back, {} not equal to the source", count(damaged)),
        };
        let found = if stats.verified_files == 1 { found } else { found.replace("its source", "their sources") };
        rows.push(("verify", format!("{what} {found}")));
    }
    summary::end(&mut rows, stats.errors, stats.seconds);
    rows
}

/// The amount, the engines that copied it, and why nothing was shared.
fn copied(stats: &Stats) -> String {
    let engines = stats.engines.iter().map(|(engine, files)| (*files, engine.name()));
    let engines: Vec<_> =
        engines.filter(|(_, name)| *name != "clone").map(|(files, name)| format!("{name} {}", count(files))).collect();
    let mut text = size(stats.copied_bytes);
    if !engines.is_empty() {
        text += &format!(", files by {}", engines.join(", "));
    }
    summary::with_reasons(text, &stats.reasons)
}

fn plan(stats: &Stats) -> String {
    let missing = stats.files.saturating_sub(stats.unchanged_files);
    summary::listed_or_none([(missing, "to copy"), (stats.unchanged_files, "there already")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::copy::{Engine, Reason};

    fn stats() -> Stats {
        Stats {
            files: 12,
            dirs: 1,
            bytes: 3 << 20,
            unchanged_files: 2,
            copied_bytes: 2 << 20,
            hole_bytes: 1 << 20,
            engines: BTreeMap::from([(Engine::Buffered, 9), (Engine::Clone, 1)]),
            reasons: BTreeMap::from([(Reason::OtherFilesystem, 2 << 20)]),
            seconds: 0.5,
            ..Stats::default()
        }
    }

    #[test]
    fn the_summary_shows_what_was_copied_how_and_why() {
        let text: Vec<_> = rows(&stats()).into_iter().map(|(label, value)| format!("{label} {value}")).collect();
        assert_eq!(
            text,
            [
                "files 12: 10 copied, 2 there already",
                "size 3.0 MiB, in 1 directory",
                "copied 2.0 MiB, files by buffered 9 (the source lies on another filesystem)",
                "holes 1.0 MiB",
                "time 0.50 s"
            ]
        );
        assert_eq!(plan(&stats()), "10 to copy, 2 there already");
    }

    #[test]
    fn what_an_early_end_left_is_what_was_copied() {
        let left = |error: &Error, stats: &Stats, dry_run| {
            state(error, stats, &Options { dry_run, ..Options::default() })
                .map(|state| (state.text, state.may_continue))
        };
        let copied = Stats { copied_entries: 12, ..stats() };
        let interrupted = Error::interrupted();
        assert_eq!(left(&interrupted, &copied, false), Some(("copied and kept: 12 entries".into(), true)));
        assert_eq!(left(&interrupted, &copied, true), Some(("nothing was changed".into(), false)));
        assert_eq!(left(&interrupted, &stats(), false), Some(("nothing was copied".into(), false)));
        assert_eq!(left(&Error::failed("go on"), &copied, false).map(|(_, may_continue)| may_continue), Some(false));
        assert_eq!(left(&interrupted, &Stats { sync_failed: true, ..copied }, false), None);
    }

    #[test]
    fn the_json_summary_has_the_documented_fields() {
        let json = serde_json::to_value(object(&stats(), false, true)).unwrap();
        let mut documented = vec![
            "type",
            "command",
            "files",
            "dirs",
            "symlinks",
            "others",
            "bytes",
            "copied_entries",
            "unchanged_files",
            "cloned_bytes",
            "copied_bytes",
            "read_bytes",
            "inline_bytes",
            "hole_bytes",
            "verified_files",
            "damaged",
            "errors",
            "dry_run",
            "complete",
            "engines",
            "reasons",
            "not_kept",
            "seconds",
        ];
        documented.sort_unstable();
        assert_eq!(json.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(), documented);
        assert_eq!(json["engines"], serde_json::json!({"buffered": 9, "clone": 1}));
    }
}
