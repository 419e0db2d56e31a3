//! The summary of a dedupe: text for people, an object for programs.

use super::Output;
use super::bound;
use super::json::PathField;
use super::reasons;
use super::summary;
use crate::dedupe::skip::Skip;
use crate::dedupe::{Options, Ranges, Stats};
use crate::error::Error;
use crate::util::text::{self, count, counted, size};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The summary; its fields are fixed, scripts read them.
#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    files: u64,
    bytes: u64,
    read_bytes: u64,
    duplicate_files: u64,
    duplicate_bytes: u64,
    range_bytes: u64,
    already_shared_bytes: u64,
    submitted_bytes: u64,
    freed_bytes: u64,
    freed_is: &'static str,
    pinned_bytes: u64,
    rewritten_bytes: u64,
    ranges: &'static str,
    skipped: BTreeMap<&'static str, u64>,
    errors: u64,
    cache_hits: u64,
    opened_files: u64,
    out_of_time: bool,
    dry_run: bool,
    seconds: f64,
}

/// A line of the plan.
#[derive(Serialize)]
struct ShareLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    source: PathField<'a>,
    bytes: u64,
}

/// Prints one file that a dry run would share.
pub(crate) fn plan(output: &Output, source: &Path, path: &Path, bytes: u64) {
    if output.is_json() {
        let (path, source) = (PathField::new(path), PathField::new(source));
        output.json(&ShareLine { r#type: "share", path, source, bytes });
    } else {
        output.line(&format!("{}  {} = {}", size(bytes), text::path(path), text::path(source)));
    }
}

/// Prints the summary.
pub(crate) fn show(output: &Output, stats: &Stats, options: &Options) {
    if output.is_json() {
        // The summary is the last line.
        early_end(output, stats, options);
        return output.json(&object(stats, options));
    }
    if !output.is_quiet() {
        let head = match (stats.duplicate_files + stats.range_bytes, options.dry_run) {
            (0, _) if stats.out_of_time => "nothing was shared: the time limit was reached".to_string(),
            (0, _) if stats.errors > 0 => "nothing was shared; not everything could be looked at".to_string(),
            (0, _) if stats.interrupted => "nothing was shared".to_string(),
            (0, _) if stats.ranges == Ranges::Compared => "nothing left to share".to_string(),
            (0, _) => "no equal files left to share".to_string(),
            (_, false) => format!("freed {}", freed(stats)),
            (_, true) => format!("would free {} (dry run, nothing was done)", freed(stats)),
        };
        summary::print(output, &head, &rows(stats));
    }
    early_end(output, stats, options);
}

/// Reports that not all files were examined.
fn early_end(output: &Output, stats: &Stats, options: &Options) {
    if stats.interrupted && output.is_interrupted() {
        output.error(&Error::interrupted().hint(interrupted(stats, options)));
    } else if stats.out_of_time {
        output.notice("time-limit", None, "time limit reached; the next run continues");
    }
}

/// The state that an interrupted dedupe has left behind.
fn interrupted(stats: &Stats, options: &Options) -> &'static str {
    match stats.duplicate_files + stats.range_bytes {
        _ if options.dry_run => "nothing was changed",
        0 => "nothing was shared",
        _ => "files that were shared stay shared",
    }
}

/// `at most 12.0 MiB`, or just the size if it is exact.
fn freed(stats: &Stats) -> String {
    format!("{}{}", bound::words(stats.freed_is), size(stats.freed_bytes))
}

fn ranges(ranges: Ranges) -> &'static str {
    match ranges {
        Ranges::Compared => "compared",
        Ranges::Off => "off",
        Ranges::AllShared => "all_shared",
    }
}

fn object(stats: &Stats, options: &Options) -> Summary {
    Summary {
        r#type: "summary",
        command: "dedupe",
        files: stats.files,
        bytes: stats.bytes,
        read_bytes: stats.read_bytes,
        duplicate_files: stats.duplicate_files,
        duplicate_bytes: stats.duplicate_bytes,
        range_bytes: stats.range_bytes,
        already_shared_bytes: stats.already_shared_bytes,
        submitted_bytes: stats.submitted_bytes,
        freed_bytes: stats.freed_bytes,
        freed_is: bound::name(stats.freed_is),
        pinned_bytes: stats.pinned_bytes,
        rewritten_bytes: stats.rewritten_bytes,
        ranges: ranges(stats.ranges),
        skipped: stats.skipped.iter().map(|(reason, files)| (reason.name(), *files)).collect(),
        errors: stats.errors,
        cache_hits: stats.cache_hits,
        opened_files: stats.opened_files,
        out_of_time: stats.out_of_time,
        dry_run: options.dry_run,
        seconds: stats.seconds,
    }
}

