//! The results of a run and of its parts, and their words.

use crate::program::exit_status::ExitStatus;
use crate::util::text::{self, counted, duration};
use serde::{Serialize, Serializer};
use std::path::PathBuf;

/// The results of a run so far.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) profile: String,
    pub(crate) repository: Option<PathBuf>,
    /// When the run began, in seconds since 1970.
    pub(crate) began: i64,
    pub(crate) steps: Vec<Step>,
    pub(crate) hooks: Vec<Hook>,
    /// The name of the snapshot that was taken.
    pub(crate) snapshot: Option<String>,
    /// The worst status so far.
    pub(crate) status: ExitStatus,
    /// The first failure.
    pub(crate) error: Option<String>,
    pub(crate) errors: u64,
    pub(crate) dry_run: bool,
    pub(crate) seconds: f64,
}

/// The result of a step.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) step: &'static str,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
    /// The numbers for monitoring.
    #[serde(skip)]
    pub(crate) figures: Vec<Figure>,
}

/// What became of a step.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    Ran {
        #[serde(serialize_with = "code")]
        status: ExitStatus,
        errors: u64,
        seconds: f64,
    },
    Skipped {
        skipped: &'static str,
    },
}

/// A number of a step: the end of its name, its meaning, its value.
pub(crate) type Figure = (&'static str, &'static str, u64);

/// The result of a hook.
#[derive(Debug, Serialize)]
pub(crate) struct Hook {
    pub(crate) r#type: &'static str,
    pub(crate) hook: &'static str,
    pub(crate) command: Vec<String>,
    /// Its exit status. None if it did not start, was killed by a signal, or was only planned.
    pub(crate) status: Option<i32>,
    /// Why it failed.
    pub(crate) error: Option<String>,
    /// The end of its output.
    pub(crate) output: String,
    pub(crate) dry_run: bool,
    pub(crate) seconds: f64,
}

/// A status as a number.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn code<S: Serializer>(status: &ExitStatus, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(*status as u8)
}

/// `run of home: failed (exit status 1)`.
pub(super) fn heading(results: &Results) -> String {
    let what = if results.dry_run { "dry run" } else { "run" };
    let profile = text::path(results.profile.as_ref());
    match results.status {
        ExitStatus::Done => format!("{what} of {profile}: done"),
        status => format!("{what} of {profile}: {} (exit status {})", words(status), status as u8),
    }
}

/// The result of each step and of each hook that failed.
pub(super) fn rows(results: &Results) -> Vec<(&'static str, String)> {
    let mut rows: Vec<_> = results.steps.iter().map(|step| (step.step, outcome(&step.outcome))).collect();
    rows.extend(results.hooks.iter().filter_map(|hook| Some((hook.hook, hook.error.clone()?))));
    rows.push(("time", duration(results.seconds)));
    rows
}

/// `done, 1.2 s`
fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Skipped { skipped } => format!("skipped: {skipped}"),
        Outcome::Ran { status, errors, seconds } => format!("{}, {}", result(*status, *errors), duration(*seconds)),
    }
}

/// The result of a step that ran.
pub(crate) fn result(status: ExitStatus, errors: u64) -> String {
    match status {
        ExitStatus::Incomplete if errors > 0 => counted(errors, "problem"),
        status => words(status).into(),
    }
}

/// A status in words.
fn words(status: ExitStatus) -> &'static str {
    match status {
        ExitStatus::Done => "done",
        ExitStatus::Failed | ExitStatus::Usage => "failed",
        ExitStatus::Incomplete => "done with problems",
        ExitStatus::Damage => "found damage",
        ExitStatus::Locked => "the repository is locked",
        ExitStatus::Interrupted => "interrupted",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn results() -> Results {
        let ran = Outcome::Ran { status: ExitStatus::Incomplete, errors: 2, seconds: 1.25 };
        Results {
            profile: "home".into(),
            repository: Some("/backup".into()),
            began: 1_795_140_000,
            steps: vec![
                Step { step: "snapshot", outcome: ran, figures: vec![("files", "Files in the snapshot.", 7)] },
                Step { step: "dedupe", outcome: Outcome::Skipped { skipped: "interrupted" }, figures: vec![] },
            ],
            hooks: vec![Hook {
                r#type: "hook",
                hook: "after",
                command: vec!["false".into()],
                status: Some(1),
                error: Some("cannot run".into()),
                output: "words\n".into(),
                dry_run: false,
                seconds: 0.5,
            }],
            snapshot: Some("s1".into()),
            status: ExitStatus::Interrupted,
            error: Some("snapshot: 2 problems".into()),
            errors: 3,
            dry_run: false,
            seconds: 2.5,
        }
    }

    #[test]
    fn the_summary_names_steps_and_failed_hooks() {
        let results = results();
        assert_eq!(heading(&results), "run of home: interrupted (exit status 130)");
        let text: Vec<_> = rows(&results).into_iter().map(|(label, value)| format!("{label} {value}")).collect();
        assert_eq!(
            text,
            ["snapshot 2 problems, 1.2 s", "dedupe skipped: interrupted", "after cannot run", "time 2.5 s"]
        );
    }
}
