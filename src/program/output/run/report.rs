//! The report that hooks read from stdin: plain text that can be sent by mail as it is.

use super::results::{Results, heading, rows};
use crate::util::text;

/// The results, the output of the hooks so far, and the last messages. All of it is bounded.
pub(crate) fn report(results: &Results, log: &str) -> String {
    let mut report = format!("pleach: {}\n\n", heading(results));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let fact = |label: &str, value: &str| format!("  {label:<11}{}\n", text::escape(value.as_ref()));
    report += &fact("host", &host);
    report += &fact("began", &text::rfc3339(results.began, 0));
    if let Some(repository) = &results.repository {
        report += &fact("repository", &text::path(repository));
    }
    if let Some(snapshot) = &results.snapshot {
        report += &fact("snapshot", snapshot);
    }
    report.push('\n');
    for (label, value) in rows(results) {
        report += &fact(label, &value);
    }
    for hook in results.hooks.iter().filter(|hook| !hook.output.is_empty()) {
        let words: Vec<_> = hook.command.iter().map(|word| text::path(word.as_ref())).collect();
        report += &format!("\nOutput of the hook '{}', {}:\n\n{}", hook.hook, words.join(" "), hook.output);
    }
    if !log.is_empty() {
        report += &format!("\nMessages:\n\n{log}");
    }
    report
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    #[test]
    fn a_report_has_results_output_and_messages() {
        let report = report(&results(), "cannot open /x: Permission denied\n");
        for part in [
            "pleach: run of home: interrupted (exit status 130)\n",
            "  began      2026-11-20T02:00:00Z\n",
            "  repository /backup\n",
            "  snapshot   s1\n",
            "  dedupe     skipped: interrupted\n",
            "\nOutput of the hook 'after', false:\n\nwords\n",
            "\nMessages:\n\ncannot open /x: Permission denied\n",
        ] {
            assert!(report.contains(part), "{part}\n{report}");
        }
    }
}