fn rows(stats: &Stats) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("files", format!("{}, {}", count(stats.files), size(stats.bytes))),
        ("equal", format!("{}, {}", counted(stats.duplicate_files, "file"), size(stats.duplicate_bytes))),
    ];
    if stats.range_bytes > 0 {
        rows.push(("ranges", format!("{} in files that are not equal as a whole", size(stats.range_bytes))));
    }
    if stats.ranges == Ranges::AllShared {
        let words = "not compared: all large files share their data already (--ranges always compares them)";
        rows.push(("ranges", words.to_string()));
    }
    rows.push(("freed", if stats.freed_bytes == 0 { "nothing".to_string() } else { freed(stats) }));
    if stats.rewritten_bytes > 0 {
        rows.push(("written", format!("{} to free more than that", size(stats.rewritten_bytes))));
    }
    if stats.pinned_bytes > 0 {
        rows.push((
            "pinned",
            format!("{} equal, but held by something else, or costlier to rewrite", size(stats.pinned_bytes)),
        ));
    }
    if stats.already_shared_bytes > 0 {
        rows.push(("before", format!("{} shared already", size(stats.already_shared_bytes))));
    }
    rows.push(("read", summary::size_or_nothing(stats.read_bytes)));
    if let Some(differing) = stats.skipped.get(&Skip::Differs) {
        rows.push(("differ", format!("{}, compared and found not to be equal", counted(*differing, "file"))));
    }
    let others = stats.skipped.iter().filter(|(reason, _)| **reason != Skip::Differs);
    let skipped: Vec<_> =
        others.map(|(reason, files)| format!("{} {}", count(*files), reasons::skip(*reason))).collect();
    if !skipped.is_empty() {
        rows.push(("skipped", skipped.join(", ")));
    }
    summary::end(&mut rows, stats.errors, stats.seconds);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::bound::Bound;

    fn stats() -> Stats {
        Stats {
            files: 1234,
            bytes: 5 << 20,
            duplicate_files: 2,
            duplicate_bytes: 3 << 20,
            freed_bytes: 3 << 20,
            skipped: BTreeMap::from([(Skip::Immutable, 1), (Skip::Differs, 1)]),
            errors: 1,
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
                "files 1,234, 5.0 MiB",
                "equal 2 files, 3.0 MiB",
                "freed 3.0 MiB",
                "read nothing",
                "differ 1 file, compared and found not to be equal",
                "skipped 1 immutable",
                "errors 1 problem, named above",
                "time 0.50 s"
            ]
        );
    }

    #[test]
    fn a_figure_that_is_not_known_exactly_is_called_so() {
        let planned = Stats { freed_is: Bound::AtMost, ranges: Ranges::AllShared, ..stats() };
        let text: Vec<_> = rows(&planned).into_iter().map(|(label, value)| format!("{label} {value}")).collect();
        assert_eq!(text[3], "freed at most 3.0 MiB");
        assert!(text[2].starts_with("ranges not compared"), "{text:?}");
        let json = serde_json::to_value(object(&planned, &Options::default())).unwrap();
        assert_eq!((&json["freed_is"], &json["ranges"]), (&"at_most".into(), &"all_shared".into()));
    }

    #[test]
    fn the_json_summary_has_the_documented_fields() {
        let json = serde_json::to_value(object(&stats(), &Options::default())).unwrap();
        let mut documented = "type command files bytes read_bytes duplicate_files duplicate_bytes range_bytes \
            already_shared_bytes submitted_bytes freed_bytes pinned_bytes skipped errors cache_hits seconds \
            rewritten_bytes opened_files out_of_time dry_run freed_is ranges"
            .split_whitespace()
            .collect::<Vec<_>>();
        documented.sort_unstable();
        assert_eq!(json.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(), documented);
        assert_eq!(json["skipped"], serde_json::json!({"immutable": 1, "differs": 1}));
    }

    #[test]
    fn a_line_of_the_plan_names_both_files() {
        let (path, source) = (PathField::new(Path::new("/b")), PathField::new(Path::new("/a")));
        let line = ShareLine { r#type: "share", path, source, bytes: 7 };
        let json = serde_json::to_string(&line).unwrap();
        assert_eq!(json, r#"{"type":"share","path":"/b","source":{"path":"/a"},"bytes":7}"#);
    }
}
