//! The summary of a put: text for people, an object for programs.

use super::Output;
use super::summary;
use crate::put::Stats;
use crate::util::text::{self, size};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    bytes: u64,
    shared_bytes: u64,
    written_bytes: u64,
    read_bytes: u64,
    errors: u64,
    seconds: f64,
}

/// Prints the summary.
pub(crate) fn show(output: &Output, stats: &Stats, destination: &Path) {
    if output.is_json() {
        output.json(&object(stats));
    } else if !output.is_quiet() {
        summary::print(output, &format!("put {}", text::path(destination)), &rows(stats));
    }
}

fn object(stats: &Stats) -> Summary {
    Summary {
        r#type: "summary",
        command: "put",
        bytes: stats.bytes,
        shared_bytes: stats.shared,
        written_bytes: stats.written,
        read_bytes: stats.read,
        errors: stats.errors,
        seconds: stats.seconds,
    }
}

fn rows(stats: &Stats) -> Vec<(&'static str, String)> {
    let data = stats.shared + stats.written;
    let mut rows = vec![("size", size(stats.bytes))];
    if stats.shared > 0 {
        let percent = summary::percent(stats.shared as f64 / data as f64 * 100.0);
        rows.push(("shared", format!("{percent} ({})", size(stats.shared))));
    }
    rows.push(("written", summary::size_or_nothing(stats.written)));
    rows.push(("read", summary::size_or_nothing(stats.read)));
    summary::end(&mut rows, stats.errors, stats.seconds);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> Stats {
        Stats { bytes: 5 << 20, shared: 3 << 20, written: 1 << 20, read: 10 << 20, seconds: 0.5, ..Stats::default() }
    }

    #[test]
    fn the_json_summary_has_the_documented_fields() {
        let json = serde_json::to_value(object(&stats())).unwrap();
        let fields: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut documented =
            vec!["type", "command", "bytes", "shared_bytes", "written_bytes", "read_bytes", "errors", "seconds"];
        documented.sort_unstable();
        assert_eq!(fields, documented);
    }

    #[test]
    fn the_share_is_that_of_the_data() {
        let text: Vec<_> = rows(&stats()).into_iter().map(|(label, value)| format!("{label} {value}")).collect();
        assert_eq!(
            text,
            ["size 5.0 MiB", "shared 75.0 % (3.0 MiB)", "written 1.0 MiB", "read 10.0 MiB", "time 0.50 s"]
        );
    }
}
