//! Check `deny`: licenses, duplicate versions and sources of the crates we depend on, by cargo-deny and
//! `.cargo/deny.toml`.
//!
//! cargo-deny is installed when it is missing. Its checks are the ones that need no network; advisories are not among
//! them.

use super::files::Files;
use super::finding::Finding;
use crate::command;
use crate::packages::Crate;
use anyhow::{Context, Result, bail};
use serde_json::Value;

const CONFIG: &str = ".cargo/deny.toml";
const LOCK: &str = "Cargo.lock";
/// Unoptimized, it takes two minutes to build instead of many, and a second to run.
const TOOL: Crate = Crate { name: "cargo-deny", version: "0.20.2", debug: true };

/// Runs cargo-deny.
pub(crate) fn check(files: &Files) -> Result<Vec<Finding>> {
    let problem = |message: &str, error: anyhow::Error| {
        let details = format!("{error:#}").lines().map(str::to_owned).collect();
        Ok(vec![Finding::new(CONFIG, 1, message).with_details(details)])
    };
    let tool = match TOOL.install() {
        Ok(tool) => tool,
        Err(error) => return problem("cannot install cargo-deny: connect to the network once", error),
    };
    // cargo-deny reads the manifests of all crates, also of those that this machine's target does not need.
    if let Err(error) = command::output(command::cargo().args(["fetch", "--locked"])) {
        return problem("cannot fetch the crates in Cargo.lock: connect to the network once", error);
    }
    let mut deny = command::program(&tool);
    deny.current_dir(command::root());
    deny.args([
        "--offline",
        "--workspace",
        "--format=json",
        "--config",
        CONFIG,
        "check",
        "licenses",
        "bans",
        "sources",
    ]);
    let output = deny.output().with_context(|| format!("cannot run {}", tool.display()))?;
    let report = String::from_utf8_lossy(&output.stderr);
    let found = findings(&report, files.text(LOCK).unwrap_or_default());
    if found.is_empty() && !output.status.success() {
        bail!("{} failed ({}):\n{report}", command::line(&deny), output.status);
    }
    Ok(found)
}

/// The errors and warnings in cargo-deny's report, which has an object a line.
fn findings(report: &str, lock: &str) -> Vec<Finding> {
    let objects = report.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found: Vec<_> = objects.filter_map(|object| finding(&object, lock)).collect();
    found.sort();
    found.dedup();
    found
}

fn finding(object: &Value, lock: &str) -> Option<Finding> {
    let fields = &object["fields"];
    let is_problem = match object["type"].as_str()? {
        "diagnostic" => matches!(fields["severity"].as_str()?, "error" | "warning"),
        "log" => matches!(fields["level"].as_str()?, "ERROR" | "WARN"),
        _ => false,
    };
    if !is_problem {
        return None;
    }
    let labels = fields["labels"].as_array().map(Vec::as_slice).unwrap_or_default();
    let details = labels.iter().map(|label| {
        let text = |key| label[key].as_str().unwrap_or_default();
        format!("{} {}", text("span"), text("message")).trim().replace('\n', ", ")
    });
    let message = fields["message"].as_str().unwrap_or("no message");
    let advice = match fields["code"].as_str().unwrap_or_default() {
        "duplicate" => "unify the versions, or add one to `skip` in .cargo/deny.toml with a reason",
        "rejected" => "use another crate, or allow the license in .cargo/deny.toml",
        "source-not-allowed" => "use the crate from crates.io",
        _ => "change the dependency or .cargo/deny.toml",
    };
    let krate = &fields["graphs"][0]["Krate"];
    let finding = match (krate["name"].as_str(), krate["version"].as_str()) {
        (Some(name), Some(version)) => {
            let line = lock_line(lock, name, version).unwrap_or(1);
            Finding::new(LOCK, line, format!("{name} {version}: {message}: {advice}"))
        }
        _ => Finding::new(CONFIG, 1, format!("{message}: {advice}")),
    };
    Some(finding.with_details(details.filter(|detail| !detail.is_empty()).collect()))
}

/// The line of `Cargo.lock` on which a package begins.
fn lock_line(lock: &str, name: &str, version: &str) -> Option<usize> {
    let (name, version) = (format!("name = \"{name}\""), format!("version = \"{version}\""));
    let lines: Vec<_> = lock.lines().collect();
    lines.windows(2).position(|pair| pair[0] == name && pair[1] == version).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK_TEXT: &str =
        "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n[[package]]\nname = \"a\"\nversion = \"2.0.0\"\n";

    #[test]
    fn errors_are_reported_at_the_crate_in_the_lock_file() {
        let report = r#"{"type":"diagnostic","fields":{"severity":"error","code":"rejected","message":"failed",
            "labels":[{"span":"GPL-3.0","message":"rejected"}],"graphs":[{"Krate":{"name":"a","version":"2.0.0"}}]}}"#
            .replace('\n', " ");
        let found = findings(&format!("not JSON\n{report}\n{report}\n"), LOCK_TEXT);
        let printed: Vec<_> = found.iter().map(ToString::to_string).collect();
        let expected = "Cargo.lock:5: a 2.0.0: failed: use another crate, or allow the license in .cargo/deny.toml\
                        \n    GPL-3.0 rejected";
        assert_eq!(printed, [expected]);
    }

    #[test]
    fn notes_and_the_summary_are_not_findings() {
        let report =
            "{\"type\":\"summary\",\"fields\":{}}\n{\"type\":\"diagnostic\",\"fields\":{\"severity\":\"note\"}}";
        assert_eq!(findings(report, LOCK_TEXT), []);
    }
}
