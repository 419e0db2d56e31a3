//! The results of the last run in the text format of Prometheus, for the textfile collector of the node exporter. The
//! file is written under a temporary name that the collector ignores, and renamed.

use super::results::{Outcome, Results, Step};
use crate::error::{Error, Result};
use crate::program::exit_status::ExitStatus;
use crate::program::output::beside::create_beside;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The first line of the file. The next run replaces only a file that has it.
const MARK: &str = "# Written by pleach run, which replaces this file.\n";
/// The metric that the next run keeps if it fails.
const SUCCESS: &str = "pleach_run_success_timestamp_seconds";
/// More of an old file is not read.
const LONGEST: u64 = 1 << 20;

/// Writes the results of a run to `path`.
///
/// # Errors
/// If the file cannot be written, or another file is there, which is kept.
pub(crate) fn save(path: &Path, results: &Results, now: i64) -> Result<()> {
    let failed = |cause: io::Error| Error::io("write the metrics", path, cause);
    let old = previous(path).map_err(failed)?;
    let text = render(results, now, last_success(&old, &results.profile));
    let (temporary, mut file) = create_beside(path, ".prom.part", 0o600).map_err(failed)?;
    // The collector runs as another user.
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.set_permissions(Permissions::from_mode(0o644)))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(failed)
}

/// The text that the last run wrote; empty if there is none.
fn previous(path: &Path) -> io::Result<String> {
    let other = |what: &str| Err(io::Error::other(format!("{what}, and was kept")));
    match fs::symlink_metadata(path) {
        Ok(status) if !status.is_file() => return other("not a regular file"),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    if text.is_empty() || text.starts_with(MARK) {
        Ok(text)
    } else {
        other("a file is there that pleach did not write")
    }
}

/// When the last run of this profile that was done ended, according to the file that it wrote.
fn last_success(old: &str, profile: &str) -> Option<i64> {
    let start = format!("{SUCCESS}{{profile=\"{}\"}} ", label(profile));
    old.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok())
}

/// The metrics, each with its type and meaning.
#[derive(Default)]
struct Text {
    out: String,
}

impl Text {
    /// Adds a metric with its samples: labels and values.
    fn gauge(&mut self, name: &str, help: &str, samples: &[(String, String)]) {
        if !samples.is_empty() {
            let _ = write!(self.out, "# HELP {name} {help}\n# TYPE {name} gauge\n");
        }
        for (labels, value) in samples {
            let _ = writeln!(self.out, "{name}{{{labels}}} {value}");
        }
    }
}

fn render(results: &Results, now: i64, last_success: Option<i64>) -> String {
    let mut text = Text { out: MARK.to_string() };
    let profile = format!("profile=\"{}\"", label(&results.profile));
    let mut of_run = |name: &str, help: &str, value: String| text.gauge(name, help, &[(profile.clone(), value)]);
    let is_done = matches!(results.status, ExitStatus::Done | ExitStatus::Incomplete);
    of_run("pleach_run_timestamp_seconds", "When the last run ended.", now.to_string());
    if let Some(success) = if is_done { Some(now) } else { last_success } {
        of_run(SUCCESS, "When the last run ended that did all its work (exit status 0 or 3).", success.to_string());
    }
    of_run("pleach_run_exit_status", "The exit status of the last run.", (results.status as u8).to_string());
    of_run("pleach_run_duration_seconds", "How long the last run took.", format!("{:.3}", results.seconds));
    of_run("pleach_run_errors", "Problems of the last run.", results.errors.to_string());
    let of_steps = |value: &dyn Fn(&Outcome) -> Option<String>| -> Vec<_> {
        let sample = |step: &Step| Some((format!("{profile},step=\"{}\"", step.step), value(&step.outcome)?));
        results.steps.iter().filter_map(sample).collect()
    };
    let skipped = of_steps(&|outcome| Some(u8::from(matches!(outcome, Outcome::Skipped { .. })).to_string()));
    text.gauge("pleach_step_skipped", "Whether the last run skipped the step.", &skipped);
    let statuses = of_steps(&|outcome| match outcome {
        Outcome::Ran { status, .. } => Some((*status as u8).to_string()),
        Outcome::Skipped { .. } => None,
    });
    text.gauge("pleach_step_exit_status", "The exit status of the step in the last run.", &statuses);
    let seconds = of_steps(&|outcome| match outcome {
        Outcome::Ran { seconds, .. } => Some(format!("{seconds:.3}")),
        Outcome::Skipped { .. } => None,
    });
    text.gauge("pleach_step_duration_seconds", "How long the step took in the last run.", &seconds);
    let errors = of_steps(&|outcome| match outcome {
        Outcome::Ran { errors, .. } => Some(errors.to_string()),
        Outcome::Skipped { .. } => None,
    });
    text.gauge("pleach_step_errors", "Problems of the step in the last run.", &errors);
    for step in &results.steps {
        for (name, help, value) in &step.figures {
            let name = format!("pleach_{}_{name}", step.step);
            text.gauge(&name, help, &[(profile.clone(), value.to_string())]);
        }
    }
    text.out
}

/// The value of a label.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_metric_has_one_help_one_type_and_its_samples_together() {
        let text = render(&Results { profile: "a\"b\\c\n".into(), ..results() }, 1000, Some(900));
        let mut seen = BTreeSet::new();
        let mut lines = text.lines().skip(1).peekable();
        while let Some(help) = lines.next() {
            let (name, words) = help.strip_prefix("# HELP ").and_then(|help| help.split_once(' ')).expect(help);
            assert!(words.ends_with('.') && seen.insert(name.to_string()), "{help}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
            assert_eq!(lines.next(), Some(format!("# TYPE {name} gauge").as_str()));
            let mut samples = 0;
            while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
                let rest = sample.strip_prefix(name).and_then(|rest| rest.strip_prefix("{profile=\"a\\\"b\\\\c\\n\""));
                let value = rest.and_then(|rest| rest.rsplit_once("} ")).expect(sample).1;
                assert!(value.parse::<f64>().is_ok(), "{sample}");
                samples += 1;
            }
            assert!(samples > 0, "{name}");
        }
        assert!(seen.contains("pleach_snapshot_files") && seen.contains("pleach_step_errors"), "{seen:?}");
    }

    #[test]
    fn a_failed_run_keeps_the_time_of_the_last_success() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pleach.prom");
        let at = |status, now| {
            save(&path, &Results { status, ..results() }, now).unwrap();
            last_success(&fs::read_to_string(&path).unwrap(), "home")
        };
        assert_eq!(at(ExitStatus::Failed, 1), None);
        assert_eq!(at(ExitStatus::Incomplete, 2), Some(2));
        assert_eq!(at(ExitStatus::Locked, 3), Some(2));
        assert_eq!(at(ExitStatus::Done, 4), Some(4));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn only_a_file_of_an_earlier_run_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pleach.prom");
        fs::write(&path, "up 1\n").unwrap();
        assert!(save(&path, &results(), 1).unwrap_err().to_string().contains("did not write"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "up 1\n");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(save(&path, &results(), 1).unwrap_err().to_string().contains("not a regular file"));
    }
}
