//! The results of `pleach run`: the summary for people, objects for programs, and in the files beside this one the
//! report for hooks (`report`) and the text file for Prometheus (`metrics`).

pub(crate) mod metrics;
mod report;
mod results;

pub(crate) use report::report;
pub(crate) use results::{Figure, Hook, Outcome, Results, Step, result};

use super::Output;
use super::json::PathField;
use super::terminal::Style;
use crate::program::exit_status::ExitStatus;
use crate::util::text;
use results::{code, heading, rows};
use serde::Serialize;
use std::path::Path;

/// The summary; its fields are fixed, scripts read them.
#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    command: &'static str,
    profile: &'a str,
    #[serde(serialize_with = "code")]
    status: ExitStatus,
    snapshot: Option<&'a str>,
    steps: &'a [Step],
    errors: u64,
    dry_run: bool,
    seconds: f64,
}

/// Prints the result of a hook that has run, or would run. People have seen its output already.
pub(crate) fn hook(output: &Output, hook: &Hook) {
    if output.is_json() {
        output.json(hook);
    } else if hook.dry_run {
        let words: Vec<_> = hook.command.iter().map(|word| text::path(word.as_ref())).collect();
        output.info(&format!("would run the hook '{}': {}", hook.hook, words.join(" ")));
    }
}

/// Warns about a hook that cannot run.
pub(crate) fn missing_program(output: &Output, hook: &str, program: &str) {
    let program = text::path(program.as_ref());
    output.warning("command-not-found", &format!("the hook '{hook}' cannot run: there is no program {program}"));
}

/// The summary behind an object that is the only result.
#[derive(Serialize)]
struct Short {
    r#type: &'static str,
    command: &'static str,
    errors: u64,
}

/// Ends the JSON of `run --show`.
pub(crate) fn show_profile(output: &Output) {
    output.json(&Short { r#type: "summary", command: "run", errors: 0 });
}

/// Prints the path of a new profile.
pub(crate) fn show_new_profile(output: &Output, path: &Path) {
    if output.is_json() {
        output.json(&NewProfile { r#type: "profile", path: PathField::new(path) });
        return output.json(&Short { r#type: "summary", command: "init-profile", errors: 0 });
    }
    let shown = text::path(path);
    output.info(&format!("wrote {shown}: edit it, then try `pleach run --dry-run {shown}`"));
}

#[derive(Serialize)]
struct NewProfile<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
}

/// Prints the summary.
pub(crate) fn show(output: &Output, results: &Results) {
    if output.is_json() {
        return output.json(&object(results));
    }
    if !output.is_quiet() {
        output.line(&Style::Bold.paint(&heading(results), output.colours()));
        rows(results).iter().for_each(|(label, value)| output.line(&format!("  {label:<10}{value}")));
    }
}

fn object(results: &Results) -> Summary<'_> {
    Summary {
        r#type: "summary",
        command: "run",
        profile: &results.profile,
        status: results.status,
        snapshot: results.snapshot.as_deref(),
        steps: &results.steps,
        errors: results.errors,
        dry_run: results.dry_run,
        seconds: results.seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::results::tests::results;
    use super::*;

    #[test]
    fn the_json_summary_has_the_documented_fields() {
        let json = serde_json::to_value(object(&results())).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "type": "summary", "command": "run", "profile": "home", "status": 130, "snapshot": "s1",
                "steps": [
                    {"step": "snapshot", "status": 3, "errors": 2, "seconds": 1.25},
                    {"step": "dedupe", "skipped": "interrupted"},
                ],
                "errors": 3, "dry_run": false, "seconds": 2.5,
            })
        );
    }
}
